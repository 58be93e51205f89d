"""Long items in passages: what is embedded, ranked and quoted is a passage, what is found is its item. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Final

import msgspec

from sabir.search.items.item import Item
from sabir.search.query.words import sentences

WHOLE: Final = 320  # words of an item that stays in one passage
LENGTH: Final = 200  # words of a passage of a longer one; the embedding model reads about that much


class Passage(msgspec.Struct, frozen=True):
    """A stretch of an item's text. ``key`` names its content, so that a vector can never be stale."""

    key: int
    ordinal: int
    text: str


def passages(item: Item) -> Iterator[Passage]:
    """The passages of an item, at least one."""
    whole = "\n".join(part for part in (item.description, item.text) if part)
    texts = [whole] if len(whole.split()) <= WHOLE else list(_split(whole))
    fingerprint = item.fingerprint
    for ordinal, text in enumerate(texts or [""]):
        yield Passage(_key(f"{fingerprint}:{ordinal}"), ordinal, text)


def embedded(name: str, passage: str) -> str:
    """What stands for a passage in the space of meanings: its item's name, then its words."""
    return passage if passage.casefold().startswith(name.casefold()) else f"{name}. {passage}"


def item_key(site: str, item_id: str) -> int:
    """A number for an item, the same wherever it is computed."""
    return _key(f"{site}\n{item_id}")


def _key(text: str) -> int:
    # 62 bits: it must fit a signed 64-bit integer everywhere, and a collision is once in ten million million.
    return int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()) >> 2


def _split(text: str) -> Iterator[str]:
    """One sentence a line, so that two that stand apart in the source are never read as one."""
    held: list[str] = []
    count = 0
    for sentence in _pieces(text):
        words = len(sentence.split())
        if held and count + words > LENGTH:
            yield "\n".join(held)
            held, count = held[-1:] if len(held[-1].split()) < 60 else [], 0
            count = sum(len(item.split()) for item in held)
        held.append(sentence)
        count += words
    if held:
        yield "\n".join(held)


def _pieces(text: str) -> Iterator[str]:
    for sentence in sentences(text):
        words = sentence.split()
        if len(words) <= LENGTH:
            yield sentence
        else:
            for at in range(0, len(words), LENGTH):
                yield " ".join(words[at : at + LENGTH])
