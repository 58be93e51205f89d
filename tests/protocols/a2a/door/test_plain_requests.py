"""Requests of plain texts are read without protobuf's JSON reader, and mean the same."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("a2a")

from a2a.types import a2a_pb2 as pb
from google.protobuf.json_format import ParseDict, ParseError

from sabir.errors import BadMessage
from sabir.protocols.a2a.door.http import parsed

TEXT = {"text": "hello"}
MESSAGES: dict[str, Any] = {
    "plain": {"messageId": "1", "role": "ROLE_USER", "parts": [TEXT]},
    "all plain fields": {
        "messageId": "1",
        "contextId": "c",
        "taskId": "t",
        "role": "ROLE_AGENT",
        "parts": [TEXT, TEXT],
    },
    "empty texts": {"messageId": "", "role": "ROLE_UNSPECIFIED", "parts": [{"text": ""}]},
    "other scripts": {"messageId": "é", "role": "ROLE_USER", "parts": [{"text": "漢字 🌊 \x00"}]},
    "no parts": {"messageId": "1", "role": "ROLE_USER", "parts": []},
    "nothing": {},
    "no message": None,
    "null fields": {"messageId": None, "role": None, "parts": None},
    "names of protobuf": {"message_id": "1", "role": "ROLE_USER", "parts": [TEXT]},
    "role as a number": {"messageId": "1", "role": 1, "parts": [TEXT]},
    "metadata": {"messageId": "1", "role": "ROLE_USER", "parts": [TEXT], "metadata": {"a": [1]}},
    "part with a type": {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "x", "mediaType": "text/csv"}]},
    "data": {"messageId": "1", "role": "ROLE_USER", "parts": [{"data": {"a": [1, None]}}]},
    "null text": {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": None}]},
    "unknown field": {"messageId": "1", "role": "ROLE_USER", "parts": [TEXT], "kind": "message"},
    "number for an id": {"messageId": 1, "role": "ROLE_USER", "parts": [TEXT]},
    "number for a text": {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": 1}]},
    "lone surrogate": {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "\ud800"}]},
    "lone surrogate in an id": {"messageId": "\ud800", "role": "ROLE_USER", "parts": [TEXT]},
    "unknown role": {"messageId": "1", "role": "ROLE_KING", "parts": [TEXT]},
    "list for a role": {"messageId": "1", "role": [], "parts": [TEXT]},
    "text for parts": {"messageId": "1", "role": "ROLE_USER", "parts": ""},
    "object for parts": {"messageId": "1", "role": "ROLE_USER", "parts": {}},
    "text for a part": {"messageId": "1", "role": "ROLE_USER", "parts": ["hello"]},
    "list for a message": [],
    "text for a message": "hello",
}


@pytest.mark.parametrize("name", MESSAGES)
@pytest.mark.parametrize("more", [{}, {"configuration": {"historyLength": 2}}], ids=["alone", "configured"])
def test_a_request_means_what_protobuf_reads(name: str, more: dict[str, Any]) -> None:
    request = {"message": MESSAGES[name], **more}
    try:
        expected = ParseDict(request, pb.SendMessageRequest(), ignore_unknown_fields=True)
    except (ParseError, TypeError, ValueError, AttributeError):
        with pytest.raises(BadMessage):
            parsed(request, pb.SendMessageRequest, "$")
        return
    read = parsed(request, pb.SendMessageRequest, "$")
    assert read == expected
    assert read.SerializeToString(deterministic=True) == expected.SerializeToString(deterministic=True)
