"""What a person does on the page, one bullet at a time: results, forms, sound, signing in, the wire, the views."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from conftest import Served, serving
from protocols.nlweb.conftest import Shop
from sabir import LLM, Gateway, Message, agent, json_part, tool
from sabir.agents.llm import ScriptedModel
from sabir.agents.site.agent import Site
from sabir.bus import BusLimits, Letter, open_bus
from sabir.errors import TurnFailed
from sabir.events import Field, Question
from sabir.guard.build import GuardSettings, IdentitySettings
from sabir.observe.settings import ObserveSettings
from sabir.search import LocalIndex
from sabir.turn import Turn
from suites.security.attackers import add_key
from web.conftest import Drive

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

DOT = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
ACTIONS = [
    {"@type": "ViewAction", "name": "Read the menu", "method": "GET", "endpoint": "https://inn.example/menu"},
    {
        "@type": "ReserveAction",
        "name": "Book a table",
        "method": "POST",
        "endpoint": "https://inn.example/book{?guests}",
        "params": {"guests": {"required": True}},
    },
    {"@type": "ViewAction", "name": "Trick", "method": "GET", "endpoint": "javascript:window.attacked=1"},
]
HOURS = ["Mo-Fr 06:30-17:00", "Sa,Su 07:30-17:00"]


@agent(description="Lists places")
async def market(turn: Turn) -> Message:
    inn = {"@type": "Restaurant", "name": "The Inn", "url": "https://inn.example/", "image": DOT, "actions": ACTIONS}
    items = [{**inn, "openingHours": HOURS}]
    items += [{"@type": "Product", "name": f"Lamp {n}", "url": f"https://shop.example/{n}"} for n in range(14)]
    return Message.text("Fifteen things.", parts=tuple(json_part(item, label="result") for item in items))


gate = asyncio.Event()


@agent(description="Says half of it, and the rest when the gate is open")
async def halves(turn: Turn) -> AsyncIterator[Any]:
    yield "The first half. "
    await gate.wait()
    gate.clear()
    yield "The second half."


@agent(description="Opens the gate")
async def opener(turn: Turn) -> str:
    gate.set()
    return "open"


@agent(description="Orders a taxi")
async def taxi(turn: Turn) -> str:
    fields = (
        Field("where", "Where to?", "single_select", ("Airport", "Harbour")),
        Field("seats", "Seats", "number"),
        Field("extras", "Extras", "multi_select", ("Child seat", "Ramp"), required=False),
        Field("note", "A note", required=False),
    )
    answer = await turn.ask(Question("Where shall the taxi go?", fields))
    given = next(part.value for part in answer.parts if part.kind == "json")
    return f"Ordered: {given.get('answers', given)}"


@agent(description="Plays back what it hears")
async def parrot(turn: Turn) -> Message:
    sound = tuple(part for part in turn.message.parts if isinstance(part.content, bytes))
    return Message.text(f"heard {', '.join(part.subformat for part in sound)}", parts=sound)


@tool(confirm=True)
async def book_table(place: str) -> str:
    """Book a table."""
    return f"Booked {place}."


def booking(messages: Any) -> Any:
    if messages[-1].role == "tool":
        return f"Done: {messages[-1].content}"
    return {"tool_calls": [{"name": "book_table", "arguments": {"place": "The Inn"}}]}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    index = LocalIndex(None, None)
    shop = Shop(index, "pumpkins-r-us.com", name="shop", questions=False)
    shop.opened = index
    harbour = Site(index, "harbour.example", name="harbour", questions=False)
    booker = LLM("booker", ScriptedModel([booking] * 40), tools=[book_table])
    agents = (market, halves, opener, taxi, parrot, booker, harbour, shop)
    home = tmp_path_factory.mktemp("home")
    made = Gateway(*agents, home=home, beside=(shop,), observe=ObserveSettings(metrics=True))
    with serving(made) as served:
        yield served


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, str]]:
    """A gateway that wants a key, with a dead letter, and the key of an operator."""
    home = tmp_path_factory.mktemp("locked")
    guard = GuardSettings(IdentitySettings(anonymous=False, keys_seconds=0.0))
    bus = f"sqlite:///{home}/sabir.db"
    made = Gateway(taxi, parrot, home=home, guard=guard, observe=ObserveSettings(metrics=True), bus=bus)
    with serving(made) as served:
        asyncio.run(undelivered(bus))
        yield served, add_key(home, "alice", "operator")


async def undelivered(address: str) -> None:
    """Send a letter that its reader cannot handle, and wait until the bus has given it up."""

    async def fails(letter: Letter) -> None:
        raise TurnFailed("the room is taken")

    bus = open_bus(address, limits=BusLimits(attempts=1))
    await bus.open()
    receiver = await bus.receive("hotel", fails)
    await bus.send(Letter("hotel", b"a room, please"))
    async with asyncio.timeout(30):
        while not await bus.dead("hotel"):
            await asyncio.sleep(0.01)
    await receiver.stop()
    await bus.close()


@pytest.fixture(scope="module")
def found(
    chromium: str,
    drive: Drive,
    gateway: Served,
    locked: tuple[Served, str],
    shots: Path,
) -> dict[str, Any]:
    closed, key = locked
    return drive("bullets.mjs", chromium, gateway.url, str(shots), closed.url, key)


def test_an_answer_is_shown_while_it_is_written(found: dict[str, Any]) -> None:
    assert found["streamed"] == {"during": "The first half.", "after": "The first half. The second half."}


def test_a_card_has_a_picture_opening_hours_in_words_and_actions_that_work(found: dict[str, Any]) -> None:
    seen = found["cards"]
    assert seen["picture"] == 1  # drawn, not broken
    assert seen["hours"] == ["Mon–Fri: 6:30–17:00", "Sat–Sun: 7:30–17:00"]
    assert seen["links"] == [["Read the menu", "https://inn.example/menu"]]
    assert seen["posted"] == {"url": "https://inn.example/book", "method": "POST", "body": "guests=2"}
    assert seen["inert"] == ["Trick"]


def test_results_are_narrowed_by_kind_and_the_rest_is_behind_a_button(found: dict[str, Any]) -> None:
    seen = found["many"]
    assert (seen["first"], seen["all"]) == (12, 15)
    assert seen["more"] == "Show 3 more"
    assert seen["facets"] == ["All", "Restaurant 1", "Product 14"]
    assert seen["pressed"] == ["Restaurant 1"]
    assert seen["narrowed"] == ["The Inn"]


@pytest.mark.parametrize("protocol", ["nlweb", "nlip"])
def test_a_filter_that_was_understood_is_a_chip_and_can_be_removed(found: dict[str, Any], protocol: str) -> None:
    seen = found["chips"][protocol]
    assert "under 30 minutes" in seen["before"]
    assert seen["asked"] == "vegetarian dinner without nuts"
    assert seen["above"], "what was understood stands over the results"
    assert seen["cards"] and not seen["list"], "a list in words repeats the cards"
    assert seen["modes"] == (protocol == "nlweb"), "only NLWeb has a choice of list and summary"
    assert seen["after"] and "under 30 minutes" not in seen["after"]


def test_a_question_is_a_form_with_every_kind_of_field(found: dict[str, Any]) -> None:
    seen = found["form"]
    assert (
        "'where': 'Harbour'" in seen
        and "'seats': 3" in seen
        and "'extras': ['Ramp']" in seen
        and "'note': 'soon'" in seen
    )


@pytest.mark.parametrize("protocol", ["nlip", "nlip-ws", "nlweb", "mcp", "a2a", "acl"])
def test_a_tool_call_is_confirmed_or_declined(found: dict[str, Any], protocol: str) -> None:
    seen = found["confirmed"][protocol]
    assert seen["buttons"] == ["Yes", "No"], seen
    assert "Booked The Inn." in seen["yes"]
    assert "Booked" not in seen["no"]


def test_a_recording_reaches_the_agent_and_its_sound_can_be_played(found: dict[str, Any]) -> None:
    assert "heard audio/webm" in found["sound"]["words"]
    assert found["sound"]["players"] == 1 and found["sound"]["duration"] > 0


def test_the_keyboard_writes_cancels_and_moves(found: dict[str, Any]) -> None:
    assert found["keys"] == {"slash": "text", "escaped": "Cancelled."}


def test_a_gateway_that_wants_a_key_asks_for_it_and_takes_it(found: dict[str, Any]) -> None:
    seen = found["signIn"]
    assert "Sign in to ask here" in seen["why"]
    assert seen["agents"] == ["taxi", "parrot", "Another address…"]
    assert seen["who"] == "Signed in"
    assert set(seen["words"].values()) == {"heard"}, seen["words"]  # over every protocol
    assert "sbk_" not in seen["shown"] and "••••••" in seen["shown"]  # the key that the socket sends is not shown
    assert b"sbk_".hex(" ") not in " ".join(seen["shown"].split())
    assert seen["kept"] == "Signed in" and seen["stored"] is None  # in the tab, not on the disk


def test_the_wire_pane_shows_headers_times_sizes_and_events(found: dict[str, Any]) -> None:
    seen = found["wire"]
    assert "Content-Type: application/json" in seen["text"] and "content-type: text/event-stream" in seen["text"]
    assert seen["times"] and all(time.endswith("ms") for time in seen["times"])
    assert " ms" in seen["head"] and "↑" in seen["head"] and "↓" in seen["head"]


def test_the_directory_shows_cards_and_lets_people_try(found: dict[str, Any]) -> None:
    seen = found["directory"]
    assert '"name": "taxi"' in seen["card"] and seen["health"] == "ok"
    assert seen["tried"] == "Hello" and seen["agent"] == "market"
    assert seen["snippet"].startswith("<script src=") and "/web/widget.js" in seen["snippet"]
    done = subprocess.run([sys.executable, "-c", seen["python"]], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and done.stdout.strip(), done.stderr  # as pasted


def test_a_caller_sees_tasks_conversations_and_an_inbox(found: dict[str, Any]) -> None:
    seen = found["activity"]
    assert "completed" in seen["tasks"] or "input required" in seen["tasks"]
    # One over each protocol.
    assert seen["conversations"] == len(seen["afterwards"]) == len(set(seen["afterwards"])) == 6
    assert "TASK_REQUEST" in seen["inbox"] and "ahoy" in seen["inbox"]


def test_an_operator_sees_charts_limits_audit_and_dead_letters(found: dict[str, Any]) -> None:
    seen = found["operate"]
    assert seen["charts"] == 4 and seen["points"] >= 2
    assert "key:" in seen["audit"] and "turn · nlip-http · parrot" in seen["audit"]
    outcomes = {line.split("\t")[-1] for line in seen["audit"].splitlines()[1:]}
    assert "ok" in outcomes and "" not in outcomes
    assert seen["limits"] > 3
    assert "hotel" in seen["dead"] and "the room is taken" in seen["dead"]


def test_nothing_leaves_the_origin_and_nothing_fails(
    found: dict[str, Any], gateway: Served, locked: tuple[Served, str]
) -> None:
    assert sorted(found["hosts"]) == sorted(urlsplit(served.url).netloc for served in (gateway, locked[0]))
    assert [line for line in found["wrong"] if "401" not in line] == []


def test_nobody_is_kept_out(found: dict[str, Any]) -> None:
    assert {place: seen for place, seen in found["axe"].items() if seen != [0]} == {}
