"""NLWeb responses: an agent's output in the requested version and format.

Pure: a ``ResponseFormat`` is built from the request, and turns Replies, Questions, promises and errors into response
models; a
``Stream`` turns the same into server-sent events, piece by piece.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final

import msgspec

from sabir import errors
from sabir.errors import BadInput, BadMessage, SabirError, UnknownVersion
from sabir.events import Delta, Progress, Question
from sabir.message import Message, Part
from sabir.protocols.nlip.wire import json as nlip

from .mapping import (
    META,
    OUR_TOKEN,
    IgnoredField,
    elicitation_of,
    is_result,
    notes_of,
    others_of,
    results_of,
    words_of,
    written_of,
)
from .models import (
    MISSING,
    PROTOCOL,
    AnswerResponse,
    AskRequest,
    ElicitationResponse,
    Error,
    FailureResponse,
    Json,
    Meta,
    Promise,
    PromiseResponse,
    Response,
    ResponseMeta,
    ResultObject,
    SessionContext,
    TextContent,
    plain,
    read,
    result,
)
from .requests import CHATGPT_APP, CONV_SEARCH, FORMATS, meta_of

# -- versions (W-1) -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Version:
    """What differs between versions of the protocol."""

    name: str
    answer: str
    elicitation: str
    promise: str
    failure: str
    summary: str  # @type of the summary item
    whole_events: bool  # each streamed event can be read without its name (W-2)
    both_cases: bool  # content also has Type and Text, as the models of nlweb-core 0.7 require


V0_54: Final = Version("0.54", "Answer", "Elicitation", "Promise", "Failure", "Summary", True, True)
V0_55: Final = Version("0.55", "answer", "elicitation", "promise", "failure", "SearchSummary", False, False)
VERSIONS: Final[Mapping[str, Version]] = {version.name: version for version in (V0_54, V0_55)}
DEFAULT: Final = V0_54


def version_of(meta: Meta) -> Version:
    """The version of a request.

    Raises:
        UnknownVersion: it is not supported.
    """
    if meta.api_version is None:
        return DEFAULT
    version = VERSIONS.get(meta.api_version.strip().lower().removeprefix("v"))
    if version is None:
        raise UnknownVersion(PROTOCOL, "$.meta.api_version", " or ".join(VERSIONS))
    return version


# -- failures (W-6) -------------------------------------------------------------------------------

# The status and the code of every failure. A test checks it against all errors.
CODES: Final[Mapping[type[errors.SabirError], tuple[int, str]]] = errors.ErrorTable(
    {
        errors.SabirError: (500, "INTERNAL_ERROR"),
        errors.BadInput: (400, "INVALID_REQUEST"),
        errors.Unreadable: (400, "INVALID_REQUEST"),
        errors.BadMessage: (400, "INVALID_REQUEST"),
        errors.TooLarge: (413, "TOO_LARGE"),
        errors.BadMediaType: (415, "INVALID_REQUEST"),
        errors.BadMethod: (405, "INVALID_REQUEST"),
        errors.UnknownVersion: (400, "UNSUPPORTED_VERSION"),
        errors.Refused: (403, "FORBIDDEN"),
        errors.Unauthenticated: (401, "UNAUTHENTICATED"),
        errors.Forbidden: (403, "FORBIDDEN"),
        errors.RateLimited: (429, "RATE_LIMITED"),
        errors.PolicyRequired: (403, "POLICY_REQUIRED"),
        errors.NotFound: (404, "NOT_FOUND"),
        errors.Conflict: (409, "CONFLICT"),
        errors.Cancelled: (200, "CANCELLED"),
        errors.TurnFailed: (500, "INTERNAL_ERROR"),
        errors.DeadlineExceeded: (504, "TIMEOUT"),
        errors.Unavailable: (503, "UNAVAILABLE"),
        errors.ShuttingDown: (503, "UNAVAILABLE"),
        errors.StoreUnavailable: (503, "UNAVAILABLE"),
        errors.BusUnavailable: (503, "UNAVAILABLE"),
        errors.PeerError: (502, "UPSTREAM_ERROR"),
        errors.PeerUnavailable: (502, "UPSTREAM_ERROR"),
        errors.PeerRefused: (502, "UPSTREAM_ERROR"),
        errors.PeerUnreadable: (502, "UPSTREAM_ERROR"),
        errors.ConfigError: (500, "INTERNAL_ERROR"),
        errors.MissingExtra: (501, "INTERNAL_ERROR"),
    }
)
NO_RESULTS: Final = "NO_RESULTS"
UNKNOWN_PROMISE: Final = "UNKNOWN_PROMISE"
# An unknown value at these paths has its own code.
_AT: Final[Mapping[str, str]] = {
    "$.prefer.mode": "UNSUPPORTED_MODE",
    "$.prefer.response_format": "UNSUPPORTED_FORMAT",
    "$.action": "INVALID_ACTION",
}


def code_of(exc: SabirError) -> tuple[int, str]:
    """HTTP status and NLWeb code of an error."""
    status, code = CODES[type(exc)]
    if isinstance(exc, BadMessage) and exc.protocol == PROTOCOL:
        code = _AT.get(exc.where, "MISSING_FIELD" if exc.expected.endswith(MISSING) else code)
    return status, code


# -- one answer -----------------------------------------------------------------------------------


_OF_META: Final = ("api_version", "version", "request_id")  # what an error also repeats of its request


@dataclass(frozen=True, slots=True)
class ResponseFormat:
    """How the answer to one request is encoded: version, format, session."""

    version: Version = DEFAULT
    format: str = CHATGPT_APP
    format_name: str = CHATGPT_APP  # as the caller spells it (W-4)
    modes: tuple[str, ...] = ("list",)
    session: SessionContext | None = None
    request_id: str | None = None
    filters: tuple[str, ...] = ()  # names of the requested filters
    source: str = "sabir"  # the site or agent that answers, for results without a site
    chosen: bool = False  # whether the caller named the version

    @classmethod
    def of(cls, request: AskRequest, source: str = "sabir") -> ResponseFormat:
        """Raises UnknownVersion."""
        name = request.prefer.response_format
        query = request.query
        return cls(
            version_of(request.meta),
            FORMATS[name.lower()],
            name,
            request.prefer.mode,
            request.meta.session_context,
            request.meta.request_id,
            (*(("site",) if query.site else ()), *query.filters),
            source,
        )

    @classmethod
    def of_meta(cls, meta: Meta) -> ResponseFormat:
        """For requests without their own preferences, such as ``/await``. Raises UnknownVersion."""
        chosen = meta.api_version is not None
        return cls(version_of(meta), session=meta.session_context, request_id=meta.request_id, chosen=chosen)

    @classmethod
    def guess(cls, value: object) -> ResponseFormat:
        """For a request that may be rejected: the version that it names, if that is supported."""
        meta = value.get("meta") if isinstance(value, dict) else None
        given = {name: meta[name] for name in _OF_META if name in meta} if isinstance(meta, dict) else {}
        try:
            return cls.of_meta(meta_of(given, lenient=True))
        except BadInput:
            return cls()

    def to_dict(self) -> Json:
        """The format as plain values, for a promise that is answered later."""
        return {
            "version": self.version.name,
            "format": self.format_name,
            "modes": list(self.modes),
            "session": plain(self.session) if self.session is not None else None,
            "request_id": self.request_id,
            "filters": list(self.filters),
            "source": self.source,
        }

    def restored(self, kept: Mapping[str, Any] | None) -> ResponseFormat:
        """This format with the preferences of the first request, unless this request has preferences of its own."""
        if not kept:
            return self
        session = read(SessionContext, kept["session"]) if kept.get("session") else None
        return ResponseFormat(
            self.version if self.chosen else VERSIONS.get(kept["version"], DEFAULT),
            FORMATS.get(str(kept["format"]).lower(), CHATGPT_APP),
            kept["format"],
            tuple(kept["modes"]),
            self.session or session,
            self.request_id or kept["request_id"],
            tuple(kept["filters"]),
            kept["source"],
        )

    # -- the four responses -----------------------------------------------------------------------

    def reply(self, message: Message, token: str | None = None) -> Response:
        """The response for a reply: an Answer; an Elicitation if it asks; ``NO_RESULTS`` if nothing was found."""
        question = nlip.question_of(message)
        if question is not None:
            return self.question(question, token)
        notes = notes_of(message)
        items = self.results(message)
        if notes is not None and notes.total is not None and not items:
            text = words_of(message) or "Nothing was found."
            if notes.coverage < 1.0:
                text += " The index is still being computed; ask again shortly."
            return self.no_results(text, self.about(message, token))
        meta = self.about(message, token)
        if self.format == CONV_SEARCH:
            return AnswerResponse(meta, results=(*items, *self.closing(message, items)))
        content = tuple(TextContent(text, more=self._both(text)) for text in self.texts(message, items))
        return AnswerResponse(
            meta,
            content=content,
            structured_data=items,
            structured_content={"results": [plain(item) for item in items]},
        )

    def question(
        self, question: Question, token: str | None = None, understood: Part | None = None
    ) -> ElicitationResponse:
        """``understood`` is the part with the site agent's reading of the question, from before it asked back."""
        meta = self.meta(self.version.elicitation, token)
        if understood is not None:
            about = self.about(Message.of(understood), token)
            meta = msgspec.structs.replace(about, response_type=meta.response_type, response_format=None)
        return ElicitationResponse(meta, elicitation_of(question))

    def promise(self, promise: Promise, token: str | None = None) -> PromiseResponse:
        return PromiseResponse(self.meta(self.version.promise, token), promise)

    def failure(self, exc: SabirError, token: str | None = None, *, code: str | None = None) -> FailureResponse:
        error = Error(code or code_of(exc)[1], str(exc))
        return FailureResponse(self.meta(self.version.failure, token), error)

    def no_results(self, text: str = "", meta: ResponseMeta | None = None) -> FailureResponse:
        meta = meta or self.meta(self.version.failure)
        meta = msgspec.structs.replace(meta, response_type=self.version.failure)
        return FailureResponse(meta, Error(NO_RESULTS, text or "Nothing was found."))

    # -- their parts ------------------------------------------------------------------------------

    def meta(self, response_type: str, token: str | None = None) -> ResponseMeta:
        named = self.format_name if response_type == self.version.answer else None
        return ResponseMeta(
            response_type, self.version.name, named, self.session_with(token), request_id=self.request_id
        )

    def session_with(self, token: str | None) -> SessionContext | None:
        """The session context unchanged, with our token added if the caller has its own id."""
        session = self.session
        if token is None or (session is not None and token in (session.conversation_id, session.more.get(OUR_TOKEN))):
            return session
        if session is None or session.conversation_id is None:
            return msgspec.structs.replace(session or SessionContext(), conversation_id=token)
        return msgspec.structs.replace(session, more={**session.more, OUR_TOKEN: token})

    def about(self, message: Message, token: str | None) -> ResponseMeta:
        """``_meta`` of an answer, with its agent's notes."""
        meta, notes = self.meta(self.version.answer, token), notes_of(message)
        if notes is None:
            # This agent does not support filters, so none was applied (W-5).
            return msgspec.structs.replace(meta, ignored_filters=self.filters)
        more: Json = {"coverage": notes.coverage} if notes.coverage < 1.0 else {}
        if notes.note:
            more["note"] = notes.note
        if notes.applied:
            more["applied"] = list(dict.fromkeys(notes.applied))
        if notes.ignored:
            more["ignored_because"] = _reasons(notes.ignored)
        return msgspec.structs.replace(
            meta,
            decontextualized_query=notes.question if notes.rewritten else None,
            ignored_filters=tuple(dict.fromkeys(item.name for item in notes.ignored)),
            more=more,
        )

    def results(self, message: Message) -> tuple[ResultObject, ...]:
        return tuple(self.item(item) for item in results_of(message))

    def item(self, value: Json) -> ResultObject:
        """A result as clients need it: with an id, a site and a score, without which some drop it."""
        try:
            made = result(value)
        except BadMessage:  # not the caller's fault: what fits no model is sent as it is
            kind = value.get("@type")
            made = ResultObject(kind if isinstance(kind, str) else "Thing", fields=value)
        fills: Json = {}
        if made.id is None:
            fills["id"] = made.url or f"urn:sabir:{_digest(value)}"
        if made.site is None:
            fills["site"] = self.source
        if made.score is None:
            fills["score"] = 0.0
        return msgspec.structs.replace(made, **fills) if fills else made

    def closing(self, message: Message, items: tuple[ResultObject, ...]) -> tuple[ResultObject, ...]:
        """The last item of conversational search: the written text, or the text of an agent without results."""
        written = written_of(message)
        if written:
            return tuple(
                ResultObject(
                    self.version.summary,
                    f"urn:sabir:{_digest(item.text)}",
                    site=self.source,
                    score=0.0,
                    grounding=item.grounding,
                    fields={"text": item.text},
                )
                for item in written
            )
        if items:
            return ()
        texts = self.texts(message, items)
        return tuple(
            ResultObject("Answer", f"urn:sabir:{_digest(text)}", None, self.source, self.source, 100.0, text,
                         fields={"text": text})
            for text in texts
        )  # fmt: skip

    def texts(self, message: Message, items: tuple[ResultObject, ...]) -> list[str]:
        """The answer for people and models, in one or more texts."""
        texts = [words_of(message)] if words_of(message) else []
        texts += [_shown(part) for part in others_of(message)]
        if not texts and items:
            texts = ["\n".join(_line(number, item) for number, item in enumerate(items, 1))]
        return texts

    def _both(self, text: str) -> Json:
        return {"Type": "text", "Text": text} if self.version.both_cases else {}


