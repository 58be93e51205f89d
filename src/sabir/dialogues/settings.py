"""How long conversations wait, and how much waits in an inbox."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

_Seconds = Annotated[float, msgspec.Meta(gt=0)]
_Count = Annotated[int, msgspec.Meta(gt=0)]


class DialogueSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits of conversations and inboxes."""

    reply_seconds: _Seconds = 300.0  # for the first reply, if the message has no reply_by
    result_seconds: _Seconds = 86_400.0  # for the result of an accepted task, if the request has no result_by
    lease_seconds: _Seconds = 3_600.0  # of a subscription that does not ask for one
    longest_lease: _Seconds = 2_592_000.0
    remember_seconds: _Seconds = 86_400.0  # how long an ended conversation is remembered, for late duplicates
    keep_seconds: _Seconds = 604_800.0  # how long a message waits for an absent agent
    inbox_messages: _Count = 10_000  # that wait for one agent; more are rejected as busy
    sender_messages: _Count = 1_000  # of one sender among them
    message_bytes: _Count = 512 * 1024
    log_messages: Literal["off", "envelopes", "all"] = "off"  # MCP_MESSAGE_SENT and MCP_MESSAGE_RECEIVED (draft 7.2)
