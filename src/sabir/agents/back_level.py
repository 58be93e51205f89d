"""BackLevel: an adapter in front of an agent for limited clients: speech in, speech or a few words out (DEP-BACK).

    BackLevel(agent, hear=transcribe, speak=synthesize)

The client's input is turned into text for the agent, and the agent's reply into something the client can take. The
operator supplies both functions; without them audio is refused with a text.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final

import msgspec

from sabir.agent import Agent, why_not_anonymous
from sabir.aio import Closing
from sabir.events import Event, Reply
from sabir.message import Message, Part, binary_part, text_part
from sabir.turn import Turn

Hear = Callable[[Part], Awaitable[str]]
Speak = Callable[[str], Awaitable[Part]]
_CANNOT_HEAR: Final = "I cannot listen to audio; please write."


class BackLevel:
    """Sits between a back-level client and an agent that reads and writes text.

    ``vocabulary``: the only answers that the client understands; the one that the agent's reply names is sent.
    """

    def __init__(
        self,
        inner: Agent,
        *,
        hear: Hear | None = None,
        speak: Speak | None = None,
        vocabulary: Sequence[str] = (),
        name: str | None = None,
    ) -> None:
        card = inner.card
        says = (*card.says, "binary") if speak is not None else card.says
        self.card = msgspec.structs.replace(card, name=name or f"{card.name}-helper", says=says)
        self.inner = inner
        self._hear = hear
        self._speak = speak
        self._vocabulary = tuple(vocabulary)

    async def __call__(self, turn: Turn, /) -> AsyncIterator[Event]:
        spoken = any(_is_audio(part) for part in turn.parts)
        if spoken and self._hear is None:
            yield Reply(Message.text(_CANNOT_HEAR))
            return
        message = await self._transcribed(turn.message) if spoken else turn.message
        sub = turn.sub(message, self.inner)
        sub.conversation = turn.conversation
        async with Closing(self.inner(sub)) as events:
            async for event in events:
                if not isinstance(event, Reply):
                    yield event
                    continue
                reply = self._limited(event.message)
                if spoken and self._speak is not None:
                    reply = reply.with_part(await self._speak(reply.text))
                yield Reply(reply)

    async def propose_anonymous(self, conversation: str) -> str | None:
        """Agree to anonymity only if the agent behind it does (PAPER-ANON)."""
        return await why_not_anonymous((self.inner,), conversation)

    async def _transcribed(self, message: Message) -> Message:
        assert self._hear is not None
        parts = [text_part(await self._hear(part)) if _is_audio(part) else part for part in message.parts]
        parts.sort(key=lambda part: part.format != "text")  # text first, for agents that read only that
        return Message.of(*parts, messagetype=message.messagetype)

    def _limited(self, reply: Message) -> Message:
        if not self._vocabulary:
            return reply
        words = reply.text.lower()
        named = [word for word in self._vocabulary if word.lower() in words]
        return Message.text(named[0] if named else self._vocabulary[-1])


def _is_audio(part: Part) -> bool:
    return part.format == "binary" and part.media[0] == "audio"


def audio_part(data: bytes, encoding: str = "wav") -> Part:
    """An audio part, for authors of ``speak`` functions."""
    return binary_part(data, f"audio/{encoding}", label="speech")
