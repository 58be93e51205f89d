"""How a server goes wrong: the ways to plant one fault in the right server, and the lists that hold the faulty ones.

A row is a name, the clause of the check that must fail, and the fault as a change to the right server. ``also`` names
the checks that cannot but fail with it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from .agent import Faults, Reply, Request, Response
from .rules import Message, Rejected


@dataclass(frozen=True)
class Mutant:
    name: str
    binding: str
    clause: str
    faults: Faults
    also: frozenset[str] = frozenset()


HTTP: list[Mutant] = []
WEBSOCKET: list[Mutant] = []
AMQP: list[Mutant] = []


def http(name: str, clause: str, *also: str, **fault: Any) -> None:
    HTTP.append(Mutant(name, "http", clause, Faults(**fault), frozenset(also)))


def websocket(name: str, clause: str, *also: str, **fault: Any) -> None:
    WEBSOCKET.append(Mutant(name, "websocket", clause, Faults(**fault), frozenset(also)))


def amqp(name: str, clause: str, *also: str, **fault: Any) -> None:
    AMQP.append(Mutant(name, "amqp", clause, Faults(**fault), frozenset(also)))


def everywhere(name: str, clause: str, *also: str, **fault: Any) -> None:
    for add in (http, websocket, amqp):
        add(name, clause, *also, **fault)


def in_both(name: str, clause: str, *also: str, **fault: Any) -> None:
    """Over HTTP in JSON and over WebSocket in CBOR."""
    for add in (http, websocket):
        add(name, clause, *also, **fault)


# -- how a server goes wrong ------------------------------------------------------------------------


def ignoring(*rules: str) -> dict[str, Any]:
    """It does not apply these rules of a message."""
    return {"ignore": frozenset(rules)}


def quirk(*names: str) -> dict[str, Any]:
    return {"quirks": frozenset(names)}


def refusing(when: Callable[[Any], bool], status: int = 400) -> dict[str, Any]:
    """It refuses valid messages of this kind; with 500, it fails on them."""

    def before(value: Any) -> Any:
        if isinstance(value, dict) and when(value):
            raise Rejected(status, "I do not take this")
        return value

    return {"before": before}


def replying(change: Callable[[Message, Reply], Any]) -> dict[str, Any]:
    """Its replies are changed: in place, or by the value that is returned."""
    return {"reply": lambda message, reply: change(message, reply) or reply}


def tokens_of(reply: Reply) -> list[Any]:
    return [part for part in reply["submessages"] if part.get("format") == "token"]


def losing(when: Callable[[Message, dict[str, Any]], bool]) -> dict[str, Any]:
    """It does not send back tokens of this kind."""

    def change(message: Message, reply: Reply) -> None:
        echoed = [part for part in message.tokens if when(message, part)]
        reply["submessages"] = [part for part in reply["submessages"] if part not in echoed]

    return replying(change)


def changing_tokens(change: Callable[[Any], Any]) -> dict[str, Any]:
    """It changes the content of the tokens that it sends back."""

    def change_tokens(_: Message, reply: Reply) -> None:
        reply["submessages"] = [
            {**part, "content": change(part["content"])} if part.get("format") == "token" else part
            for part in reply["submessages"]
        ]

    return replying(change_tokens)


def parts(value: dict[str, Any]) -> list[dict[str, Any]]:
    """The submessages of a value, the first included, as they came."""
    later = value.get("submessages")
    return [value, *(item for item in (later if isinstance(later, list) else []) if isinstance(item, dict))]


def having(**fields: Any) -> Callable[[dict[str, Any]], bool]:
    """A message of which some submessage has these values."""
    return lambda value: any(all(part.get(name) == field for name, field in fields.items()) for part in parts(value))


def without(reply: Reply, name: str) -> Reply:
    return {key: value for key, value in reply.items() if key != name}


def first_of(reply: Reply, **changes: Any) -> Reply:
    """The reply with its first further submessage changed; None takes a field away."""
    first = {**reply["submessages"][0], **changes}
    kept = {name: value for name, value in first.items() if value is not None}
    return {**reply, "submessages": [kept, *reply["submessages"][1:]]}


def bodies(change: Callable[[bytes], bytes]) -> dict[str, Any]:
    """The bytes of every JSON answer are changed."""

    def response(_: Request, answer: Response) -> Response:
        is_json = answer.headers.get("content-type") == "application/json"
        return replace(answer, body=change(answer.body)) if is_json else answer

    return {"response": response}


def responding(when: Callable[[Request, Response], Any], **changes: Any) -> dict[str, Any]:
    """Responses of this kind are changed; ``headers`` are added, and taken away where they are None."""

    def response(request: Request, answer: Response) -> Response:
        if not when(request, answer):
            return answer
        headers = {**answer.headers, **changes.get("headers", {})}
        kept = {name: value for name, value in headers.items() if value is not None}
        return replace(answer, **{**changes, "headers": kept})

    return {"response": response}


def posted(request: Request, response: Response) -> bool:
    return request.method == "POST" and request.path.rstrip("/") == "/nlip"


def asked(name: str, value: str) -> Callable[[Request, Response], bool]:
    return lambda request, _: value in request.headers.get(name, "")


def body_of(response: Response) -> Reply:
    return json.loads(response.body)


PAGE = b"<html><body>Welcome</body></html>"
