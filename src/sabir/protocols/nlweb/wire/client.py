"""NLWeb on the client's side: a Message as a request, and the answers of servers of 0.5, 0.54 and 0.55 as events.

Servers differ in case, in names, in how they stream and in what they omit. ``ResponseReader`` takes JSON bodies and the
data of server-sent events alike and returns events of the hub; it ignores what it does not know.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any, Final

import msgspec

from sabir.events import Delta, Event, Progress, Question
from sabir.message import Message, Part, json_part, text_part
from sabir.misfits import NOT_JSON

from .dialects import Dialect, dialect_of
from .mapping import ASK, META, RESULT, Details, IgnoredField, Notes, answers_in
from .models import Error, Json, Promise
from .responses import NO_RESULTS

FLAT: Final = "0.5"  # the version whose request has no sections
VERSIONS: Final = ("0.54", "0.55", FLAT)  # in the order they are tried
WORDS: Final = "urn:sabir:"  # prefix of the id of an Answer that holds the text of an agent other than a site
_SUMMARIES: Final = frozenset({"summary", "searchsummary"})


def request_of(message: Message, version: str, session: Json | None, *, streams: bool) -> Json:
    """The body of ``POST /ask`` for a Message, in a version's own form."""
    details = _details(message)
    query: Json = {"text": message.text, **details.filters}
    for name, value in (("max_results", details.limit), ("min_score", details.min_score)):
        if value is not None:
            query[name] = value
    if details.rewritten:
        query["decontextualized_query"] = details.rewritten
    if version == FLAT:
        flat = {"query": query.pop("text"), **query, "streaming": streams}
        return {**flat, "prev": list(details.prev)} if details.prev else flat
    context = {
        "prev": list(details.prev or ()),
        "memory": list(details.memory),
        "text": details.about,
        "answers": details.answers or answers_in(message),
    }
    prefer: Json = {"streaming": streams, "response_format": "conv_search", "mode": ",".join(details.modes) or "list"}
    if details.languages:
        prefer["accept-language"] = details.languages
    meta: Json = {"api_version": version, "version": version}
    if details.start:
        meta["start_num"] = details.start
    if session:
        meta["session_context"] = session
    body: Json = {"query": query, "prefer": prefer, "meta": meta}
    summary = {name: value for name, value in context.items() if value}
    return {**body, "context": {"@type": "ConversationalContext", **summary}} if summary else body


def _details(message: Message) -> Details:
    part = message.labelled(ASK)
    try:
        return msgspec.convert(part.value, Details) if part is not None else Details()
    except msgspec.ValidationError:
        return Details()


