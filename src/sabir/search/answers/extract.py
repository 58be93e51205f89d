"""Answers from the items' own sentences (W-12), chosen by relevance to the question, each cited. Pure.

Every sentence is in its item verbatim; nothing is joined, cut or rephrased.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from sabir.search.engine.base import Hit
from sabir.search.items.types import is_a
from sabir.search.query.words import content_words, sentences

MAX_ITEMS: Final = 8  # found items that are read
_LENGTH: Final = range(4, 61)  # words of a sentence that can stand alone
_LINE: Final = range(3, 61)  # words of a line that is not a sentence
_PAGES: Final = ("Article", "WebPage")


_POINT: Final = 0.4  # share of the best sentence's relevance
# In "how do I make ramen?", what matters is ramen.
_DOING: Final = frozenset(
    {"make", "do", "go", "use", "take", "try", "cook", "eat", "buy", "see", "know", "way", "thing"}
)
_NAMED: Final = 0.5  # weight of a question word that only the item's name contains
_WELL: Final = 0.7  # share of the best item's score


class Quote(msgspec.Struct, frozen=True):
    """A sentence of an item, and its position."""

    text: str
    item: str  # the item's id
    name: str
    url: str


def summarized(question: str, hits: Sequence[Hit], count: int = 4) -> tuple[Quote, ...]:
    """One sentence for each of the best items."""
    return _chosen(question, hits, count, per_item=1)


def generated(question: str, hits: Sequence[Hit], count: int = 6) -> tuple[Quote, ...]:
    """The sentences that together cover most of the question, in the order of their items."""
    return _chosen(question, hits, count, per_item=3)


def rendered(quotes: Iterable[Quote], pages: Sequence[str] = ()) -> str:
    """Quotes as one text, each followed by the number of its source: its position among ``pages``, the results shown
    with it, or as counted by ``sources``."""
    quotes = tuple(quotes)
    numbers = {url: number for number, url in enumerate(dict.fromkeys((*pages, *sources(quotes))), 1)}
    return " ".join(f"{quote.text} [{numbers[quote.url]}]" for quote in quotes)


def sources(quotes: Iterable[Quote]) -> tuple[str, ...]:
    """The pages of the quotes, each once, in order."""
    return tuple(dict.fromkeys(quote.url for quote in quotes))


class _Candidate(msgspec.Struct, frozen=True):
    quote: Quote
    words: frozenset[str]
    place: int  # of the sentence in its item
    rank: int  # of the item
    weight: float  # of the item, from its score
    about: frozenset[str] = frozenset()  # words of the question that only the item's name contains


def _chosen(question: str, hits: Sequence[Hit], count: int, per_item: int) -> tuple[Quote, ...]:
    asked = content_words(question)
    wanted = Counter([word for word in asked if word not in _DOING] or asked)
    candidates = list(_candidates(hits, wanted))
    rarity = _rarity(candidates)
    candidates = (_to_the_point if per_item > 1 else _fitting)(candidates, wanted, rarity)
    covered: set[str] = set()
    taken: Counter[int] = Counter()
    chosen: list[_Candidate] = []
    while candidates and len(chosen) < count:
        best = max(candidates, key=lambda candidate: _worth(candidate, wanted, rarity, covered, taken[candidate.rank]))
        if chosen and _worth(best, wanted, rarity, covered, taken[best.rank]) <= 0:
            break
        chosen.append(best)
        covered |= best.words
        taken[best.rank] += 1
        candidates = [
            candidate
            for candidate in candidates
            if candidate is not best and taken[candidate.rank] < per_item and not _repeats(candidate.words, covered)
        ]
    chosen.sort(key=lambda item: (item.rank, item.place))
    return tuple(item.quote for item in chosen)


def _to_the_point(candidates: list[_Candidate], wanted: Counter[str], rarity: dict[str, float]) -> list[_Candidate]:
    """Those that are relevant to the question; all, if none is."""
    said = [_asked(candidate, wanted, rarity) for candidate in candidates]
    least = _POINT * max(said, default=0.0)
    return [item for item, much in zip(candidates, said, strict=True) if much >= least]


def _fitting(candidates: list[_Candidate], wanted: Counter[str], rarity: dict[str, float]) -> list[_Candidate]:
    """Those of items that match well, and relevant ones of others; without any, all."""
    if not any(_any(candidate.words, wanted) for candidate in candidates):
        return candidates
    return [
        candidate
        for candidate in candidates
        if candidate.weight >= _WELL or candidate.about or _any(candidate.words, wanted)
    ]


def _candidates(hits: Sequence[Hit], wanted: Container[str]) -> Iterator[_Candidate]:
    top = max((hit.score for hit in hits), default=0.0) or 1.0
    for rank, hit in enumerate(hits[:MAX_ITEMS]):
        texts = (hit.item.description, hit.passage, hit.item.text[:20_000])
        lines = dict.fromkeys(sentence for text in texts for sentence in sentences(text))
        quotable = _quotable(hit, lines, wanted)
        said = frozenset[str]().union(*(words for _, words in quotable))
        about = frozenset(word for word in content_words(hit.item.name) if word in wanted and word not in said)
        for place, (sentence, words) in enumerate(quotable):
            quote = Quote(sentence, hit.item.id, hit.item.name, hit.item.page)
            yield _Candidate(quote, words, place, rank, hit.score / top, about)


def _quotable(hit: Hit, lines: Iterable[str], wanted: Container[str]) -> list[tuple[str, frozenset[str]]]:
    """What can be quoted of an item, with its words: its whole sentences.

    A page of lists ("Saturday: 10 to 14") has none, so its lines are used; a page whose sentences do not answer the
    question may do so in a line.
    """
    known = [(line, frozenset(content_words(line))) for line in lines]
    whole = [item for item in known if stands_alone(item[0])]
    if not whole:
        return [item for item in known if len(item[0].split()) in _LINE]
    pages = any(is_a(kind, page) for kind in hit.item.types for page in _PAGES)
    if pages and not any(_any(words, wanted) for _, words in whole):
        return [item for item in known if item in whole or (len(item[0].split()) in _LINE and _any(item[1], wanted))]
    return whole


def _any(words: Iterable[str], wanted: Container[str]) -> bool:
    return any(word in wanted for word in words)


def stands_alone(sentence: str) -> bool:
    """Whether it is a whole sentence, not a line of a list: it starts and ends like one and has a sensible length."""
    return (
        len(sentence.split()) in _LENGTH
        and sentence[-1] in ".!?…\"'”’)"
        and (sentence[0].isupper() or sentence[0].isdigit() or sentence[0] in "\"'“‘(")
    )


def _rarity(candidates: Sequence[_Candidate]) -> dict[str, float]:
    having = Counter(word for candidate in candidates for word in candidate.words)
    names = {word: 1 for candidate in candidates for word in candidate.about}
    return {word: math.log(1 + len(candidates) / count) for word, count in (names | having).items()}


def _worth(
    candidate: _Candidate, wanted: Counter[str], rarity: dict[str, float], covered: set[str], taken: int
) -> float:
    new = candidate.words - covered
    asked = _asked(candidate, wanted, rarity)
    news = sum(rarity[word] for word in new) / (4 + len(candidate.words))
    first = 0.6 if candidate.place == 0 else 0.2 / (1 + candidate.place)
    return candidate.weight * (asked * (1.0 if new & wanted.keys() else 0.5) + news + first) / (1 + 0.7 * taken)


def _asked(candidate: _Candidate, wanted: Counter[str], rarity: dict[str, float]) -> float:
    """How much of the question a sentence covers, partly by the name of its item."""
    own = sum(rarity[word] * wanted[word] for word in candidate.words if word in wanted)
    return own + _NAMED * sum(rarity[word] * wanted[word] for word in candidate.about - candidate.words)


def _repeats(words: frozenset[str], covered: set[str]) -> bool:
    return bool(words) and len(words & covered) / len(words) > 0.8
