"""How a site agent is asked besides the words, and what it tells of its answer: the parts "ask" and "meta"."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from sabir.message import Message, Part, json_part
from sabir.search import Ignored


class SiteAsk(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """How a site is asked, besides the words; the content of the part labelled ``"ask"``."""

    filters: dict[str, Any] = {}
    modes: tuple[str, ...] = ()
    limit: Annotated[int, Meta(ge=1)] | None = None
    start: Annotated[int, Meta(ge=0)] = 0
    min_score: float | None = None
    prev: tuple[str, ...] | None = None  # earlier questions, oldest first; None: those of the conversation
    memory: tuple[str, ...] = ()
    about: str = ""  # what is known of the situation, in words
    rewritten: str = ""  # the question as the asker's own model understands it
    answers: dict[str, Any] = {}  # to earlier questions back, by field id
    asked: tuple[str, ...] = ()  # field ids that were asked for before
    languages: str = ""  # that the asker reads, as Accept-Language writes them
    questions: bool = True  # whether questions back are welcome

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
    filters: dict[str, Any] = {}  # given beside the words, answers to questions back included; a follow-up keeps them
    asked: tuple[str, ...] = ()  # field ids that were asked for in this conversation so far
    subject: str = ""  # the name of the one thing that the question was about, for "it" in the next
    note: str = ""  # what the asker should know of what was found, in words


def json_of(value: msgspec.Struct) -> Any:
    """The JSON value of a struct: lists where it has tuples, as any peer would send it."""
    return msgspec.json.decode(msgspec.json.encode(value))


def asked_in(message: Message) -> SiteAsk:
    """What a message's part "ask" says.

    Raises:
        msgspec.ValidationError: it is not one.
    """
    part = message.labelled("ask")
    return msgspec.convert(part.value, SiteAsk) if part is not None else SiteAsk()
