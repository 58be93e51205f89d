"""Whether two answers say the same, judged by what they name rather than how they are phrased.

"Paris." and "The capital of France is Paris." agree: without the words of the question and without stop words, both say
Paris. Numbers are compared as numbers, and an answer with a negation never agrees with one without.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_WORD: Final = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+(?:'[^\W\d_]+)?")
_NUMBER: Final = re.compile(r"\d+(?:[.,]\d+)*")


def _words(text: str) -> list[str]:
    return text.split()


_NEGATIONS: Final = frozenset(_words("not no never none cannot nicht kein keine nie non pas jamais ni nunca ninguno"))
_SMALL: Final = frozenset(
    _words(
        """a an the is are was were be been it its this that these those of in on at to for from by with as and so very
        i you he she we they my your our there here has have had do does did will would can could about answer think
        believe sure yes der die das ein eine ist sind war es von im in am zu und ja le la les un une est sont de du des
        en et oui il elle el los las una es son del y sí si"""
    )
)
_NUMBER_WORDS: Final[Mapping[str, str]] = {
    word: str(number)
    for number, word in enumerate(_words("zero one two three four five six seven eight nine ten eleven twelve"))
}
_SHARED: Final = 0.6  # of the words, for two answers that name nothing


def agree(one: str, other: str, question: str = "") -> bool:
    """Whether two answers to a question say the same."""
    first, second = _meaning(one, question), _meaning(other, question)
    if first.negated != second.negated or first.numbers != second.numbers:
        return False
    if first.names and second.names:
        return first.names == second.names
    if not first.words or not second.words:
        return bool(first.numbers) or first.words == second.words
    shared = len(first.words & second.words)
    return shared / len(first.words | second.words) >= _SHARED or shared == min(len(first.words), len(second.words))


class _Meaning:
    """What an answer names, counts and denies."""

    __slots__ = ("names", "negated", "numbers", "words")

    def __init__(self, names: frozenset[str], words: frozenset[str], numbers: frozenset[float], negated: bool) -> None:
        self.names = names
        self.words = words
        self.numbers = numbers
        self.negated = negated


def _meaning(text: str, question: str) -> _Meaning:
    asked = {_stem(word) for word in _WORD.findall(question)}
    names, words, numbers = set(), set(), set()
    negated = False
    for word in _WORD.findall(text.replace("n't", " not")):
        plain = _NUMBER_WORDS.get(word.lower(), word)
        if _NUMBER.fullmatch(plain):
            numbers.add(_number(plain))
        elif plain.lower() in _NEGATIONS:
            negated = True
        elif plain.lower() not in _SMALL and _stem(plain) not in asked:
            words.add(_stem(plain))
            if plain[0].isupper():
                names.add(_stem(plain))
    return _Meaning(frozenset(names), frozenset(words), frozenset(numbers), negated)


def _stem(word: str) -> str:
    plain = word.lower().removesuffix("'s")
    return plain[:-1] if len(plain) > 3 and plain.endswith("s") and not plain.endswith("ss") else plain


def _number(text: str) -> float:
    """``1,299.50`` and ``1.299,50`` are equal; a mark before three digits separates thousands."""
    whole = re.sub(r"[.,](?=\d{3}(?:\D|$))", "", text)
    return float(whole.replace(",", "."))


def groups(answers: Mapping[str, str], question: str = "") -> list[list[str]]:
    """Group the sources that agree, largest group first; of equals, the one with the earlier source."""
    found: list[list[str]] = []
    for source, text in answers.items():
        for group in found:
            if all(agree(text, answers[other], question) for other in group):
                group.append(source)
                break
        else:
            found.append([source])
    order = {source: place for place, source in enumerate(answers)}
    return sorted(found, key=lambda group: (-len(group), order[group[0]]))
