"""The page for a visitor of a public site: a chat, without the words of developers and operators."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from conftest import Served, serving
from protocols.nlweb.agents import broken
from sabir import Field, Gateway, Message, Question, Turn, agent, json_part
from sabir.card import Skill
from sabir.message import binary_part
from sabir.server.settings import Serving
from web.conftest import Drive

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
TECHNICAL = re.compile(
    r"\b(?:operators?|audit|role|wire|protocols?|gateway|trace|endpoints?|NLIP|NLWeb|MCP|A2A|ACL)\b", re.I
)


@agent(description="Repeats what it hears")
async def echo(turn: Turn) -> str:
    return f"You said: {turn.text}"


@agent(description="Finds things", skills=(Skill("find", "Find", tags=("search",)),))
async def finder(turn: Turn) -> Message:
    offers = [{"price": 12}, {"price": "on request"}, {"lowPrice": 3, "priceCurrency": "EUR"}]
    items = [{"@type": "Product", "name": f"Lamp {n}", "offers": offer} for n, offer in enumerate(offers)]
    return Message.text("Three lamps.", parts=tuple(json_part(item, label="result") for item in items))


@agent(description="Draws, and says where")
async def painter(turn: Turn) -> Message:
    places = [str(part.content) for part in turn.message.parts if part.format == "location"]
    return Message.text(f"Drawn at {places}", parts=(binary_part(DOT, "image/png", label="dot.png"),))


@agent(description="Takes orders")
async def barista(turn: Turn) -> str:
    field = Field("size", "Which size?", "single_select", ("small", "large"))
    return f"One {(await turn.ask(Question('Which size?', (field,)))).text} coffee"


@agent(description="Never ends")
async def sleeper(turn: Turn) -> str:
    await asyncio.Event().wait()
    return ""


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A gateway behind a proxy: its callers are not on its own machine."""
    agents = (echo, broken, finder, painter, barista, sleeper)
    gateway = Gateway(*agents, home=tmp_path_factory.mktemp("home"), serving=Serving(behind_tls_proxy=True))
    with serving(gateway) as served:
        yield served


@pytest.fixture(scope="module")
def seen(chromium: str, drive: Drive, public: Served, shots: Path) -> dict[str, Any]:
    return drive("visitor.mjs", chromium, public.url, str(shots))


def test_a_visitor_sees_a_chat_and_nothing_of_operators(seen: dict[str, Any]) -> None:
    assert seen["tabs"] == ["Chat", "Agents", "Activity", "Docs"]
    assert seen["words"] == "You said: Hello"
    assert seen["overflow"] == 0 and seen["serious"] == []


@pytest.mark.parametrize("view", ["chat", "agents", "activity"])
def test_no_view_of_a_visitor_has_technical_words(seen: dict[str, Any], view: str) -> None:
    assert TECHNICAL.findall(seen["texts"][view]) == [], seen["texts"][view]


def test_a_failure_says_what_a_visitor_can_do_and_a_developer_sees_the_message(seen: dict[str, Any]) -> None:
    assert re.fullmatch(
        r"This question could not be answered\. Try again in a moment\. If it happens again, "
        r"tell whoever runs this service the number [0-9a-f]{12}\.",
        seen["failure"],
    )
    assert seen["developer"]["failure"].startswith("broken failed; the operator's log says why (turn ")


def test_a_file_is_sent_without_choosing_a_protocol(seen: dict[str, Any]) -> None:
    assert seen["withFile"] == "You said: Read this\na note"


def test_what_is_searched_is_asked_over_nlweb_and_everything_else_over_nlip(seen: dict[str, Any]) -> None:
    """NLWeb carries no bytes and no place, and is made for lists with a summary."""
    asked = [path for path in seen["paths"] if path.startswith(("/ask", "/nlip"))]
    assert "/ask/finder" in asked and "/nlip" in asked
    assert not {path for path in asked if path.startswith("/ask")} - {"/ask/finder"}


def test_a_picture_is_shown_and_a_place_is_sent(seen: dict[str, Any]) -> None:
    assert seen["drawn"] == {"words": "Drawn at ['43.57, -116.03']", "pictures": 1}


def test_a_price_has_the_currency_that_is_known_or_none(seen: dict[str, Any]) -> None:
    assert seen["prices"] == ["12", "on request", "from €3"]


def test_a_form_has_the_focus(seen: dict[str, Any]) -> None:
    assert seen["focus"] == "small"


def test_a_reload_keeps_what_was_attached_shown_asked_and_failed(seen: dict[str, Any]) -> None:
    kept = seen["kept"]
    assert kept["attached"] == ["note.txt", "my location"]
    assert kept["pictures"] == 1
    assert kept["failures"] == 1
    assert kept["answered"] == "One large coffee"  # the form still works


def test_a_question_whose_answer_had_not_arrived_is_not_lost(seen: dict[str, Any]) -> None:
    assert seen["left"] == "The page was left before the answer was complete. Ask again."


def test_one_button_shows_what_developers_need_and_still_nothing_of_operators(seen: dict[str, Any]) -> None:
    found = seen["developer"]
    assert found["protocol"] and found["wire"] and found["trace"]
    assert found["tabs"] == ["Chat", "Agents", "Activity", "Docs"]


def test_the_gateway_says_who_is_an_operator(public: Served, tmp_path: Path) -> None:
    assert httpx2.get(f"{public.url}/operate/access").json() == {"operator": False}
    assert httpx2.get(f"{public.url}/operate/access", headers={"authorization": "Bearer x"}).json() == {
        "operator": False
    }
    with serving(Gateway(echo, home=tmp_path)) as local:  # its caller is on its own machine
        assert httpx2.get(f"{local.url}/operate/access").json() == {"operator": True}