class ResponseReader:
    """Reads one response. Feed it; ``promise``, ``error`` and ``asked`` are set if it is not an answer."""

    def __init__(self) -> None:
        self.session: Json | None = None
        self.promise: Promise | None = None
        self.error: Error | None = None
        self.asked: Question | None = None
        self.known = False  # whether anything in it belonged to the protocol
        self._results: dict[str, Json] = {}
        self._texts: list[str] = []
        self._pieces: list[str] = []  # of a stream: joined to one text
        self._data: list[Part] = []  # of an agent other than a site
        self._answers: set[str] = set()  # ids of its texts
        self._summaries: list[str] = []
        self._meta: Mapping[str, Any] = {}

    def feed(self, data: object, name: str = "") -> Iterator[Event]:
        """Read a body, or the data of one event. Yields what is new in it."""
        if not isinstance(data, dict):
            return
        meta = data.get("_meta")
        if isinstance(meta, dict):
            self.known = True
            self._meta = {**self._meta, **meta}
            session = meta.get("session_context")
            self.session = session if isinstance(session, dict) else self.session
        dialect = dialect_of(data)
        self._read_end(data, dialect)
        for item in dialect.items(data):
            if isinstance(item, dict):
                yield from self._item(item)
        yield from self._words(data, name, dialect)
        progress = data.get("progress")
        if name == "progress":
            fraction = progress if isinstance(progress, int | float) and not isinstance(progress, bool) else None
            yield Progress(fraction, str(data.get("message", "")))

    def reply(self) -> Message:
        """The whole answer, in the form that a site agent uses."""
        results = list(self._results.values())
        text = self._text()
        notes = self._notes(len(results), text)
        is_of_site = bool(results or self.error or self._summaries or notes.question or notes.ignored)
        parts: list[Part] = [json_part(msgspec.to_builtins(notes), label=META)] if is_of_site else []
        parts += self._data
        parts += [json_part(item, label=RESULT) for item in results]
        parts += [json_part({"text": summary, "citations": []}, label="summary") for summary in self._summaries]
        return Message.of(text_part(text or self._shown(results)), *parts)

    def _shown(self, results: list[Json]) -> str:
        """The text for results: the sentence in ``_meta.note``, if the server sent one, or their names."""
        note = self._meta.get("note")
        return note if results and isinstance(note, str) and note else _listed(results)

    def _text(self) -> str:
        if self.error is not None:
            return self.error.message
        summaries = [summary for summary in self._summaries if summary not in self._texts]
        streamed = ["".join(self._pieces)] if self._pieces else []
        return "\n\n".join([*summaries, *streamed, *self._texts]).strip()

    def _notes(self, total: int, text: str) -> Notes:
        if self.error is not None:
            total = 0
        elif not total and text:
            total = 1  # text alone is an answer, too
        ignored = self._meta.get("ignored_filters")
        names = [name for name in ignored if isinstance(name, str)] if isinstance(ignored, list) else []
        rewritten = self._meta.get("decontextualized_query")
        question = rewritten if isinstance(rewritten, str) else ""
        return Notes(question, bool(question), tuple(IgnoredField(name) for name in names), total)

    @property
    def found_nothing(self) -> bool:
        return self.error is not None and self.error.code.upper() == NO_RESULTS

    # -- readings ---------------------------------------------------------------------------------

    def _read_end(self, data: Json, dialect: Dialect) -> None:
        """Read an error, a question or a promise instead of an answer."""
        self.error = dialect.error(data) or self.error
        self.asked = dialect.question(data) or self.asked
        given = data.get("promise")
        if isinstance(given, dict) and isinstance(given.get("token"), str):
            progress = given.get("progress")
            fraction = float(progress) if isinstance(progress, int | float) else None
            self.promise = Promise(given["token"], message=_text(given.get("message")), progress=fraction)
        self.known = self.known or bool(data.get("message_type") or self.error or self.promise or self.asked)

    def _item(self, given: Json) -> Iterator[Event]:
        self.known = True
        item = _flattened(given)
        kind = item.get("@type")
        if isinstance(kind, str) and kind.lower() in _SUMMARIES:
            text = _text(item.get("text")) or _text(item.get("description")) or ""
            if text and text not in self._summaries:
                self._summaries.append(text)
            return
        if kind == "Answer" and str(item.get("@id", "")).startswith(WORDS):
            if item["@id"] not in self._answers:
                self._answers.add(item["@id"])
                yield from self._said(_text(item.get("text")) or "")
            return
        key = str(item.get("@id") or item.get("url") or blake2b(msgspec.json.encode(item), digest_size=12).hexdigest())
        if key not in self._results:
            self._results[key] = item
            yield Delta(json_part(item, label=RESULT))

    def _said(self, text: str) -> Iterator[Event]:
        """The text of an agent other than a site, as a gateway sends it where results are expected."""
        value = _value(text)
        if value is not None:
            self._data.append(json_part(value))
            yield Delta(self._data[-1])
        elif self._is_new(text):
            self._texts.append(text)
            yield Delta(text_part(text))

    def _is_new(self, text: str) -> bool:
        """Whether this is new; streamed pieces may differ from it in white space."""
        if not text or text in self._texts:
            return False
        return not self._pieces or text.split() != "".join(self._pieces).split()

    def _words(self, data: Json, name: str, dialect: Dialect) -> Iterator[Event]:
        texts = dialect.texts(data)
        if name == "content" and isinstance(data.get("text"), str):
            self.known = True
            self._pieces.append(data["text"])
            yield Delta(text_part(data["text"]))
            texts = texts[1:] if data.get("type") == "text" else texts
        for text in texts:
            if self._is_new(text):
                self.known = True
                self._texts.append(text)
                yield Delta(text_part(text))


def _listed(results: list[Json]) -> str:
    """The names of results, for people."""
    return "\n".join(f"{n}. {item.get('name') or item.get('@id') or ''}" for n, item in enumerate(results, 1))


def _flattened(item: Json) -> Json:
    """Servers before 0.54 put the schema.org object inside the result."""
    inner = item.get("schema_object")
    inner = inner[0] if isinstance(inner, list) and inner else inner
    if not isinstance(inner, dict):
        return item
    own = {name: value for name, value in item.items() if name != "schema_object" and value not in (None, "")}
    return {**inner, **own, "@type": own.get("@type") if own.get("@type") not in (None, "Item") else inner.get("@type")}


def _value(text: str) -> Any:
    """The object or list in a JSON text, or None."""
    if not text.startswith(("{", "[")):
        return None
    try:
        return msgspec.json.decode(text)
    except NOT_JSON:
        return None


def events_in(body: bytes) -> Iterator[tuple[str, Any]]:
    """Names and data of the server-sent events of a complete body; data that is not JSON is skipped."""
    for block in body.decode("utf-8", "replace").replace("\r\n", "\n").split("\n\n"):
        lines = [line.partition(":") for line in block.split("\n")]
        name = next((value.strip() for key, _, value in lines if key == "event"), "")
        value = _value("".join(value.strip() for key, _, value in lines if key == "data"))
        if value is not None:
            yield name, value


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
