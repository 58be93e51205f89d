"""NLWeb and the hub: which Parts a request becomes, and what the Parts of a Reply become.

Agents that answer for a site follow this; ``sabir.protocols.nlweb.wire`` describes it in full.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from sabir.events import Field, Question, field_kind
from sabir.message import JSON, Message, Part, json_part, text_part, token_part

from .models import AskRequest, Elicitation, ElicitationQuestion, Grounding, Json, SessionContext

ASK: Final = "ask"  # of the part of a request with its Details
META: Final = "meta"  # of the part of a Reply with its Notes
RESULT: Final = "result"  # of a part that holds one result object
WRITTEN: Final = ("summary", "answer")  # of the parts with the output of ``summarize`` and ``generate``
ANSWER: Final = "answer"  # of the part of a request with the values for a Question's fields
QUESTION: Final = "question"  # of a part that holds a Question (see wire.nlip)

# Besides the caller's own conversation_id, which is returned unchanged, ours has this name.
OUR_TOKEN: Final = "conversation_token"


class Details(msgspec.Struct, frozen=True, omit_defaults=True):
    """The options of an NLWeb request besides its text."""

    filters: Json = {}  # ``site`` among them
    modes: tuple[str, ...] = ()
    limit: int | None = None
    start: int = 0
    min_score: float | None = None
    prev: tuple[str, ...] | None = None  # None: use the queries of the conversation
    memory: tuple[str, ...] = ()
    about: str = ""
    rewritten: str = ""  # the caller has made the query self-contained
    answers: Json = {}
    languages: str = ""  # that the caller reads, as in Accept-Language
    questions: bool = True  # whether the caller supports elicitations


class IgnoredField(msgspec.Struct, frozen=True):
    """A filter that was not applied, and why."""

    name: str
    value: JSON = None
    reason: str = ""


class Notes(msgspec.Struct, frozen=True):
    """What a site agent says about its answer. ``total`` 0 becomes the failure ``NO_RESULTS``."""

    question: str = ""
    rewritten: bool = False
    ignored: tuple[IgnoredField, ...] = ()
    total: int | None = None
    coverage: float = 1.0  # below 1 while some items have no vectors yet
    note: str = ""  # what the caller should know about the results
    applied: tuple[str, ...] = ()  # words of the question that were read as filters


# -- requests -------------------------------------------------------------------------------------


def details_of_request(request: AskRequest) -> Details:
    query, context = request.query, request.context
    site: Json = {"site": query.site[0] if len(query.site) == 1 else list(query.site)} if query.site else {}
    return Details(
        {**site, **query.filters},
        request.prefer.mode if request.prefer.mode != ("list",) else (),
        query.max_results or query.num_results,
        request.meta.start_num,
        query.min_score,
        context.prev or None,
        context.memory,
        context.text or "",
        query.decontextualized_query or "",
        context.answers,
        request.prefer.accept_language or "",
    )


_NOTHING: Final = Details()


def message_of(request: AskRequest, *, questions: bool = True) -> Message:
    """The request as a Message: its text, its Details if it has any, its answers, its tokens.

    ``questions`` unset: the caller does not support elicitations.
    """
    parts: list[Part] = [text_part(request.query.text)]
    details = msgspec.structs.replace(details_of_request(request), questions=questions)
    if details != _NOTHING:
        parts.append(json_part(msgspec.to_builtins(details), label=ASK))
    if details.answers:
        parts.append(json_part(details.answers, label=ANSWER))
    parts += tokens_of(request.meta.session_context)
    return Message.of(*parts)


def tokens_of(session: SessionContext | None) -> list[Part]:
    """The conversation tokens that a session context carries, ours first."""
    if session is None:
        return []
    ids = (session.more.get(OUR_TOKEN), session.conversation_id)
    return [token_part(token) for token in ids if isinstance(token, str) and token]


# -- replies --------------------------------------------------------------------------------------


def notes_of(message: Message) -> Notes | None:
    """The Notes of a site agent's Reply; None in the Reply of any other agent."""
    part = message.labelled(META)
    if part is None or part.kind != "json":
        return None
    try:
        return msgspec.convert(part.value, Notes)
    except msgspec.ValidationError:
        return None


def results_of(message: Message) -> list[Json]:
    """The result objects of a Reply, in order."""
    return [part.value for part in message.parts if is_result(part)]


def is_result(part: Part) -> bool:
    return part.label == RESULT and part.kind == "json" and isinstance(part.value, dict)


@dataclass(frozen=True, slots=True)
class Written:
    """The output of ``summarize`` or ``generate``, with its sources."""

    text: str
    grounding: Grounding


def written_of(message: Message) -> list[Written]:
    """The texts written about the results, in order."""
    return [written for part in message.parts if (written := _written(part)) is not None]


def _written(part: Part) -> Written | None:
    if part.label not in WRITTEN:
        return None
    if part.format == "text":
        return Written(str(part.content), Grounding())
    value = part.value
    if not isinstance(value, dict) or not isinstance(value.get("text"), str):
        return None
    citations = [item for item in value.get("citations") or () if isinstance(item, dict)]
    urls = dict.fromkeys(str(citation["url"]) for citation in citations if citation.get("url"))
    quoted = tuple(
        dict.fromkeys(
            f"{citation.get('name') or citation.get('url')}: {citation.get('text')}" for citation in citations
        )
    )
    return Written(value["text"], Grounding(tuple(urls), quoted))


def words_of(message: Message) -> str:
    """The text of a Reply, for people."""
    return "\n".join(str(part.content) for part in message.parts if part.format == "text").strip("\n")


def others_of(message: Message) -> list[Part]:
    """Parts other than text, tokens and a site agent's own: the data of other agents."""
    own = {META, RESULT, QUESTION, *WRITTEN}
    return [p for p in message.parts if p.format not in ("text", "token") and (p.label or "").lower() not in own]


# -- questions ------------------------------------------------------------------------------------

# The kinds of Field that have another name in NLWeb.
_TYPES: Final = {"number": "text", "boolean": "single_select"}
_YES_NO: Final = ("yes", "no")


def elicitation_of(question: Question) -> Elicitation:
    """A Question as an elicitation; without fields it is one free text."""
    fields = question.fields or (Field(question.id or ANSWER, question.text),)
    questions = tuple(
        ElicitationQuestion(
            field.id,
            field.text or question.text,
            _TYPES.get(field.kind, field.kind),
            field.options or (_YES_NO if field.kind == "boolean" else ()),
            field.required,
        )
        for field in fields
    )
    return Elicitation(question.text, questions)


def question_of(elicitation: Elicitation) -> Question:
    fields = tuple(
        Field(q.id, q.text, field_kind(q.type), q.options, required=q.required) for q in elicitation.questions
    )
    return Question(elicitation.text, fields)


def answers_in(message: Message) -> Json:
    """The values for a Question's fields in a Message; none if it answers in text."""
    part = message.labelled(ANSWER)
    value: JSON = part.value if part is not None else None
    return value if isinstance(value, dict) else {}
