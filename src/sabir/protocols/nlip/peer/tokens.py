"""The tokens of one conversation with a remote NLIP endpoint (CORE-6.2, D-16, D-17).

Pure values: what the next message carries, and what a reply changes. Randomness is an argument.
"""

from __future__ import annotations

from typing import Any

import msgspec

from sabir.message import Message, Part, token_part


class PeerTokens(msgspec.Struct, frozen=True, omit_defaults=True):
    """The server's tokens, which we return until they are replaced, and our own, which it returns to us.

    This is the whole client-side state of a conversation; after ``export`` the conversation can be resumed later, in
    another process.
    """

    theirs: tuple[Part, ...] = ()
    own: Part | None = None

    @classmethod
    def begin(cls, identity: str, content: str) -> PeerTokens:
        """A new conversation. Our token has a suffix, so that servers which know only the plain ``conversation`` find
        theirs (D-16)."""
        return cls((), token_part(content, f"conversation_{identity}"))

    def on(self, message: Message) -> Message:
        """The message with its tokens: the server's first, unchanged, then our own."""
        own = () if self.own is None else (self.own,)
        return message.with_parts((*self.theirs, *own))

    def after(self, reply: Message, sent: Message) -> PeerTokens:
        """The tokens for the next message: one of the same kind is replaced, others stay (D-17)."""
        got: list[Part] = []
        for part in reply.tokens:  # skip echoes, and what an earlier piece of this reply brought
            if part not in sent.tokens and part not in self.theirs and part not in got and part != self.own:
                got.append(part)
        if not got:
            return self
        replaced = {part.subformat.lower() for part in got}
        still = reply.tokens
        kept = tuple(part for part in self.theirs if part in still or part.subformat.lower() not in replaced)
        return PeerTokens((*kept, *got), self.own)

    def export(self) -> dict[str, Any]:
        """As plain data, to be stored as a secret."""
        exported: dict[str, Any] = msgspec.to_builtins(self)
        return exported

    @classmethod
    def restore(cls, exported: dict[str, Any]) -> PeerTokens:
        """The inverse of ``export``.

        Raises:
            msgspec.ValidationError: not what ``export`` gave.
        """
        return msgspec.convert(exported, cls)