def _reasons(ignored: Iterable[IgnoredField]) -> Json:
    """Why filters were not applied, by name; for those from the query's text, with the words."""
    details: dict[str, list[str]] = {}
    for item in ignored:
        words = f"{item.value}: {item.reason}" if item.name == "text" and item.value else item.reason
        details.setdefault(item.name, []).append(words)
    return {name: "; ".join(reasons) for name, reasons in details.items()}


def encode(response: Response) -> bytes:
    """A response as JSON."""
    return msgspec.json.encode(plain(response))


def status_of(response: Response) -> int:
    """The HTTP status of a response that is not an error (W-6)."""
    return 202 if isinstance(response, PromiseResponse) else 200


def _digest(value: object) -> str:
    return blake2b(msgspec.json.encode(value), digest_size=12).hexdigest()


def _shown(part: Part) -> str:
    if isinstance(part.content, bytes):
        return f"[{part.subformat}, {len(part.content)} bytes]"
    return part.content if isinstance(part.content, str) else msgspec.json.encode(part.content).decode()


def _line(number: int, item: ResultObject) -> str:
    about = f": {item.description}" if isinstance(item.description, str) and item.description else ""
    return f"{number}. {item.name or item.id}{about}" + (f" ({item.url})" if item.url else "")


# -- the same as events (W-2) ---------------------------------------------------------------------


