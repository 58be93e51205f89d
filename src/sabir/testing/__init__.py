"""For tests of agents: ask one without a server, script its model, fake its peers and tools (``docs/testing.md``).

from sabir.testing import ask

answer = await ask(pizza, "A pizza, please", answers=["M"])
assert answer.text == "One pizza, size M"
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sabir.agents.llm.mock import RecordingModel, ReplayingModel, ScriptedModel

from .ask import DECLINE, Answered, MemoryJournal, Unanswered, ask, ask_sync
from .fakes import FakeAgent, FakeTool, scripted_member
from .recording import recorded

if TYPE_CHECKING:
    from .serving import served

__all__ = [
    "DECLINE",
    "Answered",
    "FakeAgent",
    "FakeTool",
    "MemoryJournal",
    "RecordingModel",
    "ReplayingModel",
    "ScriptedModel",
    "Unanswered",
    "ask",
    "ask_sync",
    "recorded",
    "scripted_member",
    "served",
]


def __getattr__(name: str) -> Any:
    if name != "served":  # it imports the server, which most tests of agents do not need
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = importlib.import_module("sabir.testing.serving").served
    return value
