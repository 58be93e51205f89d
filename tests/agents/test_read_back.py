"""Read-back of meaning before something is done (TR-8): the registrar of the overview report."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from conftest import Serve
from sabir.agent import Agent, agent
from sabir.agents.confirm import Confirm
from sabir.gateway.gateway import Gateway
from sabir.message import Message
from sabir.protocols.nlip.peer.http import NlipHttpPeer
from sabir.turn import Turn


@pytest.fixture
def enrolled() -> list[dict[str, str]]:
    return []


@pytest.fixture
def registrar(enrolled: list[dict[str, str]]) -> Agent:
    @agent(name="registrar")
    async def registrar(turn: Turn) -> str:
        form = turn.message.labelled("understood")
        assert form is not None
        enrolled.append(form.value)
        return f"{form.value['student']} is enrolled in {form.value['course']}."

    return registrar


def parse(message: Message) -> dict[str, str]:
    """The last name and course that were said."""
    student = re.findall(r"\b([A-Z][a-z]+) (?:wants|takes|in)\b", message.text)
    course = re.findall(r"\b(?:wants|takes|in) (\w+)", message.text)
    return {"student": student[-1] if student else "?", "course": course[-1] if course else "?"}


async def test_nothing_is_done_before_assent_and_a_correction_is_read(
    serve: Serve, home: Path, registrar: Agent, enrolled: list[dict[str, str]]
) -> None:
    served = serve(Gateway(Confirm(registrar, parse=parse), home=home))
    async with NlipHttpPeer(served.url) as peer:
        asked = await peer.ask("Alice wants physics")
        assert asked.first.content == "I understood: student: Alice; course: physics. Is that right?"
        assert enrolled == []
        again = await peer.ask("Alice takes chemistry, sorry")
        assert "course: chemistry" in again.text
        assert (await peer.ask("Yes, exactly")).text == "Alice is enrolled in chemistry."
    assert enrolled == [{"student": "Alice", "course": "chemistry"}]


async def test_a_no_ends_it(serve: Serve, home: Path, registrar: Agent, enrolled: list[dict[str, str]]) -> None:
    served = serve(Gateway(Confirm(registrar, parse=parse), home=home))
    async with NlipHttpPeer(served.url) as peer:
        await peer.ask("Bob wants art")
        assert "Nothing was done" in (await peer.ask("no")).text
    assert enrolled == []
