"""Splits long items into passages: passages are embedded, ranked and quoted; items are found. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Final

import msgspec

from sabir.search.items.item import BREAK, Item
from sabir.search.query.words import sentences

WHOLE: Final = 320  # words of an item that stays one passage
LENGTH: Final = 200  # words per passage of a longer one; about what the embedding model reads


class Passage(msgspec.Struct, frozen=True):
    """A section of an item's text. ``key`` identifies its content, so that a vector can never be stale."""

    key: int
    ordinal: int
    text: str


def passages(item: Item) -> Iterator[Passage]:
    """The passages of an item, at least one; none goes beyond a break in its text."""
    whole = "\n".join(part for part in (item.description, item.text) if part)
    sections = [section.strip() for section in whole.split(BREAK)]
    texts = [text for section in sections if section for text in _parts(section)]
    fingerprint = item.fingerprint
    for ordinal, text in enumerate(texts or [""]):
        yield Passage(_key(f"{fingerprint}:{ordinal}"), ordinal, text)


def embedded(name: str, passage: str) -> str:
    """The text that is embedded for a passage: its item's name, then its words."""
    return passage if passage.casefold().startswith(name.casefold()) else f"{name}. {passage}"


def item_key(site: str, item_id: str) -> int:
    """A number for an item, the same wherever it is computed."""
    return _key(f"{site}\n{item_id}")


def _key(text: str) -> int:
    # 62 bits: it must fit a signed 64-bit integer everywhere; a collision is a one in ten trillion event.
    return int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()) >> 2


def _parts(section: str) -> list[str]:
    return [section] if len(section.split()) <= WHOLE else list(_split(section))


def _split(text: str) -> Iterator[str]:
    """One sentence per line, so that separate sentences of the source are never read as one."""
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
