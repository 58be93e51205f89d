"""Messages to and from a remote agent in the envelope of the MassGen design."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from sabir.errors import BadInput
from sabir.events import Delta, Progress
from sabir.limits import Limits
from sabir.message import Message
from sabir.protocols.nlip.wire import envelope
from sabir.protocols.nlip.wire import json as nlip


def enveloped(message: Message, message_id: str) -> bytes:
    """A question in an envelope: one that came in one keeps its fields, other than tokens, which are the hop's own."""
    facts = envelope.facts_of(message)
    if facts is None:
        now = f"{datetime.now(UTC).replace(tzinfo=None).isoformat()}Z"
        words = "query" if message.format == "text" else None
        facts = envelope.Facts(message_id=message_id, timestamp=now, words=words)
    kind = message.messagetype if message.messagetype in envelope.TYPES else "request"
    return envelope.encode(message.with_type(kind), facts)


def from_envelope(body: bytes, limits: Limits) -> Message | None:
    """An answer, or a piece of one; None if it is no envelope.

    Raises:
        BadInput: it is one that cannot be read.
    """
    message = envelope.decode(body, limits=limits)
    if message is None:
        return None
    facts = envelope.facts_of(message)
    content = facts.content if facts is not None and facts.content is not None else message.content
    if isinstance(content, dict) and content.get("partial") is True:
        return nlip.partial_message(_piece(content, message.text), 1).with_parts(message.tokens)
    if message.messagetype != "error":
        message = msgspec.structs.replace(message, messagetype=None)
    return message


def plain_error(body: bytes, limits: Limits) -> bytes:
    """The body of a refusal as a plain NLIP message, if it is an envelope; its tokens are not passed on."""
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
