"""Framing, acknowledgements and limits of the bus, as data in one place; and the codecs of frames and packets.

A **frame** is what one publish carries: a version byte, then letters, each as a 32-bit big-endian length and that many
bytes of MessagePack. Letters that are ready together share a frame, because a durable publish costs the same for one as
for many. A **packet** is one step of a call; packets for the same node are sent together.

No I/O, no clock, no randomness.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Final

import msgspec

from sabir.errors import TooLarge, Unreadable

from .base import DeadLetter, Letter

VERSION: Final = 1
_HEAD: Final = bytes([VERSION])
_LENGTH: Final = struct.Struct(">I")


class BusLimits(msgspec.Struct, frozen=True):
    """All limits of the bus."""

    # frames; the largest fits NATS's default max_payload of 1 MiB with its headers
    letter_bytes: int = 512 * 1024
    frame_letters: int = 64
    frame_bytes: int = 768 * 1024
    inbox_letters: int = 1_000_000  # waiting in process, before send is rejected
    keep_seconds: float = 7 * 86400.0  # how long unclaimed letters are kept
    # acknowledgement and redelivery
    ack_seconds: float = 30.0  # a frame without a sign of progress is redelivered elsewhere
    attempts: int = 5  # of one letter, before it is dead
    deliveries: int = 10  # of one frame without an acknowledgement, before its letters are dead
    backoff: tuple[float, ...] = (0.1, 0.5, 2.0, 8.0)  # between attempts; the last repeats
    in_hand: int = 1024  # letters that a receiver holds before it takes no more
    seen: int = 8_192  # ids of handled letters that are remembered, per inbox
    stop_seconds: float = 5.0  # how long started work may take after a stop
    send_seconds: float = 30.0  # how long send retries while the server is unavailable
    # a separate server: how it is reached, and how letters are pulled from it
    connect_seconds: float = 10.0
    reconnect_seconds: tuple[float, float] = (0.05, 5.0)  # first and longest wait
    ping_seconds: int = 10  # how often it is pinged; after two missing answers it is gone
    reply_seconds: float = 2.0  # for one answer of the server
    duplicate_seconds: float = 120.0  # how long it remembers the ids of frames
    pull_frames: int = 32
    pull_seconds: float = 30.0  # how long a pull request stays open
    beat_seconds: float = 2.0  # how often it confirms an open request if there is nothing else to send
    lost_seconds: float = 5.0  # after this silence the request is lost: it arrived during a leader election
    behind_bytes: int = 64 * 1024  # written but not yet taken by the system, before a call waits
    # calls
    alive_seconds: float = 5.0  # how often both sides of a call send a keep-alive
    missed: int = 3  # missed keep-alives until the other side is considered gone
    window: int = 256  # pieces in flight to a caller that has not consumed them,
    window_bytes: int = 512 * 1024  # and their bytes: on a slow connection others would wait behind them
    chunk_bytes: int = 512 * 1024  # a longer piece is sent in several packets
    piece_bytes: int = 64 * 1024 * 1024


class Kind(IntEnum):
    """The steps of a call."""

    OPEN = 1  # caller → name: the question
    TAKEN = 2  # server → caller: accepted, nothing to send yet
    MORE = 3  # either way: a chunk of a piece, others follow
    DATA = 4  # either way: a piece, or its last chunk
    END = 5  # server → caller: end of the answer
    FAIL = 6  # server → caller: it failed
    CANCEL = 7  # caller → server: cancelled
    CREDIT = 8  # caller → server: this many pieces were consumed
    ALIVE = 9  # either way: keep-alive
    LAST = 10  # server → caller: the last piece, or its last chunk


class Packet(msgspec.Struct, frozen=True, array_like=True):
    """One step of a call."""

    kind: Kind
    call: str
    # of pieces, from 1 in each direction; END, ALIVE: how many there were; CREDIT: how many were consumed
    number: int = 0
    body: bytes = b""
    address: str = ""  # where to reply: in the question, and in the first packet of the answer
    headers: dict[str, str] = {}
    reason: str = ""
    code: str = ""


_encoder = msgspec.msgpack.Encoder()
_letters = msgspec.msgpack.Decoder(Letter)
_dead = msgspec.msgpack.Decoder(DeadLetter)
_packets = msgspec.msgpack.Decoder(tuple[Packet, ...])


def packed(letter: Letter, limits: BusLimits) -> bytes:
    """A letter with a length prefix.

    Raises:
        TooLarge: it is over the limit.
    """
    body = _encoder.encode(letter)
    if len(body) > limits.letter_bytes:
        raise TooLarge("bus", "letter", f"at most {limits.letter_bytes} bytes, not {len(body)}")
    return _LENGTH.pack(len(body)) + body


def frame(packed_letters: Iterable[bytes]) -> bytes:
    """Combine packed letters into one frame."""
    return b"".join((_HEAD, *packed_letters))


def batches(packed_letters: Sequence[bytes], limits: BusLimits) -> Iterator[tuple[int, int]]:
    """The slices of a list that fit one frame each, in order."""
    start = size = 0
    for at, letter in enumerate(packed_letters):
        if at > start and (at - start >= limits.frame_letters or size + len(letter) > limits.frame_bytes):
            yield start, at
            start, size = at, 0
        size += len(letter)
    if start < len(packed_letters):
        yield start, len(packed_letters)


def letters_of(data: bytes) -> tuple[Letter, ...]:
    """The letters of a frame.

    Raises:
        Unreadable: it is not a frame of this version.
    """
    if data[:1] != _HEAD:
        raise Unreadable("bus", "frame", f"version {VERSION}")
    found: list[Letter] = []
    at, end = 1, len(data)
    view = memoryview(data)
    while at < end:
        if end - at < _LENGTH.size:
            raise Unreadable("bus", f"byte {at}", "the length of a letter")
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        if length > end - at:
            raise Unreadable("bus", f"byte {at}", f"{length} bytes of a letter")
        try:
            found.append(_letters.decode(view[at : at + length]))
        except msgspec.DecodeError:
            raise Unreadable("bus", f"byte {at}", "a letter in MessagePack") from None
        at += length
    return tuple(found)


def encode_dead(dead: DeadLetter) -> bytes:
    return _encoder.encode(dead)


def decode_dead(data: bytes) -> DeadLetter:
    """Raises:
    Unreadable: it is not a dead letter.
    """
    try:
        return _dead.decode(data)
    except msgspec.DecodeError:
        raise Unreadable("bus", "dead letter", "a dead letter in MessagePack") from None


def encode_packets(packets: Sequence[Packet]) -> bytes:
    return _encoder.encode(packets)


def decode_packets(data: bytes) -> tuple[Packet, ...]:
    """Raises:
    Unreadable: these are not packets.
    """
    try:
        return _packets.decode(data)
    except msgspec.DecodeError:
        raise Unreadable("bus", "packets", "packets in MessagePack") from None


def chunks(body: bytes, limits: BusLimits) -> Iterator[tuple[Kind, bytes]]:
    """Split a piece into packets: ``MORE`` for each chunk but the last, which is ``DATA``.

    Raises:
        TooLarge: the piece is over the limit.
    """
    if len(body) > limits.piece_bytes:
        raise TooLarge("bus", "piece", f"at most {limits.piece_bytes} bytes, not {len(body)}")
    size = limits.chunk_bytes
    if len(body) <= size:
        yield Kind.DATA, body
        return
    last = max(0, (len(body) - 1) // size)
    for n in range(last):
        yield Kind.MORE, body[n * size : (n + 1) * size]
    yield Kind.DATA, body[last * size :]
