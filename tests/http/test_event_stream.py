"""Event streams as bytes: where lines end, what an event is, and how large it may be."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest

from sabir.errors import PeerUnreadable
from sabir.http.event_stream import ServerSentEvent, read_events, stream_lines


class Chunks(httpx2.AsyncByteStream):
    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks = chunks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk


def response_of(*chunks: bytes) -> httpx2.Response:
    return httpx2.Response(200, stream=Chunks(list(chunks)))


async def events_of(*chunks: bytes, max_bytes: int = 1000) -> list[ServerSentEvent]:
    return [event async for event in read_events(response_of(*chunks), "http://peer", max_bytes)]


@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c"])
async def test_only_cr_and_lf_end_a_line(character: str) -> None:
    """httpx ends lines at all of these; JSON may hold them, and what followed was lost."""
    assert await events_of(f'data: {{"text": "a{character}b"}}\n\n'.encode()) == [
        ServerSentEvent(f'{{"text": "a{character}b"}}')
    ]


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
async def test_lines_end_alike_however_the_bytes_come(end: str) -> None:
    body = f"event: step{end}id: 7{end}data: one{end}data:two{end}: a comment{end}{end}data: é{end}{end}".encode()
    expected = [ServerSentEvent("one\ntwo", "step", "7"), ServerSentEvent("é", "", "7")]
    for size in (1, 2, 3, len(body)):
        assert await events_of(*(body[at : at + size] for at in range(0, len(body), size))) == expected


async def test_a_line_without_an_end_does_not_fill_the_memory() -> None:
    with pytest.raises(PeerUnreadable, match="larger than 1000 bytes"):
        await events_of(*[b"x" * 400] * 10)


async def test_an_event_of_many_lines_is_limited_too() -> None:
    with pytest.raises(PeerUnreadable, match="larger than 1000 bytes"):
        await events_of(b"data: 12345678901234567890\n" * 100)


async def test_the_last_line_needs_no_end() -> None:
    assert [line async for line in stream_lines(response_of(b"one\r", b"\ntwo"), "http://peer", 100)] == ["one", "two"]
