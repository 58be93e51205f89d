"""Tables of patterns, of which only those are tried that can match a text. Pure.

Reading a question tries hundreds of patterns, and most of them need a word that the question does not have. What a
pattern needs is read from its own parse tree, so it cannot go stale. It never rules out a match: what the tree does not
say plainly is not needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from re import _constants as sre  # type: ignore[attr-defined]  # no public name for the parse tree
from re import _parser  # type: ignore[attr-defined]
from typing import Any, Final, Generic, TypeAlias, TypeVar

T = TypeVar("T")

_LONGEST: Final = 5  # characters of the start of a word
_MANY: Final = 80  # texts that a part of a pattern may match, and that are followed behind others
_CLAUSES: Final = 2  # of a pattern, that are looked up
_CLASS: Final = 4  # characters of a class that are followed one by one
_EDGE: Final = "\b"  # in the text of a match: a word begins or ends here
_KEPT_LENGTH: Final = 600  # characters of a text whose starts are kept

_Texts: TypeAlias = frozenset[str]
_ANYTHING: Final[_Texts] = frozenset({""})


class PatternTable(Generic[T]):
    """Patterns, each with a value, in order."""

    def __init__(self, rows: Iterable[tuple[str | re.Pattern[str], T]]) -> None:
        self.rows: tuple[tuple[re.Pattern[str], T], ...] = tuple(
            (re.compile(pattern, re.IGNORECASE) if isinstance(pattern, str) else pattern, value)
            for pattern, value in rows
        )
        self._everything = (1 << len(self.rows)) - 1
        self._last = ("", self._everything)
        self._by_start = self._indexed()  # at once: the first question would spend its budget on it

    def _indexed(self) -> tuple[tuple[int, dict[str, int]], ...]:
        """For each clause: the rows without such a clause, and for each start of a word the rows that it is enough
        for. Rows are the bits of a number."""
        found: tuple[tuple[list[int], dict[str, int]], ...] = tuple(([], {}) for _ in range(_CLAUSES))
        for place, (pattern, _) in enumerate(self.rows):
            clauses = needed(pattern)
            for at, (without, by_start) in enumerate(found):
                if at >= len(clauses):
                    without.append(place)
                for start in clauses[at] if at < len(clauses) else ():
                    by_start[start] = by_start.get(start, 0) | 1 << place
        return tuple((sum(1 << place for place in without), by_start) for without, by_start in found)

    def _possible(self, text: str) -> int:
        """The rows that can match a text, as bits."""
        last, possible = self._last
        if last == text and last:
            return possible
        there, possible = starts(text), self._everything
        for without, by_start in self._by_start:
            rows = without
            for start in there & by_start.keys():
                rows |= by_start[start]
            possible &= rows
        self._last = text, possible
        return possible

    def possible(self, *texts: str) -> Iterator[tuple[re.Pattern[str], T]]:
        """The rows that can match one of some texts."""
        left = 0
        for text in texts:
            left |= self._possible(text)
        while left:
            lowest = left & -left
            yield self.rows[lowest.bit_length() - 1]
            left ^= lowest

    def following(self, text: str, place: int = 0) -> int | None:
        """The place of the first row from ``place`` on that can match a text, which may be another one each time."""
        left = self._possible(text) >> place
        return place + (left & -left).bit_length() - 1 if left else None

    def replaced(self: PatternTable[str], text: str) -> str:
        """The text, with what each pattern in turn matches replaced by its value."""
        place = self.following(text)
        while place is not None:
            pattern, value = self.rows[place]
            text = pattern.sub(value, text)
            place = self.following(text, place + 1)
        return text


def needed(pattern: re.Pattern[str]) -> tuple[frozenset[str], ...]:
    """The clauses of a pattern: in each match, a word begins with one of the starts of each clause."""
    walk = _PatternWalk()
    walk.cut(walk.sequence(_parser.parse(pattern.pattern, pattern.flags)))
    return tuple(_best(walk.clauses)[:_CLAUSES])


def starts(text: str) -> frozenset[str]:
    """How the words of a text begin, in small letters: each start of up to five characters, with the space behind a
    shorter word. Any digit is a 0, and is one of the starts wherever it stands."""
    return _starts(text) if len(text) <= _KEPT_LENGTH else _starts.__wrapped__(text)


@lru_cache(maxsize=256)  # several tables look at the same text
def _starts(text: str) -> frozenset[str]:
    plain = text.translate(_PLAIN_ASCII) if text.isascii() else "".join(map(_plain, text))
    words = {f"{word} "[:_LONGEST] for word in plain.split(" ") if word}
    found = {word[:length] for word in words for length in _LENGTHS}
    return frozenset(found | {"0"} if "0" in plain else found)


_LENGTHS: Final = range(1, _LONGEST + 1)


@lru_cache(maxsize=4_096)
def _plain(char: str) -> str:
    """A character as it stands in a start: without its case, and any mark as a space, any foreign letter as one."""
    char = _ASCII_TWINS.get(char, char).lower()
    if char.isdecimal():
        return "0"
    if not (char.isalnum() or char == "_"):
        return " "
    return char if char.isascii() else _LETTER


_LETTER: Final = "\x00"  # any letter that is not ASCII
# What a pattern that ignores case takes for an ASCII letter.
_ASCII_TWINS: Final = {"\u0130": "i", "\u0131": "i", "\u017f": "s", "\u212a": "k"}
_PLAIN_ASCII: Final = {code: _plain(chr(code)) for code in range(128)}


class _PatternWalk:
    """A walk through the parse tree of a pattern: the texts that a match may have up to here, and what it must have."""

    def __init__(self) -> None:
        self.clauses: list[frozenset[str]] = []
        self.is_cut = False  # the texts begin somewhere within the match

    def cut(self, texts: _Texts) -> _Texts:
        """Require one of these texts, and go on with anything."""
        self.is_cut = True
        found = frozenset(map(_start, texts))
        if found and "" not in found:
            self.clauses.append(found)
        return _ANYTHING

    def sequence(self, nodes: Iterable[tuple[Any, Any]]) -> _Texts:
        texts, letters = _ANYTHING, ""
        for op, value in nodes:
            if op is sre.LITERAL and (char := _plain(chr(value))) != _LETTER:
                letters += char
                continue
            texts, letters = _joined(texts, (letters,)), ""
            texts = _NODES.get(op, _PatternWalk.unknown)(self, texts, value)
        return _joined(texts, (letters,))

    def unknown(self, texts: _Texts, value: Any) -> _Texts:
        return self.cut(texts)

    def nothing(self, texts: _Texts, value: Any) -> _Texts:
        return frozenset()

    def as_before(self, texts: _Texts, value: Any) -> _Texts:
        return texts

    def of_class(self, texts: _Texts, value: Sequence[tuple[Any, Any]]) -> _Texts:
        chars = _chars(value)
        return _joined(texts, chars) if chars and _are_few(texts, chars) else self.cut(texts)

    def edge(self, texts: _Texts, value: Any) -> _Texts:
        if value is sre.AT_NON_BOUNDARY:
            return texts
        return _joined(texts, (_EDGE,))  # a text has a space before its start and behind its end

    def group(self, texts: _Texts, value: Any) -> _Texts:
        return self.inside(texts, value[-1])

    def inside(self, texts: _Texts, nodes: Any) -> _Texts:
        inner = _PatternWalk()
        return self.behind(texts, inner, inner.sequence(nodes))

    def behind(self, texts: _Texts, inner: _PatternWalk, found: _Texts) -> _Texts:
        """A part of a pattern, in which another walk found these texts."""
        if not inner.is_cut and _are_few(texts, found):
            return _joined(texts, found)
        self.cut(texts)
        self.clauses += inner.clauses
        return found

    def branch(self, texts: _Texts, value: Any) -> _Texts:
        walks = [_PatternWalk() for _ in value[1]]
        found = [walk.sequence(nodes) for walk, nodes in zip(walks, value[1], strict=True)]
        every = frozenset[str]().union(*found)
        if not any(walk.is_cut for walk in walks) and _are_few(texts, every):
            return _joined(texts, every)
        self.cut(texts)
        for walk, last in zip(walks, found, strict=True):
            walk.cut(last)
        if all(walk.clauses for walk in walks):  # whatever is taken needs something
            self.clauses.append(frozenset[str]().union(*(_best(walk.clauses)[0] for walk in walks)))
        return every

    def repeat(self, texts: _Texts, value: Any) -> _Texts:
        low, high, nodes = value
        inner = _PatternWalk()
        found = inner.sequence(nodes)
        is_once = high == 1 or found == _SPACE  # several spaces are one
        if low == 0:
            is_short = is_once and not inner.is_cut and _are_few(texts, found)
            return texts | _joined(texts, found) if is_short else self.cut(texts)
        texts = self.behind(texts, inner, found)
        if is_once:
            return texts
        self.cut(texts)
        return frozenset(text[-1:] for text in found)

    def looked_at(self, texts: _Texts, value: Any) -> _Texts:
        """What must stand before or behind is required, too, and takes no place."""
        inner = _PatternWalk()
        inner.cut(inner.sequence(value[1]))
        self.clauses += inner.clauses
        return texts


_NODES: Final[dict[Any, Callable[[_PatternWalk, _Texts, Any], _Texts]]] = {
    sre.IN: _PatternWalk.of_class,
    sre.AT: _PatternWalk.edge,
    sre.SUBPATTERN: _PatternWalk.group,
    sre.ATOMIC_GROUP: _PatternWalk.inside,
    sre.BRANCH: _PatternWalk.branch,
    sre.MAX_REPEAT: _PatternWalk.repeat,
    sre.MIN_REPEAT: _PatternWalk.repeat,
    sre.POSSESSIVE_REPEAT: _PatternWalk.repeat,
    sre.ASSERT: _PatternWalk.looked_at,
    sre.ASSERT_NOT: _PatternWalk.as_before,
    sre.FAILURE: _PatternWalk.nothing,
}


def _joined(texts: _Texts, more: Collection[str]) -> _Texts:
    if texts == _ANYTHING:
        return frozenset(more)
    return frozenset([text + other for other in more for text in texts])


def _are_few(texts: Collection[str], more: Collection[str]) -> bool:
    return len(texts) * len(more) <= max(_MANY, len(texts), len(more))


def _start(text: str) -> str:
    """What of the text of a match is looked up: the start of its longest word, or a digit; empty if it has neither."""
    first, *words = _EDGES.sub(" ", text).split(" ")  # the first word may begin before the text
    ended = [*(f"{word} " for word in words[:-1]), *words[-1:]]
    longest = max(ended, key=len, default="")[:_LONGEST]
    return longest or ("0" if "0" in first else "")


def _best(clauses: Sequence[frozenset[str]]) -> list[frozenset[str]]:
    """The clauses that rule out most texts first."""
    return sorted(clauses, key=lambda clause: (-min(map(len, clause)), len(clause)))


def _chars(parts: Sequence[tuple[Any, Any]]) -> frozenset[str]:
    """The characters of a class, as they stand in starts; empty if they are many."""
    found: set[str] = set()
    for op, value in parts:
        if op is sre.LITERAL:
            found.add(_plain(chr(value)))
        elif op is sre.CATEGORY and value in _CATEGORIES:
            found.add(_CATEGORIES[value])
        elif op is sre.RANGE and value[1] - value[0] < _CLASS:
            found |= {_plain(chr(code)) for code in range(value[0], value[1] + 1)}
        elif op is sre.RANGE and all(chr(code).isdecimal() for code in value):
            found.add("0")
        else:
            return frozenset()
    return frozenset() if _LETTER in found or len(found) > _CLASS else frozenset(found)


_CATEGORIES: Final = {sre.CATEGORY_SPACE: " ", sre.CATEGORY_NOT_WORD: " ", sre.CATEGORY_DIGIT: "0"}
_EDGES: Final = re.compile(rf"[ {_EDGE}]+")
_SPACE: Final[_Texts] = frozenset({" "})
