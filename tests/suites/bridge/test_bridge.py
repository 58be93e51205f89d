"""The bridge: a client of one protocol talks to an agent that its gateway knows by another.

Every ordered pair, every row of the table. What does not cross is a sentence of a wire's ``LOSSES``: each row either
crosses whole, or loses exactly what the table says. The last test writes the table into ``docs/bridge.md``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from deadline import DEADLINE
from gates import Gate
from suites.bridge.bridge_agents import DATA, PNG
from suites.bridge.bridge_clients import TALKERS, Talker
from suites.bridge.bridge_table import FROM_AGENTS, LOSSES, TO_CLIENTS, WAYS, lost, page

PAIRS = [(x, y) for x in TALKERS for y in ("nlip", "nlweb", "mcp", "a2a", "acl")]
DOCS = Path(__file__).parents[3] / "docs" / "bridge.md"
outcomes: dict[tuple[str, str, str], bool] = {}


async def text(client: Talker, gate: Gate) -> bool:
    return (await client.ask("echo", "hello, Zoë")).text == "You said: hello, Zoë"


async def image(client: Talker, gate: Gate) -> bool:
    heard = await client.ask("painter", "a heron")
    assert heard.text.startswith("A heron.")
    return heard.images == [PNG]


async def data(client: Talker, gate: Gate) -> bool:
    heard = await client.ask("surveyor", "the heron")
    assert heard.text.startswith("Measured.")
    return heard.data == [DATA]


async def conversation(client: Talker, gate: Gate) -> bool:
    first = await client.ask("counter", "a")
    second = await client.ask("counter", "b", first.place)
    third = await client.ask("counter", "c", second.place)
    other = await client.ask("counter", "d")
    assert other.text == "turn 1: d", "another conversation was entered"
    return [first.text, second.text, third.text] == ["turn 1: a", "turn 2: b", "turn 3: c"]


async def stream(client: Talker, gate: Gate) -> bool:
    heard = await client.stream("pieces", "go")
    assert heard.text == "one, two, three"
    return [piece for piece in heard.pieces if piece != "half way"] == ["one, ", "two, ", "three"]


async def long_task(client: Talker, gate: Gate) -> bool:
    return (await client.later("slow", "work", gate)).text == "done at last"


async def question(client: Talker, gate: Gate) -> bool:
    asked, done = await client.questioned("asker", "paint", "blue")
    return (asked.question, asked.options, done.text) == ("Which colour?", ["red", "blue"], "You chose blue.")


async def failure(client: Talker, gate: Gate) -> bool:
    return "the heron flew away" in (await client.ask("broken", "x")).failure


async def cancel(client: Talker, gate: Gate) -> bool:
    await client.cancel("slow", "work", gate)
    return await asyncio.to_thread(gate.left.wait, DEADLINE)


async def who(client: Talker, gate: Gate) -> bool:
    await client.ask("counter", "hello")
    return await client.who("counter") == "Counts the turns of a conversation"


CHECKS: dict[str, Callable[[Talker, Gate], Awaitable[bool]]] = {
    "text": text,
    "image": image,
    "structured data": data,
    "conversation over 3 turns": conversation,
    "stream": stream,
    "long task": long_task,
    "question to the caller": question,
    "failure": failure,
    "cancel": cancel,
    "self-description": who,
}


def named(pair: object) -> str:
    return " to ".join(pair) if isinstance(pair, tuple) else str(pair)


@pytest.mark.parametrize("row", CHECKS)
@pytest.mark.parametrize("talker", PAIRS, indirect=True, ids=named)
async def test_what_crosses(talker: Talker, gate: Gate, row: str, request: pytest.FixtureRequest) -> None:  # ACL-39
    x, y = request.node.callspec.params["talker"]
    crossed = outcomes[x, y, row] = await CHECKS[row](talker, gate)
    assert crossed == (lost(x, y, row) is None), lost(x, y, row) or "it was lost, and no LOSSES says so"


def test_every_loss_is_one_that_its_wire_names() -> None:
    for (protocol, row), sentence in {**TO_CLIENTS, **FROM_AGENTS}.items():
        assert sentence in LOSSES[protocol]
        assert row in WAYS
    assert list(WAYS) == list(CHECKS)


def test_the_page_in_the_docs_is_what_was_seen(tmp_path: Path) -> None:
    """A test leaves the checkout as it is: the new page is beside it, to be copied if it is right."""
    if len(outcomes) != len(PAIRS) * len(CHECKS):
        pytest.skip("only part of the matrix was run")
    new = tmp_path / DOCS.name
    new.write_text(page(outcomes), encoding="utf-8")
    known = DOCS.read_text(encoding="utf-8")
    assert page(outcomes) == known, f"docs/bridge.md is not what the tests saw; if {new} is right, copy it there"
