"""Confirm: repeats what it understood, and continues only with the caller's consent (TR-8).

    Confirm(registrar, parse=read_the_form)

The wire carries meaning in natural language, and each side has its own structure; so before acting, the agent states
the structure in words, and the other side confirms or corrects it.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from sabir.agent import Agent, why_not_anonymous
from sabir.aio import Closing
from sabir.events import Event, Field, Question, Reply
from sabir.guard.assent import assent
from sabir.message import Message, json_part
from sabir.turn import Turn

Form = Mapping[str, Any]
Parse = Callable[[Message], Form | Awaitable[Form]]

UNDERSTOOD: Final = "understood"
ROUNDS: Final = 3  # corrections before it gives up


class Confirm:
    """An agent that acts only on what both sides agree on. The inner agent gets the message and the form, labelled
    ``understood``."""

    def __init__(self, inner: Agent, *, parse: Parse, name: str | None = None) -> None:
        self.card = msgspec.structs.replace(inner.card, name=name or f"{inner.card.name}-confirmed")
        self.inner = inner
        self._parse = parse

    async def __call__(self, turn: Turn, /) -> AsyncIterator[Event]:
        message = turn.message
        for _ in range(ROUNDS):
            form = self._parse(message)
            form = await form if inspect.isawaitable(form) else form
            answer = await turn.ask(_question(form))
            confirmed = assent(answer)
            if confirmed:
                sub = turn.sub(message.with_part(json_part(dict(form), label=UNDERSTOOD)), self.inner)
                sub.conversation = turn.conversation
                async with Closing(self.inner(sub)) as events:
                    async for event in events:
                        yield event
                return
            if confirmed is False:
                break
            message = Message.text(f"{message.text}\n{answer.text}")  # a correction: read both together
        yield Reply(Message.text("Nothing was done. Please say it again in other words."))

    async def propose_anonymous(self, conversation: str) -> str | None:
        """Agree to anonymity only if the agent behind it does (PAPER-ANON)."""
        return await why_not_anonymous((self.inner,), conversation)


def _question(form: Form) -> Question:
    answer = "; ".join(f"{name}: {value}" for name, value in form.items()) or "nothing"
    return Question(
        f"I understood: {answer}. Is that right?",
        fields=(Field("assent", "Is that right? You may also correct it in words.", "boolean"),),
        id="read-back",
    )
