"""Messages to and from a remote agent in the envelope of the MassGen design."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import cbor2
import msgspec

from sabir.errors import BadInput
from sabir.events import Delta, Progress
from sabir.limits import Limits
from sabir.message import Message, json_part
from sabir.protocols.nlip.wire import cbor, envelope
from sabir.protocols.nlip.wire import json as nlip


def enveloped(
    message: Message, message_id: str, *, binary: bool = False, streams: bool = False, own_id: bool = False
) -> bytes:
    """A question in an envelope. A forwarded envelope keeps its fields, but gets the tokens of this hop.

    Args:
        message_id: of a message that did not come in an envelope; with ``own_id``, of any message.
        binary: write CBOR instead of JSON.
        streams: ask for deltas in the message itself, if the transport has no header for it.
    """
    facts = envelope.facts_of(message)
    if facts is None:
        now = f"{datetime.now(UTC).replace(tzinfo=None).isoformat()}Z"
        words = "query" if message.format == "text" else None
        facts = envelope.Facts(message_id=message_id, timestamp=now, words=words)
    if own_id:
        facts.message_id = message_id
    if streams:
        facts.metadata = {**facts.metadata, "stream": True}
    kind = message.messagetype
    if kind is not None and kind not in envelope.TYPES:  # such as control
        facts.metadata = {**facts.metadata, "messagetype": kind}
    value = envelope.value_of(message.with_type(kind if kind in envelope.TYPES else "request"), facts)
    return cbor2.dumps(value, canonical=True) if binary else msgspec.json.encode(value)


def from_envelope(body: bytes, limits: Limits, *, binary: bool = False) -> Message | None:
    """An answer, or a piece of one, in JSON or CBOR; None if it is not an envelope.

    Raises:
        BadInput: it is an invalid envelope.
    """
    value = cbor.item(body, limits) if binary else envelope.value_in(body, limits=limits)
    if value is None or not envelope.is_envelope(value):
        return None
    message = envelope.message_of(value, limits=limits)
    facts = envelope.facts_of(message)
    content = facts.content if facts is not None and facts.content is not None else message.content
    if isinstance(content, dict) and content.get("partial") is True:
        kept = [part for part in message.submessages if part.is_token or part.subformat == envelope.ENVELOPE]
        return nlip.partial_message(_piece(content, message.text), 1).with_parts(kept)
    if message.is_error and isinstance(content, dict) and isinstance(content.get("code"), int):
        message = message.with_parts([json_part({nlip.STATUS: content["code"]}, label=nlip.STATUS)])
    if message.messagetype in ("request", "response"):
        message = msgspec.structs.replace(message, messagetype=None)
    return message


def shown_answer(reply: Message, asked: Message) -> Message:
    """An answer for the caller. Only callers that sent an envelope get its fields."""
    return reply if envelope.facts_of(asked) is not None else envelope.without_facts(reply)


def answered_id(reply: Message) -> str | None:
    """The ``message_id`` of the question that an enveloped answer refers to."""
    facts = envelope.facts_of(reply)
    return facts.correlation_id if facts is not None else None


def plain_error(body: bytes, limits: Limits) -> bytes:
    """The body of a refusal as a plain NLIP message, if it is an envelope. Its tokens are left out."""
    try:
        found = from_envelope(body, limits)
    except BadInput:
        return body
    return body if found is None else nlip.encode(Message.error(found.text))


def _piece(content: dict[str, Any], words: str) -> Delta | Progress:
    progress = content.get("progress")
    if not isinstance(progress, dict):
        return Delta.text(words)
    fraction = progress.get("fraction")
    return Progress(float(fraction) if isinstance(fraction, int | float) else None, str(progress.get("note", "")))
