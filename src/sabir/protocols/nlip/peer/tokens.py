"""The tokens of one conversation with a remote NLIP end-point (CORE-6.2, D-16, D-17).

Pure values: what goes on the next message, and what a reply changes. Randomness is an argument.
"""

from __future__ import annotations

from typing import Any

import msgspec

from sabir.message import Message, Part, token_part


class PeerTokens(msgspec.Struct, frozen=True, omit_defaults=True):
    """The server's tokens, which we return until they are replaced, and our own, which it returns to us.

    This is the whole state of a conversation on the client's side; ``export`` it and the conversation
    can go on later, in another process.
    """

    theirs: tuple[Part, ...] = ()
    own: Part | None = None

    @classmethod
    def begin(cls, identity: str, content: str) -> PeerTokens:
        """A new conversation. Our token has a suffix, so that servers which know only the plain
        ``conversation`` find theirs (D-16)."""
        return cls((), token_part(content, f"conversation_{identity}"))

    def on(self, message: Message) -> Message:
        """The message with its tokens: the server's first, as they came, then our own."""
        own = () if self.own is None else (self.own,)
        return message.with_parts((*self.theirs, *own))

    def after(self, reply: Message, sent: Message) -> PeerTokens:
        """What to send next time: a token of the same kind is replaced, others stay (D-17)."""
        got: list[Part] = []
        for part in reply.tokens:  # new are neither echoes nor what an earlier piece of this reply brought
            if part not in sent.tokens and part not in self.theirs and part not in got and part != self.own:
                got.append(part)
        if not got:
            return self
        replaced = {part.subformat.lower() for part in got}
        still = reply.tokens
        kept = tuple(part for part in self.theirs if part in still or part.subformat.lower() not in replaced)
        return PeerTokens((*kept, *got), self.own)

    def export(self) -> dict[str, Any]:
        """As plain data, to be kept where secrets are kept."""
        exported: dict[str, Any] = msgspec.to_builtins(self)
        return exported

    @classmethod
    def restore(cls, exported: dict[str, Any]) -> PeerTokens:
        """The inverse of ``export``.

        Raises:
            msgspec.ValidationError: not what ``export`` gave.
        """
        return msgspec.convert(exported, cls)
