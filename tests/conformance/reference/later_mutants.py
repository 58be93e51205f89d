"""Servers with one fault each, invented in a later trial of the suite: it caught eleven of these fifteen."""

from __future__ import annotations

from secrets import token_hex
from typing import Any

from .agent import Reply
from .faults import (
    amqp,
    changing_tokens,
    everywhere,
    http,
    losing,
    parts,
    posted,
    refusing,
    responding,
    websocket,
    without,
)
from .rules import Message


def spelled_small(_: Message, reply: Reply) -> Reply:
    """The reply with the subformats of its tokens in lower case."""
    tokens = [
        {**part, "subformat": part["subformat"].lower()} if part.get("format") == "token" else part
        for part in reply["submessages"]
    ]
    return {**reply, "submessages": tokens}


def renamed(_: Message, reply: Reply) -> Reply:
    """The reply with a new token for the same conversation."""
    own = [
        {**p, "content": f"own:{token_hex(8)}"} if str(p["content"]).startswith("own:") else p
        for p in reply["submessages"]
    ]
    return {**reply, "submessages": own}


def no_flag_in_words(value: Any) -> Any:
    return without(value, "control") if isinstance(value, dict) and value.get("control") == "true" else value


def of_kind(kind: str, subformat: str) -> dict[str, Any]:
    """It refuses messages with a part of this format and subformat."""
    return refusing(
        lambda message: any(
            str(part.get("format")).lower() == kind and subformat in str(part.get("subformat")).lower()
            for part in parts(message)
        )
    )


def in_ascii(content: Any) -> Any:
    return content.encode("ascii", "replace").decode() if isinstance(content, str) else content


everywhere(
    "loses tokens of messages of another type",
    "CORE-6.2-types",
    **losing(lambda message, _: bool(message.raw.get("messagetype")) and not message.is_control),
)
everywhere("sends subformats of tokens in lower case", "CORE-6.2-suffix", reply=spelled_small)
everywhere("does not take XML", "CORE-5.3-structured", **of_kind("structured", "xml"))
everywhere("does not take places in words", "CORE-5.3-location", **of_kind("location", "text"))
everywhere("does not take data of sensors", "CORE-5.3-binary", **of_kind("binary", "sensor"))
everywhere(
    "refuses messages of type request",
    "CORE-5.1.1",
    "CORE-6.2-types",
    **refusing(lambda message: str(message.get("messagetype")).lower() == "request"),
)
everywhere("does not read the flag as a word", "D-19", before=no_flag_in_words)
everywhere(
    "turns tokens that are true into words",
    "CORE-6.2.1-b",
    **changing_tokens(lambda content: str(content) if isinstance(content, bool) else content),
)
everywhere("loses tokens that are lists", "CORE-6.2.1-b", **losing(lambda _, token: isinstance(token["content"], list)))
everywhere("writes tokens in ASCII", "CORE-6.2.1-b", **changing_tokens(in_ascii))
everywhere(
    "loses authentication tokens with a suffix",
    "CORE-6.2-auth",
    "CORE-6.2-b",
    **losing(lambda _, token: str(token["subformat"]).lower().startswith("authentication_")),
)
http("names the conversation anew in each answer", "D-16", "TR-7.3.2", reply=renamed)
for binding in (websocket, amqp):
    binding("names the conversation anew in each answer", "D-16", reply=renamed)
everywhere(
    "loses tokens beside other submessages",
    "CORE-6.2-last",
    **losing(lambda message, _: len(message.parts) > len(message.tokens) + 1),
)
http("says no content type", "HTTP-6.2-type", "HTTP-6.2-type-not", **responding(posted, headers={"content-type": None}))
http(
    "redirects /nlip to /nlip/",
    "D-20",
    **responding(
        lambda request, _: request.path == "/nlip" and request.method == "POST",
        status=307,
        headers={"location": "/nlip/"},
    ),
)
