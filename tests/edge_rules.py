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
    Rule(
        "malformed flood", "invalid bodies count against the rate limit of the IP address", "429", {"upload": NOT_READ}
    ),
    Rule("compressed body", "`Content-Encoding` other than identity", "415"),
    Rule("other charset", "`charset` other than UTF-8", "415", _RAW),
    Rule("declared too long", "`Content-Length` over `limits.body`, before the body is read", "413", _RAW),
    Rule("too long", "a chunked body over `limits.body`", "413", _RAW),
    Rule("too deep", "more levels of nesting than `limits.depth`", "413", _RAW),
    Rule("too many values", "more values than `limits.values` (A2A: than a quarter of it)", "413", _RAW),
    Rule("not JSON", "a body that is not JSON; the error message says where", "400", _RAW | {"a2a": "200"}),
    Rule("not UTF-8", "a body that is not UTF-8; the error message says so", "400", _RAW | {"a2a": "200"}),
    Rule(
        "huge number",
        "an integer of 10,000 digits; the error comes from Sabir, not Python",
        "4xx",
        _RAW | {"a2a": "4xx or 200"},
    ),
    Rule(
        "wrong method", "a method that the path does not support; the answer has `Allow`", "405", {"upload": NOT_READ}
    ),
    Rule("long key", "an `Idempotency-Key` of 257 characters", "422", _KEYS | {"nlweb": "400"}),
    Rule("reused key", "the same `Idempotency-Key` with another body", "409", _KEYS),
    Rule("cross-site", "a request from a page of another site (`Sec-Fetch-Site`)", "403"),
    Rule("no stream", "`Accept: application/json, text/event-stream;q=0` is answered in JSON", "JSON", _RAW),
    Rule("safe headers", "`X-Content-Type-Options: nosniff` and `Cache-Control: no-store`", "yes"),
    Rule(
        "proxy port",
        "behind a proxy, a client cannot escape its rate limit with another port, or with junk, in `X-Forwarded-For`",
        "429",
    ),
)


@dataclass(frozen=True, slots=True)
class RuleElsewhere:
    """One rule where there is no HTTP around a message: the code, in the protocol's own form, by door."""

    name: str
    text: str
    answers: dict[str, str]


FLOOD = "malformed flood"
ELSEWHERE_DOORS = ("WebSocket, JSON", "WebSocket, CBOR", "WebSocket, ACL", "AMQP", "gRPC", "gRPC, A2A 0.3")


def _elsewhere(name: str, text: str, *answers: str) -> RuleElsewhere:
    rows = zip(ELSEWHERE_DOORS, answers, strict=True)
    return RuleElsewhere(name, text, {door: answer for door, answer in rows if answer != NOT_READ})


_INVALID = "INVALID_ARGUMENT"
_OVER = "RESOURCE_EXHAUSTED"
ELSEWHERE_RULES = (
    _elsewhere(FLOOD, "invalid messages count against the rate limit of the IP address", "429", "429", "busy", "429",
               _OVER, _OVER),
    _elsewhere("too long", "a message over `limits.body`", "1009", "1009", "1009", "413", _OVER, NOT_READ),
    _elsewhere("too deep", "more levels of nesting than `limits.depth`", "413", "413", "too_large", "413",
               NOT_READ, NOT_READ),
    _elsewhere("too many values", "more values than `limits.values` (gRPC: than a quarter of it)", "413", "413",
               "too_large", "413", _INVALID, _INVALID),
    _elsewhere("unreadable", "not JSON, CBOR or protobuf", "400", "400", "parsing_error", "400", _INVALID, _INVALID),
    _elsewhere("not UTF-8", "a text that is not UTF-8", "1007", "400", "1007", "400", _INVALID, NOT_READ),
    _elsewhere("huge number", "an integer of 10,000 digits", "400 or 422", "422", "parsing_error", "400 or 422",
               NOT_READ, NOT_READ),
)  # fmt: skip


def page() -> str:
    """``docs/edge.md``."""
    names = [driver.name for driver in DRIVERS]
    lines = [
        "# The HTTP edge\n",
        "How a gateway answers bad requests, such as bodies that are too large or not JSON. This page is for people",
        "who write clients or doors. All HTTP doors read requests with the same functions (`sabir.http`), and",
        "`tests/http/test_edge.py` tries every cell of the table on a real socket. A dash means that the rule does not",
        "apply to the door. `make docs` writes this page.\n",
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
JSON-RPC at `/a2a` answers an invalid request with HTTP 200 and an error object, as A2A requires. Errors about access,
methods, sizes, media types and rates, and an unavailable gateway, have an HTTP status there as well.

## Without HTTP

Where a rule makes sense over WebSocket, AMQP or gRPC, it applies there as well (`tests/http/test_edge_elsewhere.py`).
A number such as 413 is the status in an NLIP error message, 1007 and 1009 are WebSocket close codes, names in
capitals are gRPC statuses, and names in lower case are the reason in an ACL message.
"""

SERVER_TEXT = """
## The server

The HTTP server in front of the doors (`sabir.server.http_protocol`) has limits of its own:

| limit | value |
|---|---|
| request head | 64 KiB, 256 headers, 20 seconds to arrive |
| HTTP version | 1.0 or 1.1 |
| chunk extensions and trailers | 64 KiB |
| body | 60 seconds between two pieces; after a minute, 500 bytes a second on average |

If a request is answered before its body was read, its connection is closed. An `Upgrade` to anything but WebSocket is
ignored.

## Costly messages

The cost of a message is the number of its JSON or CBOR values, plus one for every 64 bytes. Over A2A each value counts
four times, because the SDK converts it to protobuf and back.

- Messages that cost more than 500 are handled one at a time, each followed by a pause twice as long as it took.
- A message that costs more than 1,000 counts as several requests against the caller's rate limit. Every full 1,000 adds
  one request, and two more for each content filter. At a cost of 3,500, that is 1 + 3 = 4 requests without filters,
  and 1 + 3 × 3 = 10 with one filter. A caller may exceed its rate by one burst, and then has to wait.
"""
