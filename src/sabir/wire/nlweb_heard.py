"""NLWeb from the asking side: a Message as a request, and what servers of 0.5, 0.54 and 0.55 answer as events.

Servers differ in case, in names, in how they stream and in what they leave out. ``Heard`` takes JSON bodies and
the data of server-sent events alike and gives events of the hub; what it does not know it leaves alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any, Final

import msgspec

from ..events import Delta, Event, Progress, Question
from ..message import Message, Part, json_part, text_part
from .nlweb_answers import NO_RESULTS
from .nlweb_hub import ASK, META, RESULT, Details, Ignored, Notes, answers_in, question_of
from .nlweb_models import Elicitation, Error, Json, Promise
from .nlweb_models import Question as Asked

FLAT: Final = "0.5"  # the version whose request has no sections
VERSIONS: Final = ("0.54", "0.55", FLAT)  # in the order they are tried
WORDS: Final = "urn:sabir:"  # begins the id of an Answer that stands for what an agent which is no site said
_SUMMARIES: Final = frozenset({"summary", "searchsummary"})
# What servers of before 0.54 call their messages, by what they are for us.
_OLD_RESULTS: Final = frozenset({"result_batch", "result"})
_OLD_TEXTS: Final = frozenset({"summary", "nlws", "text", "chart_result"})
_OLD_QUESTIONS: Final = frozenset({"ask_user"})


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
    told = {name: value for name, value in context.items() if value}
    return {**body, "context": {"@type": "ConversationalContext", **told}} if told else body


def _details(message: Message) -> Details:
    part = message.labelled(ASK)
    try:
        return msgspec.convert(part.value, Details) if part is not None else Details()
    except msgspec.ValidationError:
        return Details()


class Heard:
    """What one answer has said so far. Feed it; ``promise``, ``error`` and ``asked`` tell what else it is."""

    def __init__(self) -> None:
        self.session: Json | None = None
        self.promise: Promise | None = None
        self.error: Error | None = None
        self.asked: Question | None = None
        self.known = False  # whether anything of the protocol was in it
        self._results: dict[str, Json] = {}
        self._texts: list[str] = []
        self._pieces: list[str] = []  # of a stream: they join to one text
        self._data: list[Part] = []  # of an agent that is no site
        self._answers: set[str] = set()  # ids of what it said
        self._summaries: list[str] = []
        self._meta: Mapping[str, Any] = {}

    def feed(self, data: object, name: str = "") -> Iterator[Event]:
        """A body, or the data of one event. Yields the pieces that are new in it."""
        if not isinstance(data, dict):
            return
        meta = data.get("_meta")
        if isinstance(meta, dict):
            self.known = True
            self._meta = {**self._meta, **meta}
            session = meta.get("session_context")
            self.session = session if isinstance(session, dict) else self.session
        self._ends(data)
        yield from self._items(data, name)
        yield from self._words(data, name)
        progress = data.get("progress")
        if name == "progress":
            fraction = progress if isinstance(progress, int | float) and not isinstance(progress, bool) else None
            yield Progress(fraction, str(data.get("message", "")))

    def reply(self) -> Message:
        """Everything that was said, as the answer of a site agent."""
        results = list(self._results.values())
        summaries = [text for text in self._summaries if text not in self._texts]
        streamed = ("".join(self._pieces),) if self._pieces else ()
        text = "\n\n".join((*summaries, *streamed, *self._texts)).strip()
        total = len(results)
        if self.error is not None:
            text, total = self.error.message, 0
        elif not results and text:
            total = 1  # words alone are an answer, too
        ignored = self._meta.get("ignored_filters")
        names = [each for each in ignored if isinstance(each, str)] if isinstance(ignored, list) else []
        rewritten = self._meta.get("decontextualized_query")
        question = rewritten if isinstance(rewritten, str) else ""
        notes = Notes(question, bool(question), tuple(Ignored(each) for each in names), total)
        if not text and results:
            text = "\n".join(f"{n}. {each.get('name') or each.get('@id') or ''}" for n, each in enumerate(results, 1))
        told = bool(results or self.error or names or question or self._summaries)  # else it is no site's answer
        parts: list[Part] = [json_part(msgspec.to_builtins(notes), label=META)] if told else []
        parts += self._data
        parts += [json_part(each, label=RESULT) for each in results]
        parts += [json_part({"text": each, "citations": []}, label="summary") for each in self._summaries]
        return Message.of(text_part(text), *parts)

    @property
    def found_nothing(self) -> bool:
        return self.error is not None and self.error.code.upper() == NO_RESULTS

    # -- readings ---------------------------------------------------------------------------------

    def _ends(self, data: Json) -> None:
        old = str(data.get("message_type", ""))
        if isinstance(data.get("error"), dict):
            error = data["error"]
            self.error = Error(str(error.get("code", "ERROR")), str(error.get("message", "")))
        elif isinstance(data.get("error"), str) or old == "error":
            self.error = Error("ERROR", str(data.get("error") or data.get("content") or data.get("message") or ""))
        if isinstance(data.get("promise"), dict) and isinstance(data["promise"].get("token"), str):
            given = data["promise"]
            progress = given.get("progress")
            fraction = float(progress) if isinstance(progress, int | float) else None
            self.promise = Promise(given["token"], message=_text(given.get("message")), progress=fraction)
        if isinstance(data.get("elicitation"), dict):
            self.asked = question_of(_elicitation(data["elicitation"]))
        elif old in _OLD_QUESTIONS:
            self.asked = Question(str(data.get("content") or data.get("message") or ""))
        self.known = self.known or bool(old or self.error or self.promise or self.asked)

    def _items(self, data: Json, name: str) -> Iterator[Event]:
        items: list[Any] = [data["item"]] if isinstance(data.get("item"), dict) else []
        for key in ("results", "structuredData"):
            items += data[key] if isinstance(data.get(key), list) else []
        if str(data.get("message_type")) in _OLD_RESULTS and isinstance(data.get("content"), list):
            items += data["content"]
        for block in data["content"] if isinstance(data.get("content"), list) else ():
            resource = block.get("resource") if isinstance(block, dict) else None
            inner = resource.get("data") if isinstance(resource, dict) else None
            items += inner if isinstance(inner, list) else [inner] if isinstance(inner, dict) else []
        for item in items:
            if isinstance(item, dict):
                yield from self._item(item)

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
        """What an agent that is no site says, as a gateway tells it where results are wanted."""
        value = _value(text)
        if value is not None:
            self._data.append(json_part(value))
            yield Delta(self._data[-1])
        elif self._is_new(text):
            self._texts.append(text)
            yield Delta(text_part(text))

    def _is_new(self, text: str) -> bool:
        """Whether this was not said yet; what was said in pieces may differ from it in its spaces."""
        if not text or text in self._texts:
            return False
        return not self._pieces or text.split() != "".join(self._pieces).split()

    def _words(self, data: Json, name: str) -> Iterator[Event]:
        texts: list[str] = []
        if name == "content" and isinstance(data.get("text"), str):
            self.known = True
            self._pieces.append(data["text"])
            yield Delta(text_part(data["text"]))
        elif data.get("type") == "text" and "text" in data:
            texts.append(_text(data.get("text")) or "")
        for block in data["content"] if isinstance(data.get("content"), list) else ():
            if isinstance(block, dict) and (block.get("type") or block.get("Type")) == "text":
                texts.append(_text(block.get("text")) or _text(block.get("Text")) or "")
        if str(data.get("message_type")) in _OLD_TEXTS:
            texts.append(_text(data.get("content")) or _text(data.get("text")) or "")
        for text in texts:
            if self._is_new(text):
                self.known = True
                self._texts.append(text)
                yield Delta(text_part(text))


def _elicitation(value: Json) -> Elicitation:
    questions = tuple(
        Asked(
            str(each.get("id", "")),
            str(each.get("text", "")),
            str(each.get("type", "text")),
            tuple(str(option) for option in each.get("options") or ()),
        )
        for each in value.get("questions") or ()
        if isinstance(each, dict)
    )
    return Elicitation(str(value.get("text", "")), questions)


def _flattened(item: Json) -> Json:
    """Servers of before 0.54 put the schema.org object inside the result."""
    inner = item.get("schema_object")
    inner = inner[0] if isinstance(inner, list) and inner else inner
    if not isinstance(inner, dict):
        return item
    own = {name: value for name, value in item.items() if name != "schema_object" and value not in (None, "")}
    return {**inner, **own, "@type": own.get("@type") if own.get("@type") not in (None, "Item") else inner.get("@type")}


def _value(text: str) -> Any:
    """The object or list that a text is the JSON of, or None."""
    if not text.startswith(("{", "[")):
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


def events_in(body: bytes) -> Iterator[tuple[str, Any]]:
    """Names and data of the server-sent events of a body that came whole; data that is not JSON is left out."""
    for block in body.decode("utf-8", "replace").replace("\r\n", "\n").split("\n\n"):
        lines = [line.partition(":") for line in block.split("\n")]
        name = next((value.strip() for key, _, value in lines if key == "event"), "")
        value = _value("".join(value.strip() for key, _, value in lines if key == "data"))
        if value is not None:
            yield name, value


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
