"""The envelope of the MassGen design as a Message and back, without loss (MW-7)."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard

from sabir.errors import BadInput, TooLarge, UnknownVersion
from sabir.limits import Limits
from sabir.massgen.nlip import schema
from sabir.message import Message, binary_part, json_part, text_part, token_part
from sabir.protocols.nlip.wire import envelope

FORMAT = {"content_type": "application/json", "encoding": "utf-8", "schema_version": "1.0", "compression": None}
CONTROL = {
    "message_type": "request", "message_id": "m1", "correlation_id": None, "timestamp": "2026-01-01T00:00:00Z",
    "priority": 0, "timeout": None, "retry_count": 0,
}  # fmt: skip
TOKEN = {"session_id": None, "context_token": None, "state_token": None, "conversation_turn": 0}
CALL = {"tool_id": "c1", "tool_name": "mcp__web_search", "parameters": {"query": "q"}, "require_confirmation": False}


def made(content: dict[str, Any], **more: Any) -> dict[str, Any]:
    value: dict[str, Any] = {"format": dict(FORMAT), "control": dict(CONTROL), "token": dict(TOKEN), "content": content}
    for key, given in more.items():
        value[key] = {**value[key], **given} if key in ("format", "control", "token") else given
    return value


CASES = [
    made({"query": "Search for papers"}, token={"session_id": "s", "context_token": "c", "conversation_turn": 1}),
    made({"content": "Hello"}),
    made({"messages": [{"role": "user", "content": "Hello"}], "options": {}}),
    made({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user",
          "content": "c"}], "options": {"n": 1}}),
    made({}, tool_calls=[CALL, {**CALL, "tool_id": "c2", "require_confirmation": True}]),
    made({"query": "x"}, tool_calls=[CALL], metadata={"who": "ann", "deep": {"a": [1, 2]}}),
    made({"status": "success", "result": [1]}, control={"message_type": "response", "correlation_id": "m0"},
         tool_results=[{"tool_id": "c1", "tool_name": "t", "status": "success", "result": [1],
                        "metadata": {"protocol": "custom"}}]),
    made({"error": "No tool calls found in request", "original_request": "m0"}, control={"message_type": "error"}),
    made({"a": 1, "b": {"c": [True, None, 2.5]}}, control={"message_type": "notification", "priority": 10,
         "timeout": 2.5, "retry_count": 3}),
    made({"partial": True, "content": "piece"}, control={"message_type": "response"}),
    made({"query": "x"}, token={"state_token": "st"}, control={"authentication": "secret-key"}),
    made({"query": ""}, control={"priority": None}),
]  # fmt: skip


def spelled(value: dict[str, Any]) -> dict[str, Any]:
    """With the defaults of tool calls and results left out, as they are on our wire."""
    found = json.loads(json.dumps(value))
    for tool_call in found.get("tool_calls", ()):
        if not tool_call.get("require_confirmation"):
            tool_call.pop("require_confirmation", None)
    return dict(found)


@pytest.mark.parametrize("value", CASES)
def test_an_envelope_comes_back_unchanged(value: dict[str, Any]) -> None:
    message = envelope.decode(json.dumps(value).encode())
    assert message is not None
    assert msgspec.json.decode(envelope.encode(message)) == spelled(value)


@pytest.mark.parametrize("value", CASES)
def test_the_classes_of_the_design_read_what_is_written(value: dict[str, Any]) -> None:
    message = envelope.decode(json.dumps(value).encode())
    assert message is not None
    schema.NLIPMessage.model_validate_json(envelope.encode(message))


def test_the_parts_match_the_table_of_the_documentation() -> None:
    value = made({"query": "hi"}, token={"session_id": "s", "context_token": "c", "state_token": "t"},
                 control={"timeout": 3, "authentication": "key"}, tool_calls=[CALL])  # fmt: skip
    message = envelope.decode(json.dumps(value).encode())
    assert message is not None
    assert (message.messagetype, message.format, message.text) == ("request", "text", "hi")
    kinds = {part.subformat: part.content for part in message.tokens}
    assert kinds == {"conversation": "s", "context": "c", "state": "t", "authentication": "key"}
    call = message.labelled("tool_call")
    assert call is not None
    assert call.value["tool_name"] == "mcp__web_search"
    facts = envelope.facts_of(message)
    assert facts is not None
    assert (facts.message_id, facts.timeout) == ("m1", 3)
    assert "key" not in json.dumps(msgspec.to_builtins(facts))  # MW-10: a credential is a token and nothing else
    assert envelope.facts_of(envelope.without_facts(message)) is None


def test_every_example_of_the_design_comes_back() -> None:
    """The JSON objects in its text are parts of messages; each is content and comes back."""
    text = "".join(path.read_text() for path in sorted((Path(__file__).parents[3] / "vectors/massgen").glob("*.txt")))
    found = [*re.findall(r"content=(\{\"query\"[^{}]*\})", text), '{"partial": true, "content": "x"}']
    found += ['{"status": "success", "result": {"content": []}}', '{"tool_calls": []}']
    assert len(found) > 3
    for item in found:
        value = made(json.loads(item))
        message = envelope.decode(json.dumps(value).encode())
        assert message is not None
        assert msgspec.json.decode(envelope.encode(message)) == value


MESSAGES = [
    Message.text("hi"),
    Message.text("hi").with_parts((text_part("second", "french"), token_part("tok", "other"))),
    Message.json({"a": 1}).with_part(binary_part(b"\x00\xff", "image/png", label="c1")),
    Message.of(binary_part(b"abc", "image/png"), json_part([1, 2])),
    Message.text("policies", messagetype="control").with_part(json_part({"a": 1}, label="policies")),
]


@pytest.mark.parametrize("message", MESSAGES)
def test_parts_that_the_design_does_not_know_travel_in_the_metadata(message: Message) -> None:
    facts = envelope.Facts(words="content" if message.format == "text" else None)
    back = envelope.decode(envelope.encode(message, facts))
    assert back is not None
    parts = [part for part in back.parts if part.subformat != envelope.ENVELOPE]
    for part in message.parts:
        plain = part if part.format != "structured" else json_part(part.value, label=part.label)
        same = [item for item in parts if (item.format, item.label) == (plain.format, plain.label)]
        assert any(item.value == plain.value for item in same), part
    if message.is_control:
        assert back.is_control


@pytest.mark.parametrize(("name", "pack"), [("gzip", gzip.compress), ("zstd", zstandard.compress)])
@pytest.mark.parametrize("as_string", [True, False])
def test_compressed_content_is_unpacked(name: str, pack: Any, as_string: bool) -> None:
    data = base64.b64encode(pack(b'{"query": "packed"}')).decode()
    value = made({"data": data}, format={"compression": name})
    if as_string:
        value["content"] = data
    message = envelope.decode(json.dumps(value).encode())
    assert message is not None
    assert message.text == "packed"


@pytest.mark.parametrize(("name", "pack"), [("gzip", gzip.compress), ("zstd", zstandard.compress)])
def test_what_unpacks_to_too_much_is_not_unpacked(name: str, pack: Any) -> None:
    data = base64.b64encode(pack(b'{"query": "' + b"x" * 5_000_000 + b'"}')).decode()
    value = made({"data": data}, format={"compression": name})
    with pytest.raises(TooLarge, match="at most 1048576 bytes when unpacked"):
        envelope.decode(json.dumps(value).encode())


BAD: list[tuple[dict[str, Any], str]] = [
    (made({}, format={"schema_version": "2.0"}), r"\$\.format\.schema_version: expected 1\.0"),
    (made({}, format={"encoding": "latin-1"}), r"\$\.format\.encoding: expected utf-8"),
    (made({}, format={"compression": "rar"}), r"\$\.format\.compression: expected gzip or zstd"),
    (made({"data": "!!"}, format={"compression": "gzip"}), r"\$\.content: expected"),
    (made({"data": "aGVsbG8="}, format={"compression": "gzip"}), r"\$\.content: expected gzip data"),
    (made({"data": "aGVsbG8="}, format={"compression": "zstd"}), r"\$\.content: expected zstd data"),
    (made({"data": 5}, format={"compression": "gzip"}), "the compressed object in base64"),
    (made({}, control={"priority": 11}), r"\$\.control\.priority: expected a whole number up to 10"),
    (made({}, control={"message_type": "shout"}), r"\$\.control\.message_type"),
    (made({}, tool_calls=[{"tool_id": "1"}]), r"\$\.tool_calls\[0\]\.tool_name: expected a value, which is required"),
    (made({}, metadata={"submessages": 5}), r"\$\.metadata\.submessages: expected an array"),
    ({**made({}), "content": "words"}, r"\$\.content: expected an object"),
    ({**made({}), "content": 5}, r"\$\.content: expected"),
]


@pytest.mark.parametrize(("value", "error"), BAD)
def test_what_is_wrong_is_said_with_its_place(value: dict[str, Any], error: str) -> None:
    with pytest.raises(BadInput, match=error):
        envelope.decode(json.dumps(value).encode())


def test_an_unknown_version_is_an_error() -> None:  # G-12
    with pytest.raises(UnknownVersion):
        envelope.decode(json.dumps(made({}, format={"schema_version": "3"})).encode())


def test_other_messages_are_not_envelopes() -> None:
    for body in (b'{"format":"text","control":true}', b"{", b'"control"', b'[{"format":{}, "control":{}}]'):
        assert envelope.decode(body) is None
    assert envelope.decode(json.dumps(made({"query": "x"})).encode(), limits=Limits(body=10)) is None
    broken = Message.text("x").with_part(json_part({"timeout": []}))
    assert envelope.facts_of(broken) is None
