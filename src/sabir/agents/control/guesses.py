"""What a control message probably asks for if the grammar does not understand it. Pure.

A guess never acts. A question on a topic is answered; an act is proposed to the caller, who confirms it with a yes. It
is proposed only if the terms are in the sentence, and if no word denies, doubts, reports or sets a condition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from sabir.message import Message

from .intents import Wish, is_labelled, read_words
from .lexicon import NUMBER, UNKNOWN, Sentence, Tag, lexicons
from .meanings import NONE, QUESTION, LikelyReading, features, model, reading_of
from .opposites import is_opposed
from .values import accepted, reads, size

_LEAST_ACT: Final = 0.3
_LEAST_POLITE: Final = 0.05  # of an act with a "please", if no other act is nearly as likely
_LEAST_SHARE: Final = 0.6
_LEAST_OTHER: Final = 0.6  # where the rules see another topic
_LEAST_QUESTION: Final = 0.05  # of a topic; a wrong one does no harm
_LEAST_TOPIC: Final = 0.5  # its share
_MOST_LETTERS: Final = 300  # of a text with a proposal
_MOST_SENTENCES: Final = 2
_QUOTES: Final = frozenset('"“”„«»‹›`()[]{}<>#*/:…')
# Tags that deny, doubt, ask or set a condition.
_FLAGS: Final = frozenset({
    "should_not", "reluctant", "not_asking", "want_not", "past", "but", "before", "to_them", "which",
    "who", "how_many", "how_long", "no_use", "need_not", "tell", "capable",
})  # fmt: skip
_REFUSALS: Final = frozenset({"no", "nope", "nah", "nein", "nö", "non"})  # "no thanks, …"
_DOUBTS: Final = frozenset({"could", "should", "would", "shall"})  # but in "could you …?" and "…, please"
_POLITE_OPENERS: Final = frozenset({"request", "request_if_asked", "would_mind", "could", "would_like"})
# Phrases that have a "no" and still ask for the act; of each group, one must be there.
_NOBODY: Final = ("nobody_knows", "nobody_knew", "to_nobody", "not_shared", "unnamed", "tell", "share", "shared", "use")
_DENIED_BY: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "limits": (("below", "below_sent"),),
    "anonymous on": (_NOBODY, ("name", "identity")),  # "don't tell anybody who I am"
    "anonymous off": (("no_longer", "no_need"),),
    "withhold": (("location",),),
    "stream off": (("no_longer", "no_need", "wait_whole", "wait_until"),),
}
_TOPICS_OF_ACTS: Final[Mapping[str, str]] = {
    "erase": "sessions", "end": "sessions", "accept": "policy", "withhold": "policy", "anonymous on": "anonymous",
    "anonymous off": "anonymous", "cancel": "cancel", "formats": "accept", "languages": "accept",
    "keeper both": "context", "keeper client": "context", "keeper server": "context", "window": "context",
    "limits": "limits", "stream on": "stream", "stream off": "stream", "vocabulary": "vocabulary",
}  # fmt: skip
_ACTS_WITH_TERMS: Final = frozenset({"formats", "languages", "limits", "window"})  # "send me the history in JSON"
# Other words are not told from those around them: the strict reader of vocabularies sees their form.
_SHORT_ANSWERS: Final = frozenset({
    "yes", "no", "maybe", "true", "false", "ja", "nein", "vielleicht", "wahr", "falsch", "sí", "quizás", "verdadero",
    "falso", "oui", "non", "vrai", "faux",
})  # fmt: skip
Terms = Callable[[Sentence], Mapping[str, Any] | None]


def with_guess(message: Message, wishes: list[Wish]) -> list[Wish]:
    """The wishes that the rules found in a message, with what its text probably asks for if they found no act."""
    if len(wishes) > 1 or not message.text.strip() or any(is_labelled(part.label) for part in message.parts):
        return wishes
    wish = completed(message.text, wishes[0] if wishes else None)
    return [] if wish is None else [wish]


def read_likely(text: str) -> Wish | None:
    """What a text asks for: by the strict rules, and otherwise probably."""
    return completed(text, read_words(text))


def completed(text: str, read: Wish | None) -> Wish | None:
    """What the rules read, or a guess if they found no act."""
    if read is not None and (read.act or read.terse or read.problem):
        return read
    return guess(text, read) or read


def guess(text: str, read: Wish | None = None) -> Wish | None:
    """The likeliest wish of a text, besides the topic that the rules read. One with an act is to be confirmed.

    None: nothing is likely, or not more than what was read.
    """
    if not any(letter.isalpha() for letter in text):
        return None
    reading = reading_of(text)
    chances = model().chances(features(text, reading))
    meaning = max((name for name in chances if name != NONE), key=lambda name: chances[name])
    if not meaning.startswith(QUESTION) and _is_likely(chances, meaning, reading):
        is_meant = read is None or _may_replace(read, meaning, chances[meaning])
        wish = _proposal(meaning, text, reading) if is_meant else None
        if wish is not None:
            return wish
    topic, chance = _likeliest_topic(chances)
    is_question = read is None and topic != "cancel" and _is_topic(chance, 1 - chances[NONE])
    return Wish(topic, is_plain=False) if is_question else None


def _may_replace(read: Wish, act: str, chance: float) -> bool:
    """Whether an act may be meant by what the rules read as a question; its terms may belong to that question."""
    if read.topic == _TOPICS_OF_ACTS[act]:
        return True
    is_question = read.is_plain and not read.is_unclear and act in _ACTS_WITH_TERMS
    return not is_question and chance >= _LEAST_OTHER


def _is_topic(chance: float, all_topics: float) -> bool:
    return chance >= max(_LEAST_QUESTION, _LEAST_TOPIC * all_topics)


def _is_likely(chances: Mapping[str, float], act: str, reading: LikelyReading) -> bool:
    if chances[act] >= _LEAST_ACT:
        return True
    is_polite = any(sentence.is_polite for sentence in reading.sentences)
    return is_polite and chances[act] >= max(_LEAST_POLITE, _LEAST_SHARE * (1 - chances[NONE]))


def _likeliest_topic(chances: Mapping[str, float]) -> tuple[str, float]:
    """The topic that a text is about, whether it asks or wants something changed."""
    topics: dict[str, float] = {}
    for meaning, chance in chances.items():
        if meaning != NONE:
            topic = meaning.removeprefix(QUESTION) if meaning.startswith(QUESTION) else _TOPICS_OF_ACTS[meaning]
            topics[topic] = topics.get(topic, 0.0) + chance
    topic = max(topics, key=lambda name: topics[name])
    return topic, topics[topic]


def _proposal(act: str, text: str, reading: LikelyReading) -> Wish | None:
    if len(text) > _MOST_LETTERS or is_flagged(text, reading, act):
        return None
    if is_opposed(act, reading.words, reading.sentences):
        return None
    terms = _short_answers(reading) if act == "vocabulary" else _TERMS[act](_joined(reading.sentences))
    return None if terms is None else Wish(_TOPICS_OF_ACTS[act], terms, act=act, is_plain=False, is_guess=True)


def _joined(sentences: Sequence[Sentence]) -> Sentence:
    return Sentence(tuple(tag for sentence in sentences for tag in sentence.tags))


# -- red flags ------------------------------------------------------------------------------------


def is_flagged(text: str, reading: LikelyReading, act: str) -> bool:
    """Whether a text has a quotation, or a word that denies, doubts, asks, reports or sets a condition."""
    if not _QUOTES.isdisjoint(text) or len(reading.sentences) > _MOST_SENTENCES:
        return True
    if not _REFUSALS.isdisjoint(reading.words[:2]) and act != "vocabulary":
        return True
    lexicon = next(found for found in lexicons() if found.name == reading.language)
    allowed = _SHORT_ANSWERS if act == "vocabulary" else frozenset[str]()
    if lexicon.denials(reading.words) - allowed and not _may_deny(act, reading.sentences):
        return True
    if any(_doubts(sentence, act) for sentence in reading.sentences):
        return True
    if any(sentence.has("asking") for sentence in reading.sentences) and lexicon.asks_or_conditions(reading.words):
        return True
    unknown = [word for word in _unknown_words(reading.sentences) if word not in allowed]
    has_doubt = not lexicon.has_no_doubt(unknown) or not lexicon.has_no_foreign_doubt(unknown)
    return has_doubt or lexicon.is_told(unknown)


def _may_deny(act: str, sentences: Iterable[Sentence]) -> bool:
    """Whether a "no" is part of a phrase that belongs to the act: "no more than", "no longer", "nobody should know"."""
    return any(all(sentence.has(*names) for names in _DENIED_BY[act]) for sentence in sentences if act in _DENIED_BY)


def _unknown_words(sentences: Iterable[Sentence]) -> list[str]:
    return [tag.value for sentence in sentences for tag in sentence.raw if tag.name == UNKNOWN and tag.value]


def _doubts(sentence: Sentence, act: str) -> bool:
    first = sentence.tags[0]
    may_be_polite = sentence.is_polite or first.name in _POLITE_OPENERS or first.value == "formal"
    asks_for_something = any(tag.name == "receive" for tag in sentence.tags[1:])  # "may I have the answers in French?"
    if sentence.asks and not (may_be_polite or asks_for_something):
        return True
    is_request = sentence.is_polite or sentence.asks
    tags = sentence.tags
    if sentence.asks and first.name == "could" and sentence.has("receive"):
        tags = tags[1:]  # "could I have your answers in French?"
    flags = _FLAGS - frozenset({"tell"}) if act == "anonymous on" else _FLAGS
    return any(tag.name in flags or (tag.name in _DOUBTS and not is_request) for tag in tags)


# -- terms ----------------------------------------------------------------------------------------


def _always(**values: Any) -> Terms:
    return lambda sentence: values


def _one(sentence: Sentence, name: str) -> Tag | None:
    """The only tag of a name; with two of them, it is not clear which is meant."""
    found = [tag for tag in sentence.tags if tag.name == name]
    return found[0] if len(found) == 1 else None


def _limits(sentence: Sentence) -> Mapping[str, Any] | None:
    number, unit, per = (_one(sentence, name) for name in (NUMBER, "unit", "per"))
    if number is None or number.number <= 0 or (unit is None) == (per is None):
        return None
    if per is None:
        return size(sentence)
    if not sentence.has("messages", "requests"):
        return None
    return {"propose": {"rate_per_minute": number.number * float(per.value)}}


def _window(sentence: Sentence) -> Mapping[str, Any] | None:
    number = _one(sentence, NUMBER)
    return (
        None if number is None or number.number < 0 or sentence.has("unit", "per") else {"window": int(number.number)}
    )


def _kinds(sentence: Sentence) -> Mapping[str, Any] | None:
    return accepted(sentence) if sentence.has("kind", "policy") else None


def _formats(sentence: Sentence) -> Mapping[str, Any] | None:
    if sentence.has("i_cannot_read", "cannot_read", "instead") or not sentence.has("format"):
        return None
    return reads(sentence)


def _languages(sentence: Sentence) -> Mapping[str, Any] | None:
    is_one = len(set(sentence.values("lang"))) == 1 and not sentence.has("i_cannot_read", "cannot_read", "instead")
    return {"languages": sentence.values("lang")[:1]} if is_one else None


def _location(sentence: Sentence) -> Mapping[str, Any] | None:
    return {"attributes": {"withhold": ["location"]}} if sentence.has("location") else None


def _short_answers(reading: LikelyReading) -> Mapping[str, Any] | None:
    words = [word for word in dict.fromkeys(reading.words) if word in _SHORT_ANSWERS]
    return {"words": words} if len(words) > 1 else None


def _never(sentence: Sentence) -> Mapping[str, Any] | None:
    return None


_TERMS: Final[Mapping[str, Terms]] = {
    "erase": _always(erase=True),
    "end": _always(end=True),
    "accept": _kinds,
    "withhold": _location,
    "anonymous on": _always(propose=True),
    "anonymous off": _always(propose=False),
    "cancel": _never,  # a question of ours would stand in the way of the one that is cancelled
    "formats": _formats,
    "languages": _languages,
    "keeper both": _always(keeper="both"),
    "keeper client": _always(keeper="client"),
    "keeper server": _always(keeper="server"),
    "window": _window,
    "limits": _limits,
    "stream on": _always(on=True),
    "stream off": _always(on=False),
}
