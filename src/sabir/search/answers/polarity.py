"""Whether a sentence says that something is so, or that it is not. Pure.

A sentence is read clause by clause: "Hens are allowed, cockerels are not." says yes of hens and no of cockerels. What
depends on a condition that the question does not name ("only on Saturdays", "from October") is neither.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from itertools import takewhile
from typing import Final

from sabir.search.query.words import STOPWORDS, tokens

Same = Callable[[str, str], bool]  # whether a word of a question and one of a sentence mean the same

# Where a clause ends that may say the opposite of the next.
_CLAUSES: Final = re.compile(
    r"(?<=\byes),\s*|(?<=\bno),\s*|\s*(?:;|(?<!\d):|:(?!\d))\s*|\s+[–—-]\s+|,?\s+\b(?:but|however|whereas|although|though|while)\b\s*"
    r"|,\s+(?=(?:usually|normally|mostly|often|typically)\s+(?:within|in|by|after|from|on|at|the|ready|next|two|three)\b)"
    r"|,\s+(?=(?:and\s+|or\s+)?(?:not|no|never|except|only|apart|other|without|unless)\b)"
    r"|,\s+(?=\w+(?:\s+\w+)?\s+(?:is|are|may|must|can|cannot|do|does|has|have)\b)|\s+and\s+(?=(?:no|not|never|cannot)\b)"
)
_DENIES: Final = re.compile(
    r"\b(?:not(?!\s+(?:only|just|far|long))|no(?!\s+(?:longer\s+than|later|matter|more\s+than))|never|without|neither|nor|cannot|nobody|none|kein\w*|nicht|ohne|sin|sans|pas)\b|n['’]t\b"
    r"|\b(?:forbidden|prohibited|banned|impossible|excluded|unavailable|unable|refused?)\b",
    re.IGNORECASE,
)
_AFFIRMED: Final = re.compile(r"\b(?:yes|ja|oui|sí)\W*$", re.IGNORECASE)
_EXCEPT: Final = re.compile(r"\b(?:except(?:\s+for|ing)?|apart\s+from|other\s+than|excluding|unless)\b", re.IGNORECASE)
_ONLY: Final = re.compile(r"(?<!\bthe\s)(?<!\bour\s)\bonly\b", re.IGNORECASE)  # "the only lighthouse" denies nothing
_HEDGED: Final = re.compile(
    r"\b(?:some|most|many|usually|sometimes|may\s+be|might|nearly|almost|partly|limited|planned|if|when|once|until)\b",
    re.IGNORECASE,
)
# Words that rule each other out.
_OPPOSITES: Final = (
    ("open opened", "closed close shut"), ("free", "pay paid charge cost fee"), ("indoor inside", "outdoor outside"),
    ("included include", "extra"), ("hot heated warm", "cold unheated"), ("automatic", "manual"),
    ("available left", "full booked"), ("allowed permitted", "forbidden prohibited banned"), ("new", "used"),
    ("online", "person"), ("possible", "impossible"), ("compulsory mandatory", "optional voluntary"),
)  # fmt: skip
OPPOSITE: Final = {
    word: frozenset(other.split()) for pair in _OPPOSITES for one, other in (pair, pair[::-1]) for word in one.split()
}
_NEGATIVE: Final = ("un", "non", "in", "im")


def clauses(sentence: str) -> list[str]:
    """The parts of a sentence that may each say yes or no, with single blanks."""
    return [part for part in _CLAUSES.split(" ".join(sentence.split())) if part and part.strip(" .,")]


def has_other_subject(clause: str, words: Sequence[str], same: Same) -> bool:
    """Whether a clause denies a thing that some words do not name: "no dinner on Sundays", if breakfast is asked for.
    "No cash" is about cash, "not inside" about what was said before."""
    match = _NO.match(clause)
    behind = tokens(clause[match.end() : match.end() + _NEAR])[:_NEXT] if match is not None else []
    subject = list(takewhile(lambda word: word not in _NO_SUBJECT and word not in OPPOSITE, behind))
    return bool(subject) and not any(
        same(word, other) or opposes(word, (other,)) for word in words for other in subject
    )


_NO: Final = re.compile(
    r"\W*(?:(?:but|and)\s+)?(?:no|kein\w*|sin|pas\s+d(?:e\b|['’])|aucun\w*|ning[uú]n\w*)(?:\s+|(?<=['’]))",
    re.IGNORECASE,
)
_NEAR: Final = 60  # characters
_NO_SUBJECT: Final = STOPWORDS.union(
    tokens(
        """upstairs downstairs indoors outdoors today tonight tomorrow monday tuesday wednesday thursday friday
        saturday sunday weekend"""
    )
)


def opposes(word: str, said: Collection[str]) -> bool:
    """Whether one of some words rules out another: "closed" rules out "open", "unheated" rules out "heated"."""
    return not OPPOSITE.get(word, frozenset()).isdisjoint(said) or any(f"{start}{word}" in said for start in _NEGATIVE)


def with_sides(words: Sequence[str], question: str, sentence: str) -> tuple[str, ...]:
    """Some words of a question, and those of its words that rule out another, if a sentence has them: "inside"."""
    there = tokens(sentence)
    return (*words, *(word for word in tokens(question) if word in OPPOSITE and word in there and word not in words))


# "Do I have to bring a towel?" is denied by "Towels are included.", and not affirmed by "Bring a friend.".
_OBLIGES: Final = re.compile(
    r"\b(?:do|does|will|must|should)\s+(?:i|we|you|they|he|she|one|\w+s?)\s+(?:have\s+to|need|require)|^\W*must\b"
    r"|\b(?:is|are)\b.*\b(?:required|needed|necessary|compulsory|mandatory|obligatory|obligatoire|nécessaire"
    r"|obligatorio|obligatoria|necesario|necesaria|pflicht|nötig|erforderlich|必要|必須)\b",
    re.IGNORECASE,
)
_MUST: Final = re.compile(
    r"\b(?:must|need(?:s|ed)?|ha(?:s|ve)\s+to|require[sd]?|compulsory|mandatory|obligatory|necessary|bring|by\s+appointment)\b",
    re.IGNORECASE,
)
_GIVEN: Final = re.compile(
    r"\b(?:included|provided|supplied|optional|voluntary|borrow(?:ed)?|free|self-\w+|come\s+with|without)\b",
    re.IGNORECASE,
)


def speaks_of_duty(sentence: str) -> bool:
    """Whether a sentence says that something must be, or need not be."""
    return _MUST.search(sentence) is not None or _GIVEN.search(sentence) is not None


def obliges(question: str) -> bool:
    """Whether it asks if something has to be: "do I need a ticket?"."""
    return _OBLIGES.search(question) is not None


def says(sentence: str, words: Sequence[str], same: Same, *, must: bool = False) -> bool | None:
    """Whether a sentence affirms or denies what some words say; None if it depends, or says neither.

    The clause that has the most of the words decides, of several the one with the first word. ``same`` compares a word
    with one of the sentence. ``must``: it is asked whether that has to be.
    """
    if must and not _MUST.search(sentence):  # "no audition" denies that one must; "not refunded" says nothing of it
        return False if _GIVEN.search(sentence) or _is_none(sentence, words, same) else None
    rows = [(clause, tokens(clause)) for clause in clauses(sentence)]
    counts = _counts(rows, words, same)
    highest = max(counts, default=(0, False))
    if not highest[0]:
        return None
    verdicts = {
        _of_clause(clause, said, words, same)
        for (clause, said), count in zip(rows, counts, strict=True)
        if count == highest
    }
    is_so = verdicts.pop() if len(verdicts) == 1 else None
    if is_so and _is_left_open(rows, counts, words, same):
        return None
    return None if must and is_so and not _MUST.search(sentence) else is_so


def _counts(rows: Sequence[tuple[str, Sequence[str]]], words: Sequence[str], same: Same) -> list[tuple[int, bool]]:
    """How many of some words each clause has, and whether it has the first, which is what the question is about: "can
    I drink water before a fasting test?".

    A clause that goes on after a "but not" leaves out what was said before: "dogs are welcome in the garden, but not
    inside". It counts with that, if it has a word of its own and denies nothing else: "no dinner on Sundays".
    """
    counts: list[tuple[int, bool]] = []
    before = frozenset[str]()
    for clause, said in rows:
        own = frozenset(word for word in words if _has(word, said, same))
        goes_on = own - before and _GOES_ON.match(clause) and not has_other_subject(clause, words, same)
        whole = own | before if goes_on else own
        counts.append((len(whole), words[0] in whole))
        before = own
    return counts


def _is_left_open(
    rows: Sequence[tuple[str, Sequence[str]]], counts: Sequence[tuple[int, bool]], words: Sequence[str], same: Same
) -> bool:
    """Whether one of some words is only in a clause that denies another thing: of "Dogs are welcome in the garden, no
    cats inside" whether dogs may come inside."""
    highest = max(counts)
    said = [other for (_, there), count in zip(rows, counts, strict=True) if count == highest for other in there]
    others = [other for clause, there in rows if has_other_subject(clause, words, same) for other in there]
    return any(_has(word, others, same) and not _has(word, said, same) for word in words)


