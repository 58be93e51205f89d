"""An agent that repeats its input; served until you configure agents or sites."""

from __future__ import annotations

from collections import Counter

from sabir.agent import agent
from sabir.turn import Turn


@agent(name="echo", description="Repeats what it hears", repeatable=True)
async def echo(turn: Turn) -> str:
    words = turn.text
    others = Counter(part.format for part in turn.parts if part.format != "text")
    if not words and not others:
        return "Hello. Say something, and I will repeat it."
    lines = [f"You said: {words}"] if words else []
    if others:
        kinds = ", ".join(f"{number} {kind} part{'s' * (number > 1)}" for kind, number in others.items())
        lines.append(f"You sent: {kinds}")
    return "\n".join(lines)
