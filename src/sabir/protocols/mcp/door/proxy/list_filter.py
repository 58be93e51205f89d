"""Filters lists of tools in answers that are otherwise passed on byte by byte."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import msgspec

from sabir.errors import PeerUnreadable
from sabir.misfits import NOT_JSON

MAX_EVENT: Final = 8 * 1024 * 1024  # bytes of one answer that may contain a list
_EVENT_END: Final = re.compile(rb"\r\n\r\n|\n\r\n|\n\n|\r\r")
_LINE_END: Final = re.compile(rb"\r\n|\n|\r")


async def with_lists(
    chunks: AsyncIterator[bytes], media_type: str, change: Callable[[Any], Any], server: str
) -> AsyncIterator[bytes]:
    """The chunks of an answer, with ``change`` applied to each result that has ``tools``.

    Raises:
        PeerUnreadable: an answer is too large to be parsed.
    """
    streams = media_type.startswith("text/event-stream")
    buffer = bytearray()
    seen = 0  # bytes without the end of an event
    async for chunk in chunks:
        buffer += chunk
        while streams and (end := _EVENT_END.search(buffer, seen)) is not None:
            yield _event(bytes(buffer[: end.end()]), change)
            del buffer[: end.end()]
            seen = 0
        seen = max(0, len(buffer) - 3)
        if len(buffer) > MAX_EVENT:
            raise PeerUnreadable(server, f"a list of more than {MAX_EVENT} bytes")
    if buffer:
        yield _event(bytes(buffer), change) if streams else _message(bytes(buffer), change)


def _event(event: bytes, change: Callable[[Any], Any]) -> bytes:
    lines = _LINE_END.split(event)
    data = [line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:")]
    if not data:
        return event
    before = b"\n".join(data)
    after = _message(before, change)
    if after is before:
        return event
    others = [line for line in lines if line and not line.startswith(b"data:")]
    return b"\r\n".join([*others, b"data: " + after, b"", b""])


def _message(text: bytes, change: Callable[[Any], Any]) -> bytes:
    """A JSON-RPC message with its list changed; unchanged if it has none."""
    try:
        message = msgspec.json.decode(text)
    except NOT_JSON:
        return text
    result = message.get("result") if isinstance(message, dict) else None
    if not isinstance(result, dict) or not isinstance(result.get("tools"), list):
        return text
    return msgspec.json.encode({**message, "result": change(result)})
