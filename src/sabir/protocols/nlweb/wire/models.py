"""The NLWeb objects as frozen, typed values, and their conversion from and to plain JSON values.

An open model keeps unknown attributes in its last field: ``filters`` of a ``Query``, ``fields`` of a ``ResultObject``,
and ``more`` of all others. ``read`` reports errors with their path; ``plain`` is its inverse.
"""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar, Final, TypeAlias, TypeVar

import msgspec

from sabir.errors import BadMessage
from sabir.message import JSON
from sabir.misfits import misfit

PROTOCOL: Final = "nlweb"
MISSING: Final = "; it is missing"  # the end of the error for a missing required field

Json: TypeAlias = dict[str, Any]
_ALWAYS: Final = frozenset({"@type", "type"})  # written even if it is the default


class _OpenModel(msgspec.StructMeta):
    """Lets ``Query(text="soup", itemType="Recipe")`` keep unknown attributes, as decoding does."""

    OPEN: str | None

    def __call__(cls, *args: Any, **values: Any) -> Any:  # noqa: N805 (a metaclass)
        open_field = cls.OPEN
        if open_field is not None:
            others = {name: values.pop(name) for name in values.keys() - set(cls.__struct_fields__)}
            if others:
                values[open_field] = {**values.get(open_field, {}), **others}
        return super().__call__(*args, **values)


class NlwebModel(msgspec.Struct, metaclass=_OpenModel, frozen=True, omit_defaults=True):
    """``OPEN`` names the field that keeps unknown attributes."""

    OPEN: ClassVar[str | None] = None


# -- requests -------------------------------------------------------------------------------------


class Query(NlwebModel, frozen=True):
    """The query. Every attribute besides the named ones is a filter (W-5)."""

    OPEN: ClassVar[str | None] = "filters"

    text: str
    site: tuple[str, ...] = ()  # empty: any
    num_results: int | None = None  # how many to consider
    max_results: int | None = None  # how many to return
    min_score: float | None = None
    decontextualized_query: str | None = None
    filters: Json = {}


class Context(NlwebModel, frozen=True):
    """The conversation so far, and what is known about the user."""

    OPEN: ClassVar[str | None] = "more"

    type: str = msgspec.field(default="ConversationalContext", name="@type")
    prev: tuple[str, ...] = ()
    text: str | None = None
    memory: tuple[str, ...] = ()
    answers: Json = {}  # to an elicitation, by question id (W-10)
    more: Json = {}


class Prefer(NlwebModel, frozen=True):
    """How the answer should look and arrive. ``streaming`` is None if not given (W-3)."""

    OPEN: ClassVar[str | None] = "more"

    streaming: bool | None = None
    response_format: str = "chatgpt_app"
    mode: tuple[str, ...] = ("list",)
    accept_language: str | None = msgspec.field(default=None, name="accept-language")
    user_agent: str | None = msgspec.field(default=None, name="user-agent")
    wait: float | None = None  # seconds until a promise is better than waiting (W-9)
    more: Json = {}


class SessionContext(NlwebModel, frozen=True):
    """Returned like a cookie: unchanged."""

    OPEN: ClassVar[str | None] = "more"

    conversation_id: str | None = None
    state_token: JSON = None
    more: Json = {}


class Meta(NlwebModel, frozen=True):
    """Metadata of the request itself."""

    OPEN: ClassVar[str | None] = "more"

    api_version: str | None = None
    session_context: SessionContext | None = None
    request_id: str | None = None
    start_num: int = 0
    more: Json = {}


class AskRequest(NlwebModel, frozen=True):
    """``POST /ask``."""

    query: Query
    context: Context = Context()
    prefer: Prefer = Prefer()
    meta: Meta = Meta()


class AwaitRequest(NlwebModel, frozen=True):
    """``POST /await``."""

    promise_token: str
    action: str  # checkin or cancel
    meta: Meta = Meta()


class WhoMeta(NlwebModel, frozen=True):
    """``meta`` of ``/who``."""

    max_results: int | None = None
    version: str | None = None


class WhoRequest(NlwebModel, frozen=True):
    """``POST /who``: which agents match a query. An empty text matches all."""

    text: str
    type: str | None = None
    domain: str | None = None
    capabilities: tuple[str, ...] = ()
    meta: WhoMeta = WhoMeta()


# -- responses ------------------------------------------------------------------------------------


class ResponseMeta(NlwebModel, frozen=True):
    """``_meta`` of every response."""

    OPEN: ClassVar[str | None] = "more"

    response_type: str
    version: str
    response_format: str | None = None
    session_context: SessionContext | None = None
    decontextualized_query: str | None = None
    ignored_filters: tuple[str, ...] = ()
    request_id: str | None = None
    more: Json = {}


AskResponseMeta = ResponseMeta  # its name in the protocol


class Grounding(NlwebModel, frozen=True):
    """The source of something."""

    source_urls: tuple[str, ...] = ()
    citations: tuple[str, ...] = ()


class Action(NlwebModel, frozen=True):
    """Something that can be done with a result."""

    OPEN: ClassVar[str | None] = "more"

    context: str | None = msgspec.field(default=None, name="@context")
    type: str | None = msgspec.field(default=None, name="@type")
    name: str | None = None
    description: str | None = None
    protocol: str | None = None
    method: str | None = None
    endpoint: str | None = None
    params: Json | None = None
    more: Json = {}


class ResultObject(NlwebModel, frozen=True):
    """One result. ``fields`` has the fields of its schema.org type."""

    OPEN: ClassVar[str | None] = "fields"

    type: str | tuple[str, ...] = msgspec.field(default="Thing", name="@type")
    id: str | None = msgspec.field(default=None, name="@id")
    url: str | None = None
    name: str | None = None
    site: str | None = None
    score: float | None = None
    description: JSON = None
    grounding: Grounding | None = None
    actions: tuple[Action, ...] = ()
    fields: Json = {}


