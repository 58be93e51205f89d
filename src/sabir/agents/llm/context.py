"""How much of a conversation a model sees: the last turns, as far as they fit its window."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from sabir.turn import PastTurn, Turn

from .model import Model, ModelMessage, ModelOptions, ModelUsage

if TYPE_CHECKING:
    from .agent import LLMOptions

CHARACTERS_A_TOKEN: Final = 4  # a common estimate; windows need no more than that
SUMMARY: Final = "Summarise this conversation in at most 150 words. Keep names, numbers and decisions."


async def history_of(model: Model, turn: Turn, options: LLMOptions, used: int) -> list[ModelMessage]:
    """The earlier turns as messages. ``used`` is how many characters of the window are taken already."""
    past = turn.conversation.turns[-options.past_turns :] if options.past_turns else ()
    if options.context_tokens is None:
        return _messages(past)
    room = options.context_tokens * CHARACTERS_A_TOKEN - used - len(turn.text)
    kept = _fitting(past, room)
    left_out = past[: len(past) - len(kept)]
    if not left_out or options.context_policy == "truncate":
        return _messages(kept)
    summary = await _summary(model, turn, options, left_out)
    return [ModelMessage("system", f"Earlier in this conversation: {summary}"), *_messages(kept)]


def _messages(turns: Sequence[PastTurn]) -> list[ModelMessage]:
    messages = []
    for past in turns:
        messages += [ModelMessage("user", past.asked.text), ModelMessage("assistant", past.answered.text)]
    return [message for message in messages if message.content]


def _fitting(turns: Sequence[PastTurn], room: int) -> list[PastTurn]:
    """The latest turns that fit."""
    kept: list[PastTurn] = []
    for past in reversed(turns):
        room -= len(past.asked.text) + len(past.answered.text)
        if room < 0:
            break
        kept.insert(0, past)
    return kept


async def _summary(model: Model, turn: Turn, options: LLMOptions, turns: Sequence[PastTurn]) -> str:
    turn.spend(calls=1)
    asked = [*_messages(turns), ModelMessage("user", SUMMARY)]
    words: list[str] = []
    async with aclosing(model.answer(asked, ModelOptions(seconds=min(options.seconds, turn.remaining)))) as answer:
        async for piece in answer:
            if isinstance(piece, ModelUsage):
                cost = options.price.of(piece)
                turn.spend(tokens=piece.tokens, completion_tokens=piece.completion_tokens, cost=cost)
            elif isinstance(piece, str):
                words.append(piece)
    return "".join(words)
