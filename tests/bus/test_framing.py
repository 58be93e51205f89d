"""Frames and packets as bytes."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sabir.bus import BusLimits, Letter
from sabir.bus.framing import Kind, Packet, batches, chunks, decode_packets, encode_packets, frame, letters_of, packed
from sabir.errors import TooLarge, Unreadable

LIMITS = BusLimits()


def test_a_frame_is_a_version_and_letters_each_with_its_length() -> None:
    wire = frame([packed(Letter("a", b"hi", "1"), LIMITS), packed(Letter("b", b"", "2"), LIMITS)])
    first = b"\x98\xa1a\xc4\x02hi\xa11\xa0\xa0\x80\xcb" + bytes(8) + b"\xa0"
    second = b"\x98\xa1b\xc4\x00\xa12\xa0\xa0\x80\xcb" + bytes(8) + b"\xa0"
    assert wire == b"\x01" + b"\0\0\0" + bytes([len(first)]) + first + b"\0\0\0" + bytes([len(second)]) + second
    assert letters_of(wire) == (Letter("a", b"hi", "1"), Letter("b", b"", "2"))


def test_a_letter_with_fewer_fields_is_read_with_their_defaults() -> None:
    body = msgspec.msgpack.encode(["a", b"hi", "1"])
    assert letters_of(b"\x01\0\0\0" + bytes([len(body)]) + body) == (Letter("a", b"hi", "1"),)


@pytest.mark.parametrize(
    ("wire", "where", "expected"),
    [
        (b"", "frame", "version 1"),
        (b"\x02", "frame", "version 1"),
        (b"\x01\0\0", "byte 1", "the length of a letter"),
        (b"\x01\0\0\0\x05abc", "byte 5", "5 bytes of a letter"),
        (b"\x01\0\0\0\x01\xc1", "byte 5", "a letter in MessagePack"),
        (b"\x01\xff\xff\xff\xff\xc1", "byte 5", "4294967295 bytes of a letter"),
    ],
)
def test_what_is_not_a_frame_is_refused_with_its_place(wire: bytes, where: str, expected: str) -> None:
    with pytest.raises(Unreadable) as raised:
        letters_of(wire)
    assert (raised.value.where, raised.value.expected) == (where, expected)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(wire: bytes) -> None:
    for head in (b"", b"\x01"):
        try:
            letters_of(head + wire)
        except Unreadable:
            pass
    try:
        decode_packets(wire)
    except Unreadable:
        pass


@given(st.lists(st.binary(max_size=300), max_size=30))
def test_every_letter_is_in_exactly_one_batch_and_none_is_over_the_limits(bodies: list[bytes]) -> None:
    limits = BusLimits(frame_letters=5, frame_bytes=500)
    letters = [packed(Letter("a", body, str(n)), limits) for n, body in enumerate(bodies)]
    bounds = list(batches(letters, limits))
    assert [n for start, end in bounds for n in range(start, end)] == list(range(len(letters)))
    for start, end in bounds:
        assert end - start <= 5
        assert end - start == 1 or sum(map(len, letters[start:end])) <= 500


@given(st.binary(max_size=100), st.integers(1, 40))
def test_the_chunks_of_a_piece_join_to_it(body: bytes, size: int) -> None:
    parts = list(chunks(body, BusLimits(chunk_bytes=size)))
    assert b"".join(chunk for _, chunk in parts) == body
    assert [kind for kind, _ in parts] == [Kind.MORE] * (len(parts) - 1) + [Kind.DATA]
    assert all(len(chunk) <= size for _, chunk in parts)


def test_a_piece_over_the_limit_is_refused() -> None:
    with pytest.raises(TooLarge, match="bus: at piece: expected at most 10 bytes, not 11"):
        list(chunks(b"x" * 11, BusLimits(piece_bytes=10)))


def test_a_packet_comes_back_unchanged() -> None:
    packet = Packet(Kind.OPEN, "c", 1, b"body", "node", {"traceparent": "00"}, "why", "failed")
    assert decode_packets(encode_packets([packet])) == (packet,)


def test_a_packet_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(Unreadable, match="packets in MessagePack"):
        decode_packets(msgspec.msgpack.encode([[99, "c"]]))
