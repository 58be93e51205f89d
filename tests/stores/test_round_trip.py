"""Whatever a wire accepts, every store keeps, and the bus carries (issue 11, B4): wire → store → wire, fuzzed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import cbor2
import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sabir.cluster import wire as nodes
from sabir.errors import BadInput
from sabir.events import Reply
from sabir.message import Message
from sabir.packing import pack, unpacker
from sabir.protocols.nlip.wire import cbor
from sabir.protocols.nlip.wire import json as nlip
from sabir.stores import Store, open_store
from sabir.stores.base import ConversationRow, TaskEvent, TaskRow, TurnEntry
from sabir.turn import PastTurn
from stores.places import schema

NOW = 4_000_000_000.0
FUZZ = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)

EDGES = (2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**80, -(2**63), -(2**63) - 1, -(2**64), -(2**64) - 1, 10**400)
numbers = st.integers() | st.floats() | st.sampled_from(EDGES) | st.integers(-(2**200), 2**200)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)
kinds = st.sampled_from(
    [("text", "english"), ("structured", "json"), ("generic", "x"), ("binary", "image/png"), ("location", "gps")]
)


def _part(kind: tuple[str, str], content: Any, extra: dict[str, Any]) -> dict[str, Any]:
    return {**extra, "format": kind[0], "subformat": kind[1], "content": content}


def _messages(contents: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    extras = st.dictionaries(st.sampled_from(["label", "x", "y"]), contents, max_size=2)
    parts = st.builds(_part, kinds, contents, extras)
    return st.builds(lambda part, more: {**part, "submessages": more}, parts, st.lists(parts, max_size=3)) | parts


json_bodies = _messages(values).map(lambda value: json.dumps(value).encode())


def _cbor_body(value: Any) -> bytes:
    try:
        return cbor2.dumps(value)
    except (ValueError, OverflowError, UnicodeEncodeError):
        return b"\xa0"


cbor_bodies = _messages(values | st.binary(max_size=20)).map(_cbor_body)


class Opened(NamedTuple):
    store: Store
    run: Callable[[Awaitable[Any]], Any]


@pytest.fixture(scope="module", params=["memory", "sqlite", "postgresql"])
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """Each kind of store, on a loop of its own."""
    with asyncio.Runner() as runner:
        place = schema() if request.param == "postgresql" else None
        folder: Path = tmp_path_factory.mktemp("store")
        address = "memory:" if request.param == "memory" else f"sqlite:///{folder}/sabir.db"
        if place is not None:
            address = runner.run(place.__aenter__())
        store = open_store(address)
        runner.run(store.open())
        yield Opened(store, runner.run)
        runner.run(store.close())
        if place is not None:
            runner.run(place.__aexit__(None, None, None))


async def _kept(store: Store, message: Message) -> list[Message]:
    """The message as it comes back from every table that holds messages."""
    item_id = uuid4().hex
    row = ConversationRow(
        "c" + item_id, "ada", NOW, NOW, NOW + 1, agreed={"said": msgspec.to_builtins(message.content)}
    )
    await store.record(TurnEntry(row, PastTurn(item_id, NOW, "echo", message, message, "ada", row.id)))
    task = TaskRow(item_id, "ada", "echo", "working", NOW, NOW, NOW + 1, message, reply=message, answers=(message,))
    await store.put_task(task)
    body = msgspec.to_builtins(message, builtin_types=(bytes,))
    await store.add_task_event(item_id, TaskEvent(0, NOW, "answer", {"message": body}))
    turn, stored, events = await store.turn(item_id), await store.task(item_id), await store.task_events(item_id)
    assert turn is not None and stored is not None and await store.conversation(row.id) is not None
    event = msgspec.convert(events[0].body["message"], Message)
    assert stored.unreadable == "" and stored.reply is not None
    return [turn.asked, turn.answered, stored.message, stored.reply, *stored.answers, event]


@given(json_bodies)
@example(b'{"format":"structured","subformat":"json","content":{"n":18446744073709551616}}')
@example(b'{"format":"structured","subformat":"json","content":[-9223372036854775809]}')
@FUZZ
def test_what_the_json_wire_accepts_every_store_keeps(opened: Opened, body: bytes) -> None:
    try:
        message = nlip.decode(body)
    except BadInput:
        return
    for again in opened.run(_kept(opened.store, message)):
        assert nlip.encode(again) == nlip.encode(message)


# Accepted in the common spelling, so also in any other: with blanks, an exponent, a field of its own, or a field twice.
SPELLINGS = (
    b'{"format":"structured","subformat":"json","content":{"n":%d}}',
    b'{"format": "structured", "subformat": "json", "content": {"n": %d}}',
    b'{"format":"structured","subformat":"json","content":{"n":%d,"f":1e2}}',
    b'{"format":"structured","subformat":"json","content":{"n":%d},"x":{"n":1}}',
    b'{"Format":"Structured","subformat":"JSON","content":[{"n":%d}]}',
)


@pytest.mark.parametrize("number", EDGES)
def test_a_number_is_accepted_however_the_message_is_spelled(number: int) -> None:
    for spelling in SPELLINGS:
        content = nlip.decode(spelling % number).content
        assert (content[0] if isinstance(content, list) else content)["n"] == number
    body = cbor2.dumps({"format": "structured", "subformat": "json", "content": {"n": number}})
    message = cbor.decode(body)
    assert message.content == {"n": number} and cbor.decode(cbor.encode(message)) == message


@given(cbor_bodies)
@example(cbor2.dumps({"format": "structured", "subformat": "json", "content": {"n": -(2**64)}}))
@FUZZ
def test_what_the_cbor_wire_accepts_every_store_keeps(opened: Opened, body: bytes) -> None:
    try:
        message = cbor.decode(body)
    except BadInput:
        return
    for again in opened.run(_kept(opened.store, message)):
        assert cbor.encode(again) == cbor.encode(message)


@given(json_bodies)
@example(b'{"format":"structured","subformat":"json","content":{"n":18446744073709551616}}')
@FUZZ
def test_what_the_json_wire_accepts_travels_between_nodes(body: bytes) -> None:
    try:
        message = nlip.decode(body)
    except BadInput:
        return
    event = nodes.decode_event(nodes.encode_event(Reply(message)))
    assert isinstance(event, Reply) and nlip.encode(event.message) == nlip.encode(message)
    asked = nodes.decode_message(nodes.encode(message))
    assert nlip.encode(asked) == nlip.encode(message)


@pytest.mark.parametrize("number", EDGES)
def test_integers_of_any_size_are_packed(number: int) -> None:
    packed = pack({"n": [number, b"\x00", 1.5]})
    assert unpacker(dict[str, Any]).decode(packed) == {"n": [number, b"\x00", 1.5]}


def test_an_unknown_extension_type_is_rejected() -> None:
    body = msgspec.msgpack.encode({"n": msgspec.msgpack.Ext(7, b"x")})
    with pytest.raises(msgspec.DecodeError, match="unknown extension type 7"):
        unpacker(dict[str, Any]).decode(body)
