"""The structured input and output of a site agent: the parts "ask" and "meta"."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from sabir.message import Message, Part, json_part
from sabir.search import Ignored
from sabir.search.query.words import readable
from sabir.turn import Turn

MAX_QUESTION: Final = 2_000  # characters of a text that are read; people ask in less
_MAX_TEXTS: Final = 20  # of a list


class SiteAsk(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """How a site is asked besides the text; the content of the part labelled ``"ask"``."""

    filters: dict[str, Any] = {}
    modes: tuple[str, ...] = ()
    limit: Annotated[int, Meta(ge=1)] | None = None
    start: Annotated[int, Meta(ge=0)] = 0
    min_score: float | None = None
    prev: tuple[str, ...] | None = None  # earlier questions, oldest first; None: those of the conversation
    memory: tuple[str, ...] = ()
    about: str = ""  # what is known about the situation, as text
    rewritten: str = ""  # the question as the caller's own model understands it
    answers: dict[str, Any] = {}  # to earlier follow-up questions, by field id
    asked: tuple[str, ...] = ()  # field ids that were already asked for
    languages: str = ""  # that the caller reads, as in Accept-Language
    questions: bool = True  # whether follow-up questions are welcome

    def part(self) -> Part:
        return json_part(json_of(self), label="ask")


class SiteMeta(msgspec.Struct, frozen=True):
    """How a question was understood and how much was found; the content of the part labelled ``"meta"``."""

    question: str
    rewritten: bool
    applied: tuple[str, ...]
    ignored: tuple[Ignored, ...]
    total: int
    coverage: float
    sites: tuple[str, ...] = ()
    # given besides the text, including answers to follow-up questions; a follow-up keeps them
    filters: dict[str, Any] = {}
    asked: tuple[str, ...] = ()  # field ids asked for in this conversation so far
    subject: str = ""  # the name of the one thing that the question was about, for "it" in the next
    note: str = ""  # what the caller should know about the results, as text


def json_of(value: msgspec.Struct) -> Any:
    """The JSON value of a struct: lists instead of tuples, as a peer would send it."""
    return msgspec.json.decode(msgspec.json.encode(value))


def question_of(turn: Turn) -> str:
    """The question, in plain text; the beginning of a long one."""
    return readable(turn.text[:MAX_QUESTION])


def asked_in(message: Message) -> SiteAsk:
    """The content of a message's part "ask", with the beginning of each long text and the last of many questions.

    Raises:
        msgspec.ValidationError: it is invalid.
    """
    part = message.labelled("ask")
    if part is None:
        return SiteAsk()
    ask = msgspec.convert(part.value, SiteAsk)
    return msgspec.structs.replace(
        ask,
        prev=tuple(text[:MAX_QUESTION] for text in ask.prev[-_MAX_TEXTS:]) if ask.prev is not None else None,
        memory=tuple(text[:MAX_QUESTION] for text in ask.memory[:_MAX_TEXTS]),
        about=ask.about[:MAX_QUESTION],
        rewritten=ask.rewritten[:MAX_QUESTION],
    )