_GOES_ON: Final = re.compile(r"\W*(?:not|never|except|nicht|kein\w*|pas|no)\b", re.IGNORECASE)


def _is_none(sentence: str, words: Sequence[str], same: Same) -> bool:
    """Whether a sentence says that there is none of what some words name: "no audition"."""
    behind = (tokens(sentence[match.end() :])[:_NEXT] for match in _DENIES.finditer(sentence))
    return any(same(word, other) for row in behind for other in row for word in words)


_NEXT: Final = 2  # words after a denial that it is about


def _has(word: str, said: Collection[str], same: Same) -> bool:
    return opposes(word, said) or any(same(word, other) for other in said)


def _of_clause(clause: str, said: Sequence[str], words: Sequence[str], same: Same) -> bool | None:
    exception = _EXCEPT.search(clause)
    if exception is not None:
        after = tokens(clause[exception.end() :])
        is_excepted = any(same(word, other) for word in words for other in after)
        before = _of_clause(clause[: exception.start()], said, words, same)
        return (not before if is_excepted else before) if before is not None else None
    if (only := _ONLY.search(clause)) is not None:
        return _with_only(tokens(clause[: only.start()]), tokens(clause[only.end() :]), words, same)
    if _AFFIRMED.search(clause):
        return True
    opposing = [word for word in words if opposes(word, said) and not any(same(word, other) for other in said)]
    opposed = bool(opposing)
    against = frozenset[str]().union(*(OPPOSITE.get(word, frozenset()) for word in opposing))
    # What rules out "allowed" is "forbidden", which is no second denial.
    denied = any(match.group().casefold() not in against for match in _DENIES.finditer(clause))
    denied = denied or _is_free_of(clause, words)
    if not denied and not opposed and _HEDGED.search(clause):
        return None
    return denied is opposed


def _is_free_of(clause: str, words: Sequence[str]) -> bool:
    """Whether a clause says that something has none of a thing: "gluten free"."""
    return "free" not in words and any(word in words for found in _FREE_OF.findall(clause) for word in tokens(found))


_FREE_OF: Final = re.compile(r"\b(\w+)[- ]free\b", re.IGNORECASE)


def _with_only(before: Sequence[str], after: Sequence[str], words: Sequence[str], same: Same) -> bool | None:
    """ "Online only." affirms, unless something else was asked for: "it covers the building only". "Only assistance
    dogs" denies dogs in general."""
    meant = [any(same(word, other) for word in words) for other in after]
    if not after and len(before) > 1 and any(same(word, other) for word in words for other in before[:-1]):
        return True if any(same(word, before[-1]) for word in words) else None
    if not after or all(meant):
        return True
    if any(meant) and not meant[0]:
        return False
    return None


_REFUSES: Final = re.compile(
    r"^\W*(?:not|never|none|only|unfortunately|sorry|i['’]m\s+afraid|leider|nur)\b", re.IGNORECASE
)


def refuses(answer: str) -> bool:
    """Whether an answer begins by denying what was asked: "Not yet.", "Only assistance dogs."."""
    return _REFUSES.match(answer) is not None
