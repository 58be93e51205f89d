"""NLWeb requests: bytes or URL parameters to typed models; errors name the path.

Decoders are lenient where clients differ (a single string for a list, a version as a number, modes joined by commas)
and strict where a guess could mislead. The flat request of versions before 0.54 is rejected with the nested form of
that very request (W-7), because half of its keys have another meaning now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from sabir.errors import BadMessage, TooLarge, Unreadable
from sabir.misfits import NOT_JSON

from .models import (
    MISSING,
    PROTOCOL,
    AskRequest,
    AwaitRequest,
    Context,
    Json,
    Meta,
    Prefer,
    Query,
    SessionContext,
    WhoMeta,
    WhoRequest,
    an_object,
    plain,
    read,
)

# The response format, by the names clients use.
CHATGPT_APP: Final = "chatgpt_app"
CONV_SEARCH: Final = "conv_search"
FORMATS: Final[Mapping[str, str]] = {
    "chatgpt_app": CHATGPT_APP,
    "conv_search": CONV_SEARCH,
    "conversational_search": CONV_SEARCH,
}
MODES: Final = ("list", "summarize", "generate")
ACTIONS: Final = ("checkin", "cancel")
SECTIONS: Final = ("query", "context", "prefer", "meta")
ANY_SITE: Final = frozenset({"", "all", "*"})
MAX_TEXT: Final = 32_768  # characters of a question
MAX_RESULTS: Final = 1000
MAX_PREV: Final = 100
MAX_CAPABILITIES: Final = 100
MAX_NAME: Final = 256  # characters of a domain, a type or a capability

# The new places of the keys of the flat request before 0.54; any other was a filter.
FLAT: Final[Mapping[str, tuple[str, str]]] = {
    "query": ("query", "text"),
    "context": ("context", "text"),
    "prev": ("context", "prev"),
    "memory": ("context", "memory"),
    "streaming": ("prefer", "streaming"),
    "mode": ("prefer", "mode"),
    "generate_mode": ("prefer", "mode"),
    "response_format": ("prefer", "response_format"),
    "lang": ("prefer", "accept-language"),
    "api_version": ("meta", "api_version"),
    "version": ("meta", "api_version"),
    "query_id": ("meta", "request_id"),
    "conversation_id": ("meta", "session_context.conversation_id"),
    "start_num": ("meta", "start_num"),
}


def json_of(body: bytes) -> Any:
    """The JSON value of a body.

    Raises:
        Unreadable: it is not JSON.
    """
    try:
        return msgspec.json.decode(body)
    except RecursionError:
        raise TooLarge(PROTOCOL, "$", "fewer levels of nesting") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise Unreadable(PROTOCOL, "$", f"a JSON object ({_short(exc)})") from None


def decode_ask(body: bytes) -> AskRequest:
    """The request in the body of ``POST /ask``.

    Raises:
        Unreadable: not JSON.
        BadMessage: not an NLWeb request; says where and what was expected.
    """
    return ask_of(json_of(body))


def ask_of(value: object, *, lenient: bool = False) -> AskRequest:
    """The request in a JSON value; the ``ask`` arguments of MCP and A2A are the same.

    Raises:
        BadMessage: it is not a request.
    """
    given = an_object(value, "$")
    query = given.get("query")
    if isinstance(query, str):
        raise BadMessage(PROTOCOL, "$.query", f"an object. Your request in the nested form: {nested_text(given)}")
    if query is None:
        raise BadMessage(PROTOCOL, "$.query", f'an object such as {{"text": "…"}}{MISSING}')
    return AskRequest(
        query_of(query, lenient=lenient),
        context_of(given.get("context"), lenient=lenient),
        prefer_of(given.get("prefer"), lenient=lenient),
        meta_of(given.get("meta"), lenient=lenient),
    )


def query_of(value: object, *, lenient: bool = False) -> Query:
    given = dict(an_object(value, "$.query"))
    sites = _words(given.pop("site", None), "$.query.site")
    query = read(Query, given, "$.query", lenient=lenient)
    if len(query.text) > MAX_TEXT:
        raise TooLarge(PROTOCOL, "$.query.text", f"at most {MAX_TEXT} characters")
    for name in ("num_results", "max_results"):
        count = getattr(query, name)
        if count is not None and not 1 <= count <= MAX_RESULTS:
            raise BadMessage(PROTOCOL, f"$.query.{name}", f"a number from 1 to {MAX_RESULTS}")
    if query.min_score is not None and not 0 <= query.min_score <= 100:
        raise BadMessage(PROTOCOL, "$.query.min_score", "a number from 0 to 100")
    return msgspec.structs.replace(query, site=tuple(site for site in sites if site.strip().lower() not in ANY_SITE))


def context_of(value: object, *, lenient: bool = False) -> Context:
    if value is None:
        return Context()
    given = dict(an_object(value, "$.context"))
    for name in ("prev", "memory"):
        given[name] = list(_words(given.get(name), f"$.context.{name}"))[-MAX_PREV:]
    return read(Context, given, "$.context", lenient=lenient)


def prefer_of(value: object, *, lenient: bool = False) -> Prefer:
    """Raises BadMessage also for an unknown format or mode."""
    if value is None:
        return Prefer()
    given = dict(an_object(value, "$.prefer"))
    given["mode"] = modes_of(given.get("mode"))
    prefer = read(Prefer, given, "$.prefer", lenient=lenient)
    if prefer.response_format.lower() not in FORMATS:
        raise BadMessage(PROTOCOL, "$.prefer.response_format", " or ".join(FORMATS))
    return prefer


def modes_of(value: object) -> tuple[str, ...]:
    """``"list, summarize"`` and ``["list", "summarize"]`` are the same.

    Raises:
        BadMessage: one of them is unknown.
    """
    words = _words(value, "$.prefer.mode")
    modes = tuple(dict.fromkeys(mode.strip().lower() for word in words for mode in word.split(",") if mode.strip()))
    if any(mode not in MODES for mode in modes):
        raise BadMessage(PROTOCOL, "$.prefer.mode", f"{', '.join(MODES)}, or several joined by commas")
    return modes or ("list",)


def meta_of(value: object, *, lenient: bool = False) -> Meta:
    if value is None:
        return Meta()
    given = dict(an_object(value, "$.meta"))
    session = given.pop("session_context", None)
    given["api_version"] = _version(given)
    if isinstance(given.get("request_id"), int | float):
        given["request_id"] = str(given["request_id"])
    meta = read(Meta, given, "$.meta", lenient=lenient)
    if meta.start_num < 0:
        raise BadMessage(PROTOCOL, "$.meta.start_num", "a number from 0")
    if session is not None:
        context = read(SessionContext, session, "$.meta.session_context")
        meta = msgspec.structs.replace(meta, session_context=context)
    return meta


def _version(meta: Mapping[str, Any]) -> str | None:
    """The version that ``meta`` names, by either name; numbers are read as text."""
    name = "api_version" if meta.get("api_version") is not None else "version"
    version = meta.get(name)
    if isinstance(version, bool) or not isinstance(version, str | int | float | None):
        raise BadMessage(PROTOCOL, f"$.meta.{name}", "a version, as text")
    return None if version is None else str(version)


# -- GET (W-8) ------------------------------------------------------------------------------------


def ask_of_pairs(pairs: Iterable[tuple[str, str]]) -> AskRequest:
    """The request of ``GET /ask?…``: JSON sections, dotted keys, or plain ``query=words``.

    Raises:
        BadMessage: it is not a request.
    """
    return ask_of(sections_of(pairs), lenient=True)


def merged(pairs: Iterable[tuple[str, str]], body: object) -> object:
    """The body of ``POST /ask?…``, completed from its URL; the body takes precedence.

    Raises:
        BadMessage: the URL parameters are invalid.
    """
    given = sections_of(pairs)
    if not given or not isinstance(body, dict) or isinstance(body.get("query"), str):
        return body
    words = given.setdefault("query", {}).setdefault("text", "")
    said = plain(ask_of(given, lenient=True))
    if not words:
        del said["query"]["text"]
    return _under(said, body)


def _under(less: Json, more: Json) -> Json:
    """Merge two objects; the values of ``more`` take precedence."""
    whole = {**less, **more}
    for name, value in more.items():
        if isinstance(value, dict) and isinstance(less.get(name), dict):
            whole[name] = _under(less[name], value)
    return whole


def sections_of(pairs: Iterable[tuple[str, str]]) -> Json:
    """URL parameters as the sections of a request.

    Raises:
        BadMessage: one of them has the flat form.
    """
    given: Json = {}
    flat: Json = {}
    for key, text in pairs:
        section, dot, name = key.partition(".")
        if section in SECTIONS and dot and name:
            _place(given.setdefault(section, {}), name, text, key)
        elif section in SECTIONS and text.lstrip().startswith("{"):
            try:
                given.setdefault(section, {}).update(msgspec.json.decode(text.encode()))
            except NOT_JSON:
                raise BadMessage(PROTOCOL, f"$.{key}", "JSON, as it begins with a brace") from None
        elif key == "query":
            given.setdefault("query", {})["text"] = text
        else:
            flat[key] = text
    if flat:
        words = given.get("query", {}).get("text", "…")
        hint = "&".join(f"{s}.{n}={_clip(t)}" for s, n, t in _nested({"query": words, **flat}))
        raise BadMessage(PROTOCOL, f"$.{next(iter(flat))}"[:80], f"dotted keys; yours in the nested form: {hint}")
    return given


def _place(section: Json, name: str, text: str, key: str) -> None:
    *steps, last = name.split(".")
    for step in steps:
        section = section.setdefault(step, {})
        if not isinstance(section, dict):
            raise BadMessage(PROTOCOL, f"$.{key}"[:80], "one value for each name")
    if last in ("prev", "memory", "site", "mode") and last in section:
        earlier = section[last]
        section[last] = [*(earlier if isinstance(earlier, list) else [earlier]), text]
    else:
        section[last] = text


# -- the flat request (W-7) -----------------------------------------------------------------------


def _nested(flat: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
    places = []
    for key, value in flat.items():
        if key in SECTIONS and isinstance(value, Mapping):
            places += [(key, str(name), item) for name, item in value.items()]
        elif value is not None:
            places.append((*FLAT.get(key, ("query", key)), value))
    return places


def nested(flat: Mapping[str, Any]) -> Json:
    """A flat request in the nested form."""
    given: Json = {}
    for section, name, value in _nested(flat):
        place = given.setdefault(section, {})
        *steps, last = name.split(".")
        for step in steps:
            if not isinstance(place.get(step), dict):
                place[step] = {}
            place = place[step]
        place[last] = [value] if last in ("prev", "memory") and isinstance(value, str) else value
    return given


def nested_text(flat: Mapping[str, Any]) -> str:
    return _clip(msgspec.json.encode(nested(flat)).decode(), 2000)


# -- /await and /who ------------------------------------------------------------------------------


def decode_await(body: bytes) -> AwaitRequest:
    """Raises Unreadable and BadMessage as ``decode_ask`` does."""
    return await_of(json_of(body))


def await_of(value: object) -> AwaitRequest:
    given = an_object(value, "$")
    token = given.get("promise_token")
    if token is None:
        raise BadMessage(PROTOCOL, "$.promise_token", f"the token of a promise{MISSING}")
    if not isinstance(token, str):
        raise BadMessage(PROTOCOL, "$.promise_token", "the token of a promise, as text")
    if given.get("action") not in ACTIONS:
        raise BadMessage(PROTOCOL, "$.action", " or ".join(ACTIONS))
    return AwaitRequest(token, given["action"], meta_of(given.get("meta")))


def who_of(value: object, *, lenient: bool = False) -> WhoRequest:
    """The request of ``/who``; the query may be plain text."""
    given = an_object(value, "$")
    query = given.get("query")
    named = {"text": query} if isinstance(query, str) else an_object({} if query is None else query, "$.query")
    asked: dict[str, Any] = {name: item for name, item in named.items() if name != "meta"}
    asked["capabilities"] = list(_words(asked.get("capabilities"), "$.query.capabilities"))
    if asked.get("text") is None:
        raise BadMessage(
            PROTOCOL, "$.query.text", f"text that says what to look for (an empty text finds every agent){MISSING}"
        )
    made = read(WhoRequest, asked, "$.query", lenient=lenient)
    _check_who(made)
    return msgspec.structs.replace(made, meta=_who_meta(given.get("meta"), lenient))


def _check_who(request: WhoRequest) -> None:
    """Every agent is compared with all of a request.

    Raises:
        TooLarge: it is too long.
    """
    if len(request.text) > MAX_TEXT:
        raise TooLarge(PROTOCOL, "$.query.text", f"at most {MAX_TEXT} characters")
    if len(request.capabilities) > MAX_CAPABILITIES:
        raise TooLarge(PROTOCOL, "$.query.capabilities", f"at most {MAX_CAPABILITIES} capabilities")
    for name, texts in (
        ("domain", (request.domain or "",)),
        ("type", (request.type or "",)),
        ("capabilities", request.capabilities),
    ):
        if any(len(text) > MAX_NAME for text in texts):
            raise TooLarge(PROTOCOL, f"$.query.{name}", f"at most {MAX_NAME} characters")


def _who_meta(value: object, lenient: bool) -> WhoMeta:
    given = dict(an_object({} if value is None else value, "$.meta"))
    given["version"] = _version(given)
    meta = read(WhoMeta, given, "$.meta", lenient=lenient)
    if meta.max_results is not None and meta.max_results < 1:  # gateways ask each other for more than MAX_RESULTS
        raise BadMessage(PROTOCOL, "$.meta.max_results", "a number of at least 1")
    return meta


def who_of_pairs(pairs: Iterable[tuple[str, str]], body: object) -> WhoRequest:
    """The request of ``/who?…``: its body, completed from its URL; other URL parameters are ignored.

    Raises:
        BadMessage: it is not a request.
    """
    given = sections_of((name, text) for name, text in pairs if name.partition(".")[0] in SECTIONS)
    if not given or not isinstance(body, dict):
        return who_of(body)
    if isinstance(body.get("query"), str):
        body = {**body, "query": {"text": body["query"]}}
    return who_of(_under(given, body), lenient=True)


# -- small readings -------------------------------------------------------------------------------


def _words(value: object, where: str) -> tuple[str, ...]:
    """A list of strings; a single one counts as a list of one."""
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise BadMessage(PROTOCOL, where, "text, or a list of texts")


def _clip(value: object, limit: int = 200) -> str:
    text = str(value)
    return text if len(text) <= limit else f"{text[:limit]}…"


def _short(exc: Exception) -> str:
    return str(exc).removeprefix("JSON is malformed: ") or "not UTF-8"
