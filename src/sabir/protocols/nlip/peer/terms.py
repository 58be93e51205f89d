"""What we agreed on with a remote agent, kept on our side: limits on what is sent and received, and the context, if we
keep it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from sabir.errors import PeerUnreadable, TooLarge
from sabir.message import Message, json_part
from sabir.protocols.nlip.wire import json as nlip

HISTORY: Final = "history"


@dataclass(slots=True)
class PeerTerms:
    """The agreements of one conversation."""

    limits: dict[str, int] = field(default_factory=dict)  # body, submessages: what we send; reply: what we receive
    keeper: str = "server"
    window: int = 20
    history: list[dict[str, Any]] = field(default_factory=list)

    @property
    def we_keep(self) -> bool:
        return self.keeper in ("client", "both")

    def outgoing(self, message: Message) -> Message:
        """The message as it may be sent, with the context that we keep.

        Raises:
            TooLarge: it exceeds an agreed limit.
        """
        if message.is_control:
            return message
        body, submessages = self.limits.get("body"), self.limits.get("submessages")
        if body is not None and len(nlip.encode(message)) > body:
            raise TooLarge("nlip", "$", f"at most {body} bytes, as agreed with the peer")
        if submessages is not None and len(message.submessages) > submessages:
            raise TooLarge("nlip", "$.submessages", f"at most {submessages} submessages, as agreed with the peer")
        if not self.we_keep or not self.history:
            return message
        return message.with_part(json_part(self.history[-2 * self.window :], label=HISTORY))

    def incoming(self, asked: Message, reply: Message, peer: str) -> None:
        """Check a reply, and store it if we keep the context.

        Raises:
            PeerUnreadable: it is larger than the peer agreed to send.
        """
        if asked.is_control:
            return
        limit = self.limits.get("reply")
        if limit is not None and len(nlip.encode(reply)) > limit:
            raise PeerUnreadable(peer, f"its answer is larger than the {limit} bytes it agreed to")
        if self.we_keep:
            at = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds")
            self.history.append({"at": at, "speaker": "client", "role": "user", "said": asked.text})
            self.history.append({"at": at, "speaker": peer, "role": "agent", "said": reply.text})

    def take_limits(self, answer: Any) -> dict[str, int]:
        """The agreements in the answer to a proposal."""
        agreed = answer.get("agreed") if isinstance(answer, Mapping) else None
        if isinstance(agreed, Mapping):
            self.limits = {str(name): int(value) for name, value in agreed.items() if isinstance(value, int)}
        return dict(self.limits)

    def take_context(self, answer: Any, handed: Any) -> str:
        """Set the keeper of the context from an answer; if it is us, take over the history it contains."""
        if isinstance(answer, Mapping):
            self.keeper = str(answer.get("keeper", self.keeper))
            window = answer.get("window")
            self.window = window if isinstance(window, int) else self.window
        if not self.we_keep:
            self.history = []
        elif isinstance(handed, list):
            self.history = [entry for entry in handed if isinstance(entry, dict)]
        return self.keeper