class TextContent(NlwebModel, frozen=True):
    """Text for people and models."""

    OPEN: ClassVar[str | None] = "more"

    text: str
    type: str = "text"
    more: Json = {}


class AnswerResponse(NlwebModel, frozen=True):
    """An answer: ``results`` for conversational search; the other three for a ChatGPT app."""

    meta: ResponseMeta = msgspec.field(name="_meta")
    results: tuple[ResultObject, ...] | None = None
    content: tuple[TextContent, ...] | None = None
    structured_data: tuple[ResultObject, ...] | None = msgspec.field(default=None, name="structuredData")
    structured_content: Json | None = msgspec.field(default=None, name="structuredContent")

    @property
    def items(self) -> tuple[ResultObject, ...]:
        """The results, under whichever name they came."""
        return self.results or self.structured_data or ()


class ElicitationQuestion(NlwebModel, frozen=True):
    """One question of an elicitation."""

    id: str
    text: str
    type: str = "text"  # text, single_select, multi_select
    options: tuple[str, ...] = ()
    required: bool = True  # ours: NLWeb cannot say that an answer may be left out


class Elicitation(NlwebModel, frozen=True):
    """What the agent needs to know before it can answer well."""

    text: str
    questions: tuple[ElicitationQuestion, ...] = ()


class ElicitationResponse(NlwebModel, frozen=True):
    meta: ResponseMeta = msgspec.field(name="_meta")
    elicitation: Elicitation


class Promise(NlwebModel, frozen=True):
    """An answer that is not ready yet."""

    token: str
    estimated_time: int | None = None  # seconds
    message: str | None = None
    progress: float | None = None  # 0 to 1


class PromiseResponse(NlwebModel, frozen=True):
    meta: ResponseMeta = msgspec.field(name="_meta")
    promise: Promise


class Error(NlwebModel, frozen=True):
    """Why there is no answer."""

    code: str
    message: str
    details: JSON = None


class FailureResponse(NlwebModel, frozen=True):
    meta: ResponseMeta = msgspec.field(name="_meta")
    error: Error


Response: TypeAlias = AnswerResponse | ElicitationResponse | PromiseResponse | FailureResponse

M = TypeVar("M", bound=NlwebModel)

# -- reading --------------------------------------------------------------------------------------


@cache
def _fields(kind: type[NlwebModel]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """The fields of a model, cached: msgspec evaluates annotations at each call."""
    return msgspec.structs.fields(kind)


@cache
def _names(kind: type[NlwebModel]) -> frozenset[str]:
    """The names on the wire, without the open field."""
    return frozenset(f.encode_name for f in _fields(kind) if f.name != kind.OPEN)


@cache
def _required(kind: type[NlwebModel]) -> tuple[str, ...]:
    return tuple(f.encode_name for f in _fields(kind) if f.required)


def an_object(value: object, where: str) -> Json:
    """The value, which must be a JSON object."""
    if not isinstance(value, dict):
        raise BadMessage(PROTOCOL, where, "an object")
    return value


def read(kind: type[M], value: object, where: str = "$", *, lenient: bool = False) -> M:
    """Decode a flat model from a JSON object. ``null`` counts as absent.

    ``lenient`` reads numbers and booleans from text, for values from a URL.

    Raises:
        BadMessage: a value has the wrong type, or a required one is missing; ``where`` says which.
    """
    given = an_object(value, where)
    names = _names(kind)
    known = {name: item for name, item in given.items() if name in names and item is not None}
    for name in _required(kind):
        if name not in known:
            raise BadMessage(PROTOCOL, f"{where}.{name}", f"a value{MISSING}")
    if kind.OPEN is not None:
        rest = {name: item for name, item in given.items() if name not in names and item is not None}
        if rest:
            known[kind.OPEN] = rest
    try:
        return msgspec.convert(known, kind, strict=not lenient)
    except msgspec.ValidationError as exc:
        raise BadMessage(PROTOCOL, *misfit(exc, kind, where)) from None


def result(value: object, where: str = "$") -> ResultObject:
    """A result object, with typed grounding and actions.

    Raises:
        BadMessage: it is not a result object.
    """
    given = dict(an_object(value, where))
    grounding, actions = given.pop("grounding", None), given.pop("actions", None)
    made = read(ResultObject, given, where)
    if isinstance(grounding, dict):
        made = msgspec.structs.replace(made, grounding=read(Grounding, _grounded(grounding), f"{where}.grounding"))
    if isinstance(actions, list):
        typed = tuple(read(Action, action, f"{where}.actions[{i}]") for i, action in enumerate(actions))
        made = msgspec.structs.replace(made, actions=typed)
    return made


def _grounded(value: Json) -> Json:
    """Lists of texts, whatever the input: a citation that is an object is replaced by its text."""
    lists = {name: item if isinstance(item, list | tuple) else [item] for name, item in value.items() if item}
    return {
        name: [str(e.get("text", "")) if isinstance(e, dict) else str(e) for e in item] for name, item in lists.items()
    }


# -- writing --------------------------------------------------------------------------------------


def plain(model: NlwebModel) -> Json:
    """The model as JSON values: names as on the wire, the open field's content beside the rest."""
    values: Json = {}
    for field in _fields(type(model)):
        value = getattr(model, field.name)
        if field.name == model.OPEN:
            values.update((name, item) for name, item in value.items() if name not in values)
        elif field.required or (value is not None and (value != field.default or field.encode_name in _ALWAYS)):
            values[field.encode_name] = _plain(value)
    return values


def _plain(value: Any) -> Any:
    if isinstance(value, NlwebModel):
        return plain(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value
