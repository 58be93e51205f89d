"""What a control message asks for: from labelled JSON parts, or from text by rules (D-27). Pure.

A wish has a topic and a value; text and JSON give the same wish, so everything after this is written once. Text that
changes something is read by the strict rules of ``grammar``; anything else is at most a question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from sabir.guard.assent import is_cancel
from sabir.message import CONTROL, Message

from .grammar import ACTS, REMARK, compiled, row
from .lexicon import IF_ASKED, IF_POLITE, NUMBER, UNKNOWN, Sentence, Tag, lexicons, words_of
from .shapes import Reasoned, clauses, orders, with_noun, without_reason
from .topics import TOPIC_PHRASES, Topic
from .vocabulary import all_openers, read_vocabulary, without_openers

TOPICS: Final[Mapping[str, str]] = {
    "capabilities": "what the agents here can do",
    "limits": "how large and how fast messages may be, and agree on smaller limits",
    "policy": "privacy, regulatory and attribute policies: ask, require, accept",
    "upload": "a place to upload large data",
    "context": "who keeps the context (server, client or both), and how many turns",
    "history": "what was said so far, with time and speaker",
    "sessions": "list, describe, end and erase sessions",
    "anonymous": "agree on anonymous mode",
    "accept": "which formats and languages you can read",
    "vocabulary": "answers in a few agreed words only",
    "stream": "partial answers ahead of the whole one",
    "ethics": "the ethics statement",
    "security": "the security statement and the ECMA-434 report",
    "authentication": "how to authenticate",
    "cancel": "cancel a question or the running work",
}

# Labels that mean a topic, besides its own name.
_LABELS: Final[Mapping[str, str]] = {
    "capability": "capabilities",
    "limit": "limits",
    "policies": "policy",
    "uploads": "upload",
    "session": "sessions",
    "anonymity": "anonymous",
    "accepts": "accept",
    "formats": "accept",
    "words": "vocabulary",
    "profile": "security",
}
# Example sentences, for the answer to one that was not clear.
EXAMPLES: Final[Mapping[str, str]] = {
    "sessions": "Erase this conversation.",
    "policy": "I accept your privacy policy.",
    "anonymous": "I want to stay anonymous.",
    "context": "Please keep the context for me.",
    "limits": "Please limit messages to 2,000 bytes.",
    "accept": "I can only read text.",
    "stream": "Please stream your answers.",
}
# Flags that a part sets to true or false. Any other value is answered and changes nothing: "no" is not a yes.
_FLAGS: Final[Mapping[str, tuple[str, ...]]] = {
    "sessions": ("erase", "end"),
    "anonymous": ("propose", "is"),
    "stream": ("on", "partial", "is"),
    "context": ("resume",),
}
_ACTING_TAGS: Final = (
    "erase", "erase_last", "erased", "end", "end_last", "i_accept", "half_accept", "accept_verb", "anonymous",
    "go_anonymous", "keep", "keep_last", "i_keep", "limit", "below", "below_sent", "stream", "partial", "i_read",
    "i_read_only", "i_cannot_read",
)  # fmt: skip
# Whoever asks what these would do, without a label, is thinking about them: that is for the agent.
_FINAL_TAGS: Final = ("erase", "erase_last", "erased", "end", "end_last", "i_accept", "half_accept", "accept_verb")
# What only the gateway can do: nobody asks whether they may do it themselves.
_ONLY_YOU_CAN: Final = ("make_me", "leave", "stop", "stream", "send", "limit")
_REQUESTS: Final = ("request", "request_if_polite", "request_if_asked")
# Topics and acts that bind nobody, and are taken back with a word.
_UNDONE: Final = ("stream", "accept", "vocabulary", "withhold", "window", "anonymous off")
_SURE_OPENERS: Final = ("request", "request_if_asked")  # "merci de …", "could you …?"
_NOUNS_OF_LIMITS: Final = ("limit", "limits", "below", "size")  # "¿sería posible un límite …?" asks about one
_MAX_READ: Final = 2000  # characters; a request comes at the beginning
_MAX_ACTS: Final = 400  # characters; a request for an act is short


@dataclass(frozen=True, slots=True)
class Wish:
    """One request to the gateway. ``value`` holds its details; empty is a question."""

    topic: str
    value: Mapping[str, Any] = field(default_factory=dict)
    terse: bool = False  # phrased like nlip_swarm, to be answered in its format
    act: str = ""  # what it changes, if text asked for it: "erase", "keeper client"
    is_unclear: bool = False  # mentions an act without clearly asking for it
    is_plain: bool = True  # every word was understood, and none is about an act that is final
    problem: str = ""  # why a part that names an act does not request it
    is_guess: bool = False  # the act is only likely (sabir.agents.control.guesses), and waits for a yes


def has_phrases() -> bool:
    """Whether ``load_phrases`` has run."""
    return bool(lexicons.cache_info().currsize and all_openers.cache_info().currsize)


def load_phrases() -> None:
    """Load the phrases of all languages, which takes a moment; otherwise the first ``read`` does."""
    lexicons()
    all_openers()
    for pattern in [act.pattern for act in ACTS] + [topic.pattern for topic in TOPIC_PHRASES]:
        compiled(pattern)


def read(message: Message) -> list[Wish]:
    """The requests of a control message: its labelled parts in order, and what its text adds."""
    wishes = [wish for part in message.parts if (wish := _labelled(part.label, part.value)) is not None]
    words = read_words(message.text) if message.text.strip() else None
    if not wishes:
        return [] if words is None else [words]
    if words is not None and words.act:
        wishes = _with_words(wishes, words)
    if any(wish.topic == "context" for wish in wishes):
        wishes = [wish for wish in wishes if wish.topic != "history"]  # it is handed over with the context
    return wishes


def _with_words(wishes: list[Wish], words: Wish) -> list[Wish]:
    """Text may add to parts; if both are about one topic, the part is more exact."""
    if all(wish.topic != words.topic for wish in wishes):
        return [words, *wishes]
    return [
        replace(wish, value={**words.value, **wish.value}) if wish.topic == words.topic else wish for wish in wishes
    ]


def is_labelled(label: str | None) -> bool:
    """Whether a part with this label is a request."""
    return _topic_of(label) in TOPICS


def _topic_of(label: str | None) -> str:
    name = "" if label is None else label.strip().lower()
    return _LABELS.get(name, name)


def _labelled(label: str | None, value: object) -> Wish | None:
    topic = _topic_of(label)
    if topic not in TOPICS:
        return None
    if topic == "stream" and isinstance(value, bool):
        return Wish(topic, {"on": value})
    said = value if isinstance(value, dict) else {} if value in (None, "", True) else {"is": value}
    if topic == "cancel" and said.get("is") is False:
        return None
    for flag in _FLAGS.get(topic, ()):
        if flag in said and not isinstance(said[flag], bool):
            return Wish(topic, problem=f"{topic if flag == 'is' else flag} must be true or false")
    return Wish(topic, said)


def read_words(text: str) -> Wish | None:
    """What a text asks for, in one of the languages we read; None if no rule matches."""
    words = {elisions: words_of(text[:_MAX_READ], elisions=elisions) for elisions in (False, True)}
    readings = [lexicon.sentences(words[lexicon.elisions]) for lexicon in lexicons()]
    act = None
    if len(text) <= _MAX_ACTS:
        act = _act_in(text, readings) or _act_with_reason(words)
    return act if act is not None else _topic_in(readings)


def _act_in(text: str, readings: Sequence[list[Sentence]]) -> Wish | None:
    if is_cancel(text) or any(is_cancel(said) for said in without_openers(text)):
        return Wish("cancel", act="cancel")
    for sentences in readings:
        if (wish := _act_of_one(sentences)) is not None:
            return wish
    return _vocabulary(text)


def _vocabulary(text: str) -> Wish | None:
    words = read_vocabulary(text)
    return Wish("vocabulary", {"words": words}, act="vocabulary") if words is not None else None


def _act_of_one(sentences: list[Sentence]) -> Wish | None:
    """The act of a text that is one sentence, beside which only "we are done" or a remark may stand."""
    said = [_without_tail(sentence) for sentence in _without_done(sentences)]
    if not said or any(sentence.has(UNKNOWN) for sentence in said):
        return None
    if len(said) == 2:
        return _same_act(_act_of_sentence(said[0]), _act_of_sentence(said[1]))
    return _act_of_sentence(said[0]) if len(said) == 1 else None


def _act_of_sentence(sentence: Sentence) -> Wish | None:
    wish = _act_of(sentence)
    if wish is not None:
        return wish
    for head, tail in clauses(sentence):
        wish = _act_of(tail)
        if wish is not None and compiled(REMARK).fullmatch(row(head)) is not None:
            return wish
        before = None if head.tags[0].name == "accept_after" else _act_of(head)  # "nehmen wir an" may mean "suppose"
        if (wish := _same_act(before, wish)) is not None:
            return wish
    return None


def _same_act(one: Wish | None, other: Wish | None) -> Wish | None:
    """The act of two requests that ask for the same: "Stop streaming, I only want whole answers"."""
    if one is None or other is None or (one.topic, one.act) != (other.topic, other.act):
        return None
    if one.topic == "policy":
        return other if one.value.get("accept") == ["*"] else one
    return one if one.value == other.value else None


def _act_with_reason(words: Mapping[bool, list[str]]) -> Wish | None:
    for lexicon in lexicons():
        for found in without_reason(words[lexicon.elisions], lexicon):
            sentences = lexicon.sentences(found.request)
            wish = _act_of_one(sentences) or _vocabulary(" ".join(found.request))
            if wish is None and len(sentences) == 1:
                whole = with_noun(sentences[0], lexicon.sentences(found.reason))
                wish = None if whole is None else _act_of_one([whole])
            if wish is not None and _stands_beside(found, wish, sentences):
                return replace(wish, is_plain=False)  # the reason may be about anything
    return None


def _stands_beside(found: Reasoned, wish: Wish, sentences: list[Sentence]) -> bool:
    """Whether the request is surely one, beside a reason that may be about anything."""
    may_be_undone = (wish.topic in _UNDONE or wish.act in _UNDONE) and wish.act != "accept"
    if found.denies and not may_be_undone:
        return False
    return not found.needs_please or any(_is_surely_request(sentence) for sentence in sentences)


def _is_surely_request(sentence: Sentence) -> bool:
    return sentence.is_polite or sentence.tags[0].name in _SURE_OPENERS


def _without_done(sentences: list[Sentence]) -> list[Sentence]:
    """The sentences without "we are done", which may stand beside a request and asks for nothing itself."""
    shorter = []
    for place, sentence in enumerate(sentences):
        tags = _without_done_at_the_ends(sentence.tags)
        if place == 0 and tags and tags[0].name == "reconsidered":  # after a request, it would take the request back
            tags = tags[1:]
        # "I am finished, you can close it": what is allowed then is asked for
        shorter.append(replace(sentence, tags=tags, is_urgent=sentence.is_urgent or len(tags) < len(sentence.tags)))
    return [sentence for sentence in shorter if sentence.tags]


def _without_done_at_the_ends(tags: tuple[Tag, ...]) -> tuple[Tag, ...]:
    start = 1 if tags[0].name == "done" else 0
    end = len(tags) - 1 if tags[-1].name == "done" else len(tags)
    return tags[start:end]


def _without_tail(sentence: Sentence) -> Sentence:
    """The sentence without a question at its end that makes the request polite: "…, will you?"."""
    if len(sentence.tags) == 1 or sentence.tags[-1].name not in _REQUESTS:
        return sentence
    return replace(sentence, tags=sentence.tags[:-1], asks=False)


def _act_of(sentence: Sentence) -> Wish | None:
    if not _may_act(sentence):
        return None
    for ordered in orders(sentence):
        line = row(ordered)
        for act in ACTS:
            if act.matches(ordered, line):
                value = act.values(ordered)
                return Wish(act.topic, value, act=_name_of(act.name, value))
    return None


def _may_act(sentence: Sentence) -> bool:
    """Whether it can be a request at all: a question wants an answer, unless it is a polite request."""
    opener = sentence.tags[0].name
    if sentence.tags[0].value == IF_ASKED:
        return sentence.asks
    if opener == "could" and sentence.is_polite:  # "could my messages be deleted, please?"
        return True
    if sentence.tags[0].value == IF_POLITE:
        return sentence.is_polite
    if opener == "request_if_polite":  # "can you …?" may ask about abilities; "can you please …?" is a request
        return sentence.is_polite or _is_about_answers(sentence) or (sentence.is_urgent and not sentence.asks)
    if opener == "permit":  # "you can close it" says what is allowed; "you can close it now, thanks" asks for it
        return sentence.is_polite or ((sentence.is_urgent or sentence.has("tell_last")) and not sentence.asks)
    if opener in ("request_if_asked", "would_mind"):  # in Spanish, without the question mark, it is a statement
        wants_verb = sentence.tags[0].value == "verb" and len(sentence.tags) > 1
        return sentence.asks and not (wants_verb and sentence.tags[1].name in _NOUNS_OF_LIMITS)
    return not sentence.asks or opener == "request" or sentence.tags[0].value == "asked"


def _is_about_answers(sentence: Sentence) -> bool:
    """Whether a "can you …?" is a request after all: "can you answer in French from now on?", "¿podría …?"."""
    is_formal = sentence.tags[0].value == "formal"  # "could you", if not "could I"
    if not sentence.asks or not (sentence.is_urgent or is_formal):
        return False
    if is_formal and sentence.has(*_ONLY_YOU_CAN):
        return True
    return sentence.has("reply_verb") or (sentence.has("send") and sentence.has("stop", "leave"))


def _name_of(name: str, value: Mapping[str, Any]) -> str:
    return "languages" if name == "formats" and "formats" not in value else name


def _topic_in(readings: Sequence[list[Sentence]]) -> Wish | None:
    """The topic of a text; the language that knows most of its words is tried first."""
    for sentences in sorted(readings, key=_unknown):
        line = "".join(row(sentence) for sentence in sentences)
        for phrases in TOPIC_PHRASES:
            if compiled(phrases.pattern).search(line) is not None:
                return _question(phrases, sentences)
    return None


def _question(phrases: Topic, sentences: list[Sentence]) -> Wish:
    topic = phrases.topic
    is_asked = any(sentence.asks for sentence in sentences)
    mentions_act = topic in EXAMPLES and any(sentence.has(*_ACTING_TAGS) for sentence in sentences)
    value: Mapping[str, Any] = {}
    if topic == "history":
        numbers = [tag.number for item in sentences for tag in item.tags if tag.name == NUMBER]
        value = {"horizon": int(numbers[0])} if numbers else {}
    return Wish(
        topic,
        value,
        terse=any(sentence.has("swarm") for sentence in sentences),
        is_unclear=mentions_act and not is_asked,
        is_plain=not phrases.is_loose
        and _unknown(sentences) == 0
        and not any(sentence.has(*_FINAL_TAGS) for sentence in sentences),
    )


def _unknown(sentences: list[Sentence]) -> int:
    return sum(tag.name == UNKNOWN for sentence in sentences for tag in sentence.tags)


def _has_terms(text: str) -> bool:
    """Whether a text names a format or a language."""
    readings = (lexicon.sentences(words_of(text, elisions=lexicon.elisions)) for lexicon in lexicons())
    return any(sentence.has("format", "lang") for sentences in readings for sentence in sentences)


def infer_control(message: Message) -> Message:
    """The message as control, if its text clearly is that although it is not labelled; otherwise unchanged.

    An act must be requested as clearly as in a control message, without a reason beside it. A question counts only if
    every word is understood, and not if it is about erasing, ending or accepting something.
    """
    if message.messagetype is not None or message.control is not None or message.format != "text":
        return message
    if len(message.text) > _MAX_ACTS or any(part.format != "token" for part in message.submessages):
        return message  # a message with data is about the data
    wish = read_words(message.text)
    if wish is None or not wish.is_plain or not (wish.act or not wish.is_unclear):
        return message
    if wish.topic == "history" and _has_terms(message.text):
        return message  # "the history in JSON" may be that of anything
    return message.with_type(CONTROL)
