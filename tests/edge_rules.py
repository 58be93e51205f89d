"""The rules of the HTTP edge and what each door answers: data of the tests, and of ``docs/edge.md``."""

from __future__ import annotations

from dataclasses import dataclass, field

from edge_doors import DRIVERS

NOT_READ = "–"  # the door has no such thing


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: the status that every door answers with, and the doors that differ."""

    name: str
    text: str
    answer: str
    but: dict[str, str] = field(default_factory=dict)

    def at(self, door: str) -> str:
        return self.but.get(door, self.answer)


_RAW = {"upload": NOT_READ}  # takes bytes of any kind
# ACL has the id of the message for it.
_KEYS = {"mcp": NOT_READ, "a2a": NOT_READ, "a2a (HTTP+JSON)": NOT_READ, "upload": NOT_READ, "acl": NOT_READ}

RULES = (
    Rule("malformed flood", "invalid bodies count against the rate of their address", "429", {"upload": NOT_READ}),
    Rule("packed body", "`Content-Encoding` other than identity", "415"),
    Rule("other charset", "`charset` other than UTF-8", "415", _RAW),
    Rule("announced too long", "`Content-Length` over `limits.body`, before the body is read", "413", _RAW),
    Rule("too long", "a chunked body over `limits.body`", "413", _RAW),
    Rule("too deep", "200 levels of nesting (`limits.depth`)", "413", _RAW),
    Rule("too many values", "50,000 values (`limits.values`; a quarter of it at A2A)", "413", _RAW),
    Rule("not JSON", "a body that is not JSON; the answer names the place", "400", _RAW | {"a2a": "200"}),
    Rule("not UTF-8", "a body that is not UTF-8; the answer says so in our words", "400", _RAW | {"a2a": "200"}),
    Rule(
        "huge number",
        "an integer of 10,000 digits; no text of Python or a library",
        "4xx",
        _RAW | {"a2a": "4xx or 200"},
    ),
    Rule("wrong method", "a method that the path does not take, with `Allow`", "405", {"upload": NOT_READ}),
    Rule("long key", "an `Idempotency-Key` of 257 characters", "422", _KEYS | {"nlweb": "400"}),
    Rule("key of another message", "the same `Idempotency-Key` with another body", "409", _KEYS),
    Rule("cross-site", "a request that a page of another site made (`Sec-Fetch-Site`)", "403"),
    Rule("not JSON to a stream", "`Accept: application/json, text/event-stream;q=0` is answered in JSON", "JSON", _RAW),
    Rule("safe headers", "`X-Content-Type-Options: nosniff` and `Cache-Control: no-store`", "yes"),
    Rule("proxy's port", "behind a proxy, `X-Forwarded-For` with a port or junk is not a new address", "429"),
)


@dataclass(frozen=True, slots=True)
class RuleElsewhere:
    """One rule where there is no HTTP around a message: the code, in the protocol's own form, by door."""

    name: str
    text: str
    answers: dict[str, str]


FLOOD = "malformed flood"
ELSEWHERE_DOORS = ("WebSocket, JSON", "WebSocket, CBOR", "AMQP", "gRPC", "gRPC, A2A 0.3")


def _elsewhere(name: str, text: str, *answers: str) -> RuleElsewhere:
    rows = zip(ELSEWHERE_DOORS, answers, strict=True)
    return RuleElsewhere(name, text, {door: answer for door, answer in rows if answer != NOT_READ})


_INVALID = "INVALID_ARGUMENT"
_OVER = "RESOURCE_EXHAUSTED"
ELSEWHERE_RULES = (
    _elsewhere(FLOOD, "what is no message counts against the rate of its address", "429", "429", "429", _OVER, _OVER),
    _elsewhere("too long", "a message over `limits.body`", "1009", "1009", "413", _OVER, NOT_READ),
    _elsewhere("too deep", "80 levels of nesting (`limits.depth`)", "413", "413", "413", NOT_READ, NOT_READ),
    _elsewhere("too many values", "50,000 values (`limits.values`; a quarter of it at gRPC)", "413", "413", "413",
               _INVALID, _INVALID),
    _elsewhere("unreadable", "not JSON, CBOR or protobuf", "400", "400", "400", _INVALID, _INVALID),
    _elsewhere("not UTF-8", "a text that is not UTF-8", "1007", "400", "400", _INVALID, NOT_READ),
    _elsewhere("huge number", "an integer of 10,000 digits", "400 or 422", "422", "400 or 422", NOT_READ, NOT_READ),
)  # fmt: skip


def page() -> str:
    """``docs/edge.md``."""
    names = [driver.name for driver in DRIVERS]
    lines = [
        "# The HTTP edge\n",
        "Every HTTP door reads its requests by the same functions (`sabir.http`). This table says what each door",
        "answers; `tests/http/test_edge.py` tries every cell on a real socket. A dash means that the door has no such",
        "thing. Written by `make docs`.\n",
        "| rule | " + " | ".join(names) + " |",
        "|---|" + "---|" * len(names),
    ]
    for rule in RULES:
        cells = " | ".join(rule.at(name) for name in names)
        lines.append(f"| **{rule.name}**: {rule.text} | {cells} |")
    lines += ["", *ELSEWHERE_TEXT.strip().splitlines(), ""]
    lines += ["| rule | " + " | ".join(ELSEWHERE_DOORS) + " |", "|---|" + "---|" * len(ELSEWHERE_DOORS)]
    for other in ELSEWHERE_RULES:
        cells = " | ".join(other.answers.get(name, NOT_READ) for name in ELSEWHERE_DOORS)
        lines.append(f"| **{other.name}**: {other.text} | {cells} |")
    return "\n".join(lines) + "\n" + SERVER_TEXT


ELSEWHERE_TEXT = """
JSON-RPC at `/a2a` answers errors of a request with HTTP 200 and an error object, as A2A says; a rate, a size or a media
type is told by the status.

Where a rule makes sense without HTTP, it holds there too; `tests/http/test_edge_elsewhere.py` tries it over real
sockets and a real broker. The codes are those of the NLIP error message, of the WebSocket close, or of gRPC.
"""

SERVER_TEXT = """
The server in front of the doors (`sabir.server.http_protocol`) adds: at most 64 KiB and 256 headers in a head, an HTTP
version of 1.0 or 1.1, at most 64 KiB of chunk extensions and trailers, 20 seconds for a head, 60 seconds between two
pieces of a body and 500 bytes a second on average after a minute. A request that is answered before its body was read
ends its connection. An offer of another protocol than WebSocket is ignored, and its request is read as usual.

What a message costs is judged by its values, and 64 bytes count as one more; at A2A each counts four times, since the
SDK turns it into protobuf and back. A message of more than 500 waits for its turn, one at a time, and the next waits
for twice as long as it took. Each thousand after the first costs one more request of the caller's rate, and two more
for each content filter; the account may be overdrawn by as much as a burst, and whoever has done so waits.
"""
