"""Reading event streams, as the HTML standard defines them."""

from __future__ import annotations

import asyncio
import codecs
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

import httpx2

from sabir.aio import Closing
from sabir.errors import PeerUnreadable

_LINE_END: Final = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    data: str
    name: str = ""
    id: str = ""


async def stream_lines(response: httpx2.Response, address: str, max_bytes: int) -> AsyncGenerator[str, None]:
    """The lines of a response, which end at CR, LF or CRLF.

    httpx also splits at U+2028, U+0085 and others, which JSON may contain.

    Raises:
        PeerUnreadable: a line is larger than ``max_bytes``.
    """
    decoder, rest = codecs.getincrementaldecoder("utf-8")("replace"), ""
    async with Closing(response.aiter_bytes()) as chunks:
        async for chunk in chunks:
            rest += decoder.decode(chunk)
            held = rest.endswith("\r")  # it may be the first half of CRLF
            *lines, last = _LINE_END.split(rest[:-1] if held else rest)
            rest = last + "\r" if held else last
            for line in lines:
                yield line
            if len(rest) > max_bytes:
                raise PeerUnreadable(address, f"a line is larger than {max_bytes} bytes")
    if rest:
        yield rest.removesuffix("\r")


async def read_events(
    response: httpx2.Response,
    address: str,
    max_bytes: int,
    *,
    left: Callable[[], float | None] = lambda: None,
    on_line: Callable[[bytes], None] = lambda line: None,
) -> AsyncGenerator[ServerSentEvent, None]:
    """The events of a response that have data; data lines are joined, and ``id`` persists until the next one.

    Raises:
        PeerUnreadable: an event is larger than ``max_bytes``.
        TimeoutError: the next line did not arrive within ``left()`` seconds.
    """
    lines = stream_lines(response, address, max_bytes)
    data, size, name, event_id = list[str](), 0, "", ""
    async with aclosing(lines):
        while True:
            async with asyncio.timeout(left()):
                line = await anext(lines, None)
            if line is None:
                return
            on_line(line.encode() + b"\n")
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if field == "data":
                data.append(value)
                size += len(line)
                if size > max_bytes:
                    raise PeerUnreadable(address, f"an event is larger than {max_bytes} bytes")
            elif field == "event":
                name = value.strip()
            elif field == "id":
                event_id = value.strip()
            elif not line:
                if data:
                    yield ServerSentEvent("\n".join(data), name, event_id)
                data, size, name = [], 0, ""
