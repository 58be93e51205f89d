"""Limits the size of messages from an MCP server: a larger message becomes an error of its request.

The size of an answer says nothing about the health of the server, so it is reported as a refusal: it ends one call and
never opens the circuit breaker.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator
from typing import Final

import httpx2
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, jsonrpc_message_adapter
from mcp_types.jsonrpc import ErrorData

logger = logging.getLogger("sabir.mcp")

MAX_MESSAGE: Final = 8 * 1024 * 1024  # bytes
TOO_LARGE: Final = -32010  # JSON-RPC code, from the range that servers may define
_SDK_SIZE: Final = "byte limit"  # from the SDK's error text for a large event; pinned by tests
_OURS: Final = "the answer is larger than"
EDGE: Final = 4096  # bytes of an overlong line that are kept, to find out which request it answers
_ID: Final = rb'"id"\s*:\s*(\d{1,18}|"[^"\\]{1,200}")'
_ID_FIRST: Final = re.compile(rb'(?:data:)?\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + _ID)
_ID_LAST: Final = re.compile(_ID + rb'\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')


def too_large_words(limit: int) -> str:
    return f"{_OURS} {limit} bytes"


def is_too_large(words: str) -> bool:
    """Whether an error of the SDK says that a message was too large."""
    return _SDK_SIZE in words or _OURS in words


class LimitedStream(httpx2.AsyncByteStream):
    """The body of a JSON answer, up to a limit."""

    def __init__(self, inner: httpx2.AsyncByteStream, limit: int) -> None:
        self._inner = inner
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for piece in self._inner:
            size += len(piece)
            if size > self._limit:
                raise httpx2.StreamError(too_large_words(self._limit))  # the SDK makes it the error of the request
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()


class Lines:
    """Splits a byte stream into lines, reading each byte once. A line over the limit is dropped."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0
        self._head = b""
        self._tail = b""

    def feed(self, chunk: bytes) -> list[bytes | LongLine]:
        """The lines that end in this chunk."""
        *ends, rest = chunk.split(b"\n")
        lines = []
        for end in ends:
            self._add(end)
            lines.append(self._take())
        self._add(rest)
        return lines

    def _add(self, piece: bytes) -> None:
        if not piece:
            return
        self._size += len(piece)
        if self._size <= self._limit:
            self._pieces.append(piece)
            return
        if self._pieces:
            self._head, self._tail = _ends(self._pieces)
            self._pieces.clear()
        elif not self._head:
            self._head = piece[:EDGE]
        self._tail = (self._tail + piece[-EDGE:])[-EDGE:]

    def _take(self) -> bytes | LongLine:
        line: bytes | LongLine = b"".join(self._pieces)
        if self._size > self._limit:
            line = LongLine(self._head, self._tail, self._limit)
        self._pieces.clear()
        self._size, self._head, self._tail = 0, b"", b""
        return line


def _ends(pieces: list[bytes]) -> tuple[bytes, bytes]:
    """The first and last ``EDGE`` bytes, without joining all: that takes milliseconds for a long line."""
    head, tail = b"", b""
    for piece in pieces:
        head += piece[: EDGE - len(head)]
        if len(head) == EDGE:
            break
    for piece in reversed(pieces):
        tail = piece[-(EDGE - len(tail)) :] + tail
        if len(tail) == EDGE:
            break
    return head, tail


class LongLine:
    """Both ends of an overlong line."""

    def __init__(self, head: bytes, tail: bytes, limit: int) -> None:
        self._head = head
        self._tail = tail
        self._limit = limit

    def error(self) -> JSONRPCError | None:
        """The error for the request that the line answers; None if neither end has its id."""
        found = _ID_FIRST.match(self._head) or _ID_LAST.search(self._tail)
        if found is None:
            return None
        request_id = found[1]
        about = ErrorData(code=TOO_LARGE, message=too_large_words(self._limit))
        return JSONRPCError(
            jsonrpc="2.0", id=request_id[1:-1].decode() if request_id.startswith(b'"') else int(request_id), error=about
        )


def message_in(line: bytes | LongLine) -> SessionMessage | Exception:
    """The message of a line, or why it is invalid.

    Raises:
        EOFError: it is too long, and which request it answers is unknown: nobody must keep waiting for it.
    """
    if isinstance(line, LongLine):
        error = line.error()
        if error is None:
            raise EOFError
        return SessionMessage(error)
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as exc:
        logger.warning("An MCP server sent a line that is not a JSON-RPC message")
        return exc
