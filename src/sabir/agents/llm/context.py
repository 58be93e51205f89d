"""How much of a conversation a model gets: the latest turns, as far as they fit its context window."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

import msgspec

from sabir.turn import PastTurn, Turn

from .model import Model, ModelMessage, ModelOptions, ModelUsage

if TYPE_CHECKING:
    from .agent import LLMOptions

CUT: Final = 200  # characters of the newest results that are kept; shorter ones are never cut
CHARACTERS_A_TOKEN: Final = 4  # a common estimate, good enough for context windows
SUMMARY: Final = "Summarise this conversation in at most 150 words. Keep names, numbers and decisions."


async def history_of(model: Model, turn: Turn, options: LLMOptions, used: int) -> list[ModelMessage]:
    """The earlier turns as messages. ``used`` is how many characters of the window are already taken."""
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


def fit_results(messages: list[ModelMessage], context_tokens: int | None) -> None:
    """Make the results of tools fit into the window: earlier ones are dropped, the newest are cut.

    A model rejects a request that is longer than its window as a whole.
    """
    if context_tokens is None:
        return
    excess = sum(len(message.content) for message in messages) - context_tokens * CHARACTERS_A_TOKEN
    places = [place for place, message in enumerate(messages) if message.role == "tool" and len(message.content) > CUT]
    calling = max((place for place, message in enumerate(messages) if message.role == "assistant"), default=0)
    earlier = [place for place in places if place < calling]
    newest = sorted((place for place in places if place > calling), key=lambda place: -len(messages[place].content))
    for place in (*earlier, *newest):
        if excess <= 0:
            return
        content = messages[place].content
        length = 0 if place < calling else max(CUT, len(content) - excess)
        shorter = cut(content, length)
        messages[place] = msgspec.structs.replace(messages[place], content=shorter)
        excess -= len(content) - len(shorter)


def cut(text: str, length: int) -> str:
    """The beginning of a text, and how long it was."""
    note = f"\n[cut: {len(text)} characters]"
    return text if len(text) <= length + len(note) else f"{text[:length]}{note}"


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