@dataclass(slots=True)
class Stream:
    """Turns events into named server-sent events; ``begun`` and ``ended`` are its state."""

    response_format: ResponseFormat
    begun: bool = False
    ended: bool = False
    _index: int = 0
    _sent: set[str] = field(default_factory=set)
    _words: str = ""

    def piece(self, event: Delta | Progress, token: str | None = None) -> bytes:
        """Send a piece before the answer."""
        return b"".join(self._piece(event, token))

    def _piece(self, event: Delta | Progress, token: str | None) -> Iterator[bytes]:
        if isinstance(event, Delta) and event.part.label == META:
            # How the question was understood is known before the first result, so it is sent with the start.
            notes = notes_of(Message.of(event.part))
            if notes is not None and notes.total == 0:
                return  # no Answer starts here: a failure, or another search
            yield from self._start(self.response_format.about(Message.of(event.part), token))
            return
        yield from self._start(self.response_format.meta(self.response_format.version.answer, token))
        if isinstance(event, Progress):
            details = {"progress": event.fraction, "message": event.note or None}
            yield sse("progress", {name: value for name, value in details.items() if value is not None})
        elif is_result(event.part):
            yield self._result(event.part.value)
        elif event.part.format == "text":
            self._words += str(event.part.content)
            yield sse("content", {"type": "text", "text": event.part.content})

    def reply(self, message: Message, token: str | None = None) -> bytes:
        """End the stream: the rest of the reply, then ``complete``."""
        response = self.response_format.reply(message, token)
        if not isinstance(response, AnswerResponse):
            return self.response(response)
        return b"".join(self._answer(message, response))

    def _answer(self, message: Message, response: AnswerResponse) -> Iterator[bytes]:
        response_format = self.response_format
        yield from self._start(response.meta)
        for value in results_of(message):
            if _identity(value) not in self._sent:
                yield self._result(value)
        items = response_format.results(message)
        if response_format.format == CONV_SEARCH:
            for closing in response_format.closing(message, items):
                yield self._item(plain(closing))
        elif not self._words:
            for text in response_format.texts(message, items):
                yield sse("content", {"type": "text", "text": text})
        yield self._complete(response.meta)

    def response(self, response: Response) -> bytes:
        """Send a whole response: a question, a promise, a failure; or the Answer of a promise."""
        if isinstance(response, AnswerResponse):
            return b"".join(self._kept(response))
        name, body = _event_of(response)
        pieces: list[bytes] = []
        if not isinstance(response, FailureResponse):
            pieces += self._start(response.meta)
        pieces.append(sse(name, body))
        if not isinstance(response, FailureResponse):
            pieces.append(self._complete(response.meta))
        self.begun = self.ended = True
        return b"".join(pieces)

    def _kept(self, response: AnswerResponse) -> Iterator[bytes]:
        yield from self._start(response.meta)
        for item in response.items:
            yield self._item(plain(item))
        for content in response.content or ():
            yield sse("content", {"type": "text", "text": content.text})
        yield self._complete(response.meta)

    def _start(self, meta: ResponseMeta) -> Iterator[bytes]:
        if not self.begun:
            self.begun = True
            yield sse("start", {"_meta": plain(meta)})

    def _complete(self, meta: ResponseMeta) -> bytes:
        self.ended = True
        return sse("complete", {"_meta": plain(meta)})

    def _result(self, value: Json) -> bytes:
        self._sent.add(_identity(value))
        return self._item(plain(self.response_format.item(value)))

    def _item(self, item: Json) -> bytes:
        data: Json = {"index": self._index, "item": item}
        if self.response_format.version.whole_events:
            data["results"] = [item]
        self._index += 1
        return sse("result", data)


def _identity(value: Json) -> str:
    item_id = value.get("@id")
    return item_id if isinstance(item_id, str) else _digest(value)


def _event_of(response: Response) -> tuple[str, Json]:
    body = plain(response)
    name = next(name for name in ("error", "promise", "elicitation") if name in body)
    return name, body


def sse(name: str, data: Any) -> bytes:
    """One server-sent event. JSON has no line breaks, so one data line is enough."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(data))
