"""The page for a visitor of a public site: a chat, without the words of developers and operators."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from conftest import Served, serving
from protocols.nlweb.agents import broken
from sabir import Gateway, Turn, agent
from sabir.server.settings import Serving
from web.conftest import Drive

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TECHNICAL = re.compile(
    r"\b(?:operators?|audit|role|wire|protocols?|gateway|trace|endpoints?|NLIP|NLWeb|MCP|A2A|ACL)\b", re.I
)


@agent(description="Repeats what it hears")
async def echo(turn: Turn) -> str:
    return f"You said: {turn.text}"


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A gateway behind a proxy: its callers are not on its own machine."""
    gateway = Gateway(echo, broken, home=tmp_path_factory.mktemp("home"), serving=Serving(behind_tls_proxy=True))
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
    assert "/ask" in seen["paths"] and "/nlip" in seen["paths"]


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
