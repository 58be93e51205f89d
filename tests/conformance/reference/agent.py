"""What is answered to a message: ECMA-430 clause 6, and the decisions that ``sabir check`` calls ours."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from . import rules
from .rules import Message, Rejected

Reply = dict[str, Any]
Json = dict[str, Any]


@dataclass
class Request:
    """What came over HTTP."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Response:
    """What goes back over HTTP."""

    status: int
    headers: dict[str, str]
    body: bytes
    version: str = "HTTP/1.1"


@dataclass
class Letter:
    """What goes back over AMQP."""

    to: str
    body: Any
    content_type: str | None
    correlation_id: Any
    address: str  # where it is sent


def same(_: Any, value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Faults:
    """Where a server can be made wrong. Each is a function of what was asked and of what the right server would do."""

    ignore: frozenset[str] = frozenset()  # rules of a message that it does not apply
    before: Callable[[Any], Any] = lambda value: value  # on the value that was read, before it is a message
    reply: Callable[[Message, Reply], Reply] = same
    response: Callable[[Request, Response], Response] = same
    request: Callable[[Request], Request] = lambda request: request
    frame: Callable[[bytes | str, bytes | str], bytes | str | None] = same  # of a WebSocket; None: close
    letter: Callable[[Any, Letter], Letter | None] = same  # of AMQP; None: do not answer
    quirks: frozenset[str] = frozenset()  # faults of the connection, by name


RIGHT = Faults()


def text(content: str, **more: Any) -> Reply:
    return {"format": "text", "subformat": "english", "content": content, **more}


@dataclass
class Agent:
    """A server's memory: its own tokens, upload places, tasks and agreements."""

    faults: Faults = RIGHT
    url: str = ""
    places: set[str] = field(default_factory=set)
    tasks: dict[str, list[Reply]] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)
    asynchronous: bool = True
    streams: bool = True

    def read(self, value: Any, *, strict: bool = False) -> Message:
        return rules.read(self.faults.before(value), self.faults.ignore, strict=strict)

    def answer(self, message: Message) -> Reply:
        """The right answer, and then the fault."""
        own = next((token for token in message.tokens if str(token["content"]).startswith("own:")), None)
        name = str(own["content"]) if own is not None else f"own:{secrets.token_hex(8)}"
        reply = self._control(message, name) if message.is_control else self._data(message)
        tokens = [token for token in message.tokens if token is not own]
        tokens.append({"format": "token", "subformat": "conversation", "content": name})
        reply["submessages"] = [*reply.get("submessages", []), *tokens]
        if name in self.limits and not message.is_control:
            self._cut(reply, self.limits[name])
        return self.faults.reply(message, reply)

    def _data(self, message: Message) -> Reply:
        unknown = next((p for p in message.parts if p["format"] in ("generic", "binary", "location")), None)
        if unknown is not None:
            return text(f"I got {unknown['format']}/{unknown['subformat']}, which I only store.")
        return text(f"You said: {message.text}" if message.text else "Hello. What can I do for you?")

    def _control(self, message: Message, name: str) -> Reply:
        reply = text(
            "Privacy: nothing is kept. Ethics: do no harm. Security: ECMA-434 profile 1.", messagetype="control"
        )
        if "Capabilities" in message.text:
            reply["content"] = "AGENT:reference\nCAP:repeats what is said"
        if message.raw.get("control") is True:
            reply["control"] = True
        wish = message.labelled("limits")
        if isinstance(wish, dict):
            self.limits[name] = int(wish["propose"]["reply"])
            terms = {"agreed": {"reply": self.limits[name]}}
            reply["submessages"] = [{"format": "structured", "subformat": "json", "label": "limits", "content": terms}]
        elif "upload" in message.text:
            self.places.add(place := secrets.token_hex(8))
            address = f"{self.url or 'http://127.0.0.1:9'}/upload/{place}"
            reply["submessages"] = [{"format": "structured", "subformat": "uri", "content": address}]
        return reply

    def _cut(self, reply: Reply, limit: int) -> None:
        over = len(json.dumps(reply, ensure_ascii=False).encode()) - limit + 200  # and some room to spare
        if over > 0:
            reply["content"] = reply["content"][: max(0, len(reply["content"]) - over)]


