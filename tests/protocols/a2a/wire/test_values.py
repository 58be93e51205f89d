"""Protobuf as plain JSON and back, without ``json_format``: the same result, in less time (issue 11, D15)."""

from __future__ import annotations

import time
from typing import Any

import pytest
from a2a.types import a2a_pb2 as pb
from google.protobuf import struct_pb2
from google.protobuf.json_format import MessageToDict, ParseDict, SerializeToJsonError
from hypothesis import given, settings
from hypothesis import strategies as st

from sabir.errors import BadMessage
from sabir.protocols.a2a.door.http import parsed
from sabir.protocols.a2a.wire.values import EXACT, plain, struct_to, value_from, value_to

words = st.text(max_size=8)
numbers = st.integers(-EXACT, EXACT) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | words,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4),
    max_leaves=12,
)


@given(values)
@settings(max_examples=150, deadline=None)
def test_a_value_is_written_as_json_format_writes_it(value: Any) -> None:
    assert value_to(value) == ParseDict(value, struct_pb2.Value())
    assert value_from(value_to(value)) == value


@given(values, st.dictionaries(words, values, max_size=3), st.binary(max_size=20), words)
@settings(max_examples=60, deadline=None)
def test_a_message_is_written_as_json_format_writes_it(
    value: Any, metadata: dict[str, Any], raw: bytes, text: str
) -> None:
    parts = [pb.Part(data=value_to(value)), pb.Part(raw=raw, media_type="image/png"), pb.Part(text=text)]
    said = pb.Message(message_id="m", role=pb.ROLE_USER, parts=parts, metadata=struct_to(metadata))
    task = pb.Task(id="t", context_id="c", status=pb.TaskStatus(state=pb.TASK_STATE_WORKING), history=[said])
    task.status.timestamp.FromJsonString("2026-03-01T12:00:00.5Z")
    assert plain(task) == MessageToDict(task)
    assert plain(pb.StreamResponse(task=task)) == MessageToDict(pb.StreamResponse(task=task))


def test_a_card_is_written_as_json_format_writes_it() -> None:
    card = pb.AgentCard(name="echo", capabilities=pb.AgentCapabilities(streaming=False))
    card.security_schemes["key"].api_key_security_scheme.name = "X-Api-Key"
    card.skills.add(id="a", tags=["x"])
    assert plain(card) == MessageToDict(card)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_that_json_does_not_have_are_rejected(number: float) -> None:
    with pytest.raises(ValueError):
        value_to([number])
    with pytest.raises(SerializeToJsonError):
        plain(struct_pb2.Value(number_value=number))


def test_data_of_a_request_is_read_as_json_format_reads_it() -> None:
    data = {"list": [1, 2.5, None, True, "x", {}], "empty": []}
    said = {"messageId": "m", "role": "ROLE_USER", "parts": [{"data": data, "mediaType": "application/json"}]}
    request = parsed({"message": said}, pb.SendMessageRequest, "$")
    assert request == ParseDict({"message": said}, pb.SendMessageRequest())


def test_two_contents_of_a_part_are_still_rejected() -> None:
    said = {"messageId": "m", "role": "ROLE_USER", "parts": [{"data": [1], "text": "x"}]}
    with pytest.raises(BadMessage):
        parsed({"message": said}, pb.SendMessageRequest, "$")


def test_thousands_of_values_are_converted_faster_than_by_json_format() -> None:
    """A message of 2,400 numbers is converted up to six times on its way; others waited for that."""

    def took(work: Any) -> float:
        times = []
        for _ in range(5):
            began = time.thread_time()
            work()
            times.append(time.thread_time() - began)
        return min(times)

    listed = [0.5] * 2_400
    value = value_to(listed)
    assert took(lambda: value_to(listed)) < took(lambda: ParseDict(listed, struct_pb2.Value())) * 0.6
    assert took(lambda: plain(value)) < took(lambda: MessageToDict(value)) * 0.8
