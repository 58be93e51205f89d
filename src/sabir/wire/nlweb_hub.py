"""NLWeb and the hub: which Parts a request becomes, and which Parts of a Reply become what.

This is what agents that answer for a site agree on; ``sabir.wire.nlweb`` tells it in full.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from ..events import Field, Question
from ..message import JSON, Message, Part, json_part, text_part, token_part
from .nlweb_models import AskRequest, Elicitation, Grounding, Json, SessionContext
from .nlweb_models import Question as Asked

LABEL: Final = "nlweb"  # of the part with Details, in a request, and with Notes, in a Reply
RESULT: Final = "result"  # of a part that holds one result object
SUMMARY: Final = "summary"  # of a text that sums the results up, or answers from them
ANSWER: Final = "answer"  # of a part that holds the values given to a Question's fields
QUESTION: Final = "question"  # of a part that holds a Question (see wire.nlip)

# Beside the caller's own conversation_id, which comes back as it was sent, ours travels under this name.
OUR_TOKEN: Final = "conversation_token"


class Details(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an NLWeb request says beside its words."""

    sites: tuple[str, ...] = ()
    filters: Json = {}
    prev: tuple[str, ...] = ()
    context: str = ""
    memory: tuple[str, ...] = ()
    answers: Json = {}
    modes: tuple[str, ...] = ("list",)
    language: str = ""  # Accept-Language of the caller
    num_results: int | None = None
    max_results: int | None = None
    min_score: float | None = None
    start: int = 0
    decontextualized_query: str | None = None  # the caller has rewritten the query itself


class Notes(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a site agent says about its answer. ``total`` 0 is told as the failure ``NO_RESULTS``."""

    total: int | None = None
    decontextualized_query: str | None = None
    ignored_filters: tuple[str, ...] = ()
    grounding: Grounding | None = None  # of the summary
    more: Json = {}  # further keys for ``_meta``


# -- requests -------------------------------------------------------------------------------------


def details_of_request(request: AskRequest) -> Details:
    query, context, prefer = request.query, request.context, request.prefer
    return Details(
        query.site,
        query.filters,
        context.prev,
        context.text or "",
        context.memory,
        context.answers,
        prefer.mode,
        prefer.accept_language or "",
        query.num_results,
        query.max_results,
        query.min_score,
        request.meta.start_num,
        query.decontextualized_query,
    )


_NOTHING: Final = Details()


def message_of(request: AskRequest) -> Message:
    """The request as a Message: its words, its Details if it says any, the answers it brings, its tokens."""
    parts: list[Part] = [text_part(request.query.text)]
    details = details_of_request(request)
    if details != _NOTHING:
        parts.append(details_part(details))
    if details.answers:
        parts.append(json_part(details.answers, label=ANSWER))
    parts += tokens_of(request.meta.session_context)
    return Message.of(*parts)


def tokens_of(session: SessionContext | None) -> list[Part]:
    """The conversation tokens that a session context carries, ours first."""
    if session is None:
        return []
    ids = (session.more.get(OUR_TOKEN), session.conversation_id)
    return [token_part(id) for id in ids if isinstance(id, str) and id]


def details_part(details: Details) -> Part:
    return json_part(msgspec.to_builtins(details), label=LABEL)


def details_of(message: Message) -> Details:
    """The Details that a Message carries; a Message of another protocol, or a broken part, carries none."""
    return _labelled(message, Details) or _NOTHING


# -- replies --------------------------------------------------------------------------------------


def notes_part(notes: Notes) -> Part:
    return json_part(msgspec.to_builtins(notes), label=LABEL)


def notes_of(message: Message) -> Notes | None:
    """The Notes of a site agent's Reply; None in the Reply of any other agent."""
    return _labelled(message, Notes)


def results_of(message: Message) -> list[Json]:
    """The result objects of a Reply, in order."""
    return [part.value for part in message.parts if is_result(part)]


def is_result(part: Part) -> bool:
    return part.label == RESULT and part.kind == "json" and isinstance(part.value, dict)


def summary_of(message: Message) -> str:
    return "\n".join(str(p.content) for p in message.parts if p.format == "text" and p.label == SUMMARY)


def words_of(message: Message) -> str:
    """What a Reply says for people, its summary first."""
    rest = "\n".join(str(p.content) for p in message.parts if p.format == "text" and p.label != SUMMARY)
    return "\n\n".join(text for text in (summary_of(message), rest.strip("\n")) if text)


def others_of(message: Message) -> list[Part]:
    """Parts that are no words, results, notes, questions or tokens: the data of agents that are no site."""
    own = {LABEL, RESULT, QUESTION, ANSWER}
    return [p for p in message.parts if p.format not in ("text", "token") and (p.label or "").lower() not in own]


def _labelled(message: Message, kind: type[Any]) -> Any:
    for part in message.parts:
        if part.label == LABEL and part.kind == "json":
            try:
                return msgspec.convert(part.value, kind)
            except msgspec.ValidationError:
                return None
    return None


# -- questions ------------------------------------------------------------------------------------

# The kinds of Field that NLWeb names otherwise.
_TYPES: Final = {"number": "text", "boolean": "single_select"}
_YES_NO: Final = ("yes", "no")


def elicitation_of(question: Question) -> Elicitation:
    """A Question as NLWeb asks it; one without fields is one free text."""
    fields = question.fields or (Field(question.id or ANSWER, question.text),)
    questions = tuple(
        Asked(
            field.id,
            field.text or question.text,
            _TYPES.get(field.kind, field.kind),
            field.options or (_YES_NO if field.kind == "boolean" else ()),
        )
        for field in fields
    )
    return Elicitation(question.text, questions)


def question_of(elicitation: Elicitation) -> Question:
    fields = tuple(Field(q.id, q.text, q.type, q.options) for q in elicitation.questions)
    return Question(elicitation.text, fields)


def answers_in(message: Message) -> Json:
    """The values that a Message gives to a Question's fields; none if it answers in words."""
    part = message.labelled(ANSWER)
    value: JSON = part.value if part is not None else None
    return value if isinstance(value, dict) else {}