def error(reason: str, **more: Any) -> Reply:
    return text(reason, messagetype="error", **more)


def encode(reply: Reply) -> bytes:
    return json.dumps(reply, ensure_ascii=False).encode("utf-8", "replace")


def preferences(request: Request) -> dict[str, str]:
    """``Prefer: respond-async, wait=0`` as a table."""
    found = {}
    for item in request.headers.get("prefer", "").split(","):
        name, _, value = item.partition(";")[0].strip().partition("=")
        found[name.strip().lower()] = value.strip().lower()
    return found


def accepts_events(request: Request) -> bool:
    for item in request.headers.get("accept", "").split(","):
        name, *parameters = [piece.strip().lower() for piece in item.split(";")]
        if name == "text/event-stream":
            return not any(parameter.rstrip("0").rstrip(".") in ("q=", "q=0") for parameter in parameters)
    return False


class HttpAgent:
    """The agent over HTTP: ECMA-431, as a function from a request to a response."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    def handle(self, request: Request) -> Response:
        request = self.agent.faults.request(request)
        try:
            response = self._route(request)
        except Rejected as exc:
            response = _json(exc.status, error(str(exc)))
        except Exception as exc:  # a planted fault may break anything
            response = Response(500, {"content-type": "text/plain"}, repr(exc).encode())
        if preferences(request).get("handling") in ("strict", "lenient") and request.path.rstrip("/") == "/nlip":
            response.headers["preference-applied"] = f"handling={preferences(request)['handling']}"
        return self.agent.faults.response(request, response)

    def _route(self, request: Request) -> Response:
        head, _, name = request.path.strip("/").partition("/")
        if head == "nlip" and not name:
            return self._message(request)
        if request.path.rstrip("/") == "/nlip/upload" and request.method == "POST":
            return _json(201, text("stored"))
        if head == "upload" and request.method == "POST":
            return _json(201, text("stored")) if name in self.agent.places else _json(404, error("no such place"))
        if head == "tasks" and name in self.agent.tasks:
            steps = self.agent.tasks[name]
            return _json(202 if len(steps) > 1 else 200, steps.pop(0) if len(steps) > 1 else steps[0])
        return _json(404, error("there is nothing here"))

    def _message(self, request: Request) -> Response:
        if request.method != "POST":
            response = _json(405, error("send messages by POST"))
            response.headers["allow"] = "POST"
            return response
        is_json = "json" in request.headers.get("content-type", "application/json").lower()
        try:
            value = rules.from_json(request.body, self.agent.faults.ignore)
        except Rejected:
            if is_json:
                raise
            raise Rejected(415, "send application/json") from None
        wishes = preferences(request)
        reply = self.agent.answer(self.agent.read(value, strict=wishes.get("handling") == "strict"))
        if "respond-async" in wishes and self.agent.asynchronous:
            return self._later(reply)
        if accepts_events(request) and self.agent.streams:
            return _events([text("You", messagetype="partial"), reply])
        return _json(200, reply)

    def _later(self, reply: Reply) -> Response:
        name = secrets.token_hex(8)
        place = {"format": "structured", "subformat": "uri", "content": f"{self.agent.url}/tasks/{name}"}
        tokens = [
            part for part in reply.get("submessages", []) if isinstance(part, dict) and part.get("format") == "token"
        ]
        accepted = text("The answer will be at this address.", submessages=[place, *tokens])
        self.agent.tasks[name] = [accepted, reply]
        response = _json(202, accepted)
        response.headers |= {"location": f"/tasks/{name}", "preference-applied": "respond-async"}
        return response


def _json(status: int, reply: Reply) -> Response:
    return Response(status, {"content-type": "application/json"}, encode(reply))


def _events(replies: list[Reply]) -> Response:
    body = b"".join(b"data: " + encode(reply) + b"\n\n" for reply in replies)
    return Response(200, {"content-type": "text/event-stream"}, body)
