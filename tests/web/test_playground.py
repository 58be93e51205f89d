"""The playground and the widget in a real browser, against a running gateway: every protocol, every view."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from conftest import Served, serving
from sabir import Gateway, agent
from sabir.events import Field, Progress, Question
from sabir.message import Message, binary_part
from sabir.observe.settings import ObserveSettings
from sabir.server.settings import Serving
from sabir.turn import Turn
from web.conftest import Drive

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

HOSTILE = """<script>window.attacked = 1</script><img src=x onerror="window.attacked = 1">
[click me](javascript:window.attacked=1) [and me](data:text/html,<script>1</script>) [fine](https://example.com/)
\u202eevil\u202c \x1b[31mred\x1b[0m `</code><script>window.attacked=1</script>`

| a | b |
|---|---|
| <b>x</b> | ![y](http://evil.example/p.png) |
"""


@agent(description="Writes in pieces")
async def writer(turn: Turn) -> AsyncIterator[Any]:
    if turn.text == "later":  # longer than `doors.nlweb.wait`: it is promised
        await asyncio.sleep(2.0)
        yield "At last."
        return
    for piece in ("**Hello**, ", "this is ", "a `streamed` ", "answer.\n\n- one\n- two\n"):
        yield piece
        await asyncio.sleep(0.02)


@agent(description="Counts the turns of a conversation")
async def counter(turn: Turn) -> str:
    return f"turn {len(turn.conversation.turns) + 1}"


@agent(description="Takes orders for coffee")
async def barista(turn: Turn) -> str:
    field = Field("size", "Which size?", kind="single_select", options=("S", "M", "L"))
    size = await turn.ask(Question("Which size?", fields=(field,)))
    return f"One {size.text} {turn.text}"


@agent(description="Cooks slowly")
async def kitchen(turn: Turn) -> AsyncIterator[Any]:
    for tenth in range(1, 6):
        yield Progress(tenth / 5, f"stirring, {tenth} of 5")
        await asyncio.sleep(0.3)
    yield f"Cooked {turn.text}."


@agent(description="Never ends")
async def sleeper(turn: Turn) -> AsyncIterator[Any]:
    yield Progress(0.1, "asleep")
    await asyncio.Event().wait()
    yield "awake"


@agent(description="Says what a page must not act on")
async def hostile(turn: Turn) -> str:
    return HOSTILE + "long " * 20_000


@agent(description="Reads what is attached")
async def reader(turn: Turn) -> Message:
    attached = [item.name for item in await turn.attachments.all(turn.message)] if turn.attachments else []
    kinds = [f"{part.format}/{part.subformat}" for part in turn.message.parts if part.format != "text"]
    images = [part for part in turn.message.parts if isinstance(part.content, bytes)]
    again = tuple(binary_part(part.content, part.subformat, label="again.png") for part in images)
    return Message.text(f"read {', '.join(kinds)} {attached}", parts=again)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, elsewhere: tuple[str, Path]) -> Iterator[Served]:
    agents = (writer, counter, barista, kitchen, sleeper, hostile, reader)
    observe = ObserveSettings(metrics=True)
    with serving(
        Gateway(
            *agents,
            home=tmp_path_factory.mktemp("home"),
            observe=observe,
            origins=[elsewhere[0]],
            doors={"nlweb": {"wait": 1}},
        )
    ) as served:
        yield served


@pytest.fixture(scope="module")
def found(chromium: str, drive: Drive, gateway: Served, shots: Path) -> dict[str, Any]:
    """One visit with everything a person does; each test looks at a part of it."""
    return drive("playground.mjs", chromium, gateway.url, str(shots), f"{gateway.url}/nlip/writer")


PROTOCOLS = ("nlip", "nlip-ws", "nlweb", "mcp", "a2a", "acl")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_same_question_is_asked_over_each_protocol(found: dict[str, Any], protocol: str) -> None:
    seen = found["protocols"][protocol]
    assert seen["words"].startswith("Hello, this is a streamed answer.")  # Markdown, rendered
    assert "stirring" in seen["note"]
    assert seen["cancelled"]


def test_a_question_can_be_answered_before_its_response_has_ended(found: dict[str, Any]) -> None:
    assert found["answeredAtOnce"].endswith("latte")


def test_nothing_leaves_the_origin_and_nothing_fails(found: dict[str, Any], gateway: Served) -> None:
    assert found["hosts"] == [urlsplit(gateway.url).netloc]
    too_large = "Failed to load resource: the server responded with a status of 413 (Request Entity Too Large)"
    assert found["wrong"] == [too_large, too_large]  # the large file, over MCP and over A2A


def test_the_first_paint_needs_less_than_100_kilobytes_of_script(found: dict[str, Any]) -> None:
    assert 10_000 < found["first"] < 100_000


def test_the_wire_pane_shows_the_bytes_and_whose_tokens_they_are(found: dict[str, Any]) -> None:
    seen = found["onWire"]
    assert seen["hex"].split()[0][0] in "ab"  # a CBOR map begins so
    assert 'format: text "text"' in seen["tree"]
    assert seen["marks"] == ["echoed", "ours", "theirs"]
    assert seen["legend"] == ["made by this page", "made by the gateway", "returned unchanged"]
    assert seen["copied"]["curl"].startswith("curl -sN \\\n  'http://127.0.0.1")


def test_a_frame_is_edited_and_sent_again_while_the_chat_continues(found: dict[str, Any]) -> None:
    seen = found["onWire"]["socket"]
    assert seen["kept"] == {"open": True, "text": '{"format":"text","subformat":"english","content":"edited"}'}
    assert "Frames (2)" in seen["resent"] and "closed 1005" in seen["resent"]


@pytest.mark.parametrize(
    ("kind", "program"),
    [("curl", ["bash", "-c"]), ("Python", [sys.executable, "-c"]), ("Socket", [sys.executable, "-c"])],
)
def test_a_copied_request_runs_as_pasted(found: dict[str, Any], kind: str, program: list[str]) -> None:
    done = subprocess.run([*program, found["onWire"]["copied"][kind]], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "`streamed`" in done.stdout


def test_a_hostile_answer_is_inert(found: dict[str, Any]) -> None:
    seen = found["attack"]
    assert (seen["active"], seen["handlers"], seen["attacked"]) == (0, 0, False)
    assert [link for link in seen["links"] if not link.startswith(("http", "#"))] == []
    assert "\u202e" not in seen["text"] and "\x1b" not in seen["text"]
    assert seen["more"] == 1  # the rest of a huge text is behind a button


def test_files_recordings_and_locations_reach_the_agent_and_pictures_come_back(found: dict[str, Any]) -> None:
    seen = found["files"]
    for protocol in ("nlip", "nlip-ws", "mcp", "a2a"):
        assert "binary/image/png" in seen[protocol]["said"], protocol
        assert seen[protocol]["shown"] == 1, protocol
    for protocol in ("nlip", "nlip-ws"):
        assert "large.bin" in seen["large"][protocol] or "structured/uri" in seen["large"][protocol], protocol
    for protocol in ("mcp", "a2a"):
        assert "Choose NLIP above, which uploads large files." in seen["large"][protocol]
    assert "location/gps" in seen["location"]


def test_an_operator_asks_any_address(found: dict[str, Any]) -> None:
    assert found["remote"].startswith("Hello, this is a streamed answer.")


def test_the_conversation_is_kept_across_a_reload(found: dict[str, Any]) -> None:
    assert found["again"]["before"] == found["again"]["after"] > 20
    assert found["again"]["continued"] == {"nlip": "turn 3", "nlweb": "turn 3", "a2a": "turn 3", "mcp": "turn 3"}


@pytest.mark.parametrize("protocol", ["nlip", "nlip-ws", "nlweb", "mcp", "a2a"])
def test_a_second_question_continues_the_conversation(found: dict[str, Any], protocol: str) -> None:
    assert found["protocols"][protocol]["turns"] == ["turn 1", "turn 2"]


def test_the_views_show_agents_activity_checks_and_what_operators_watch(found: dict[str, Any]) -> None:
    shown = found["shown"]
    assert "barista" in shown["agents"]["text"] and "mcpServers" in shown["agents"]["text"]
    assert "completed" in shown["activity"]["text"]
    assert "HTTP-" in shown["check"]["text"] and "passed" in shown["check"]["text"]
    assert "Audit" in shown["operate"]["text"] and "anonymous" in shown["operate"]["text"]
    assert re.search(r"Failed turns\s+0.0 /s\s+0 in total", shown["operate"]["text"])  # six were cancelled


def test_nobody_is_kept_out_by_the_page(found: dict[str, Any]) -> None:
    places = {"welcome": found["welcome"], "chat": found["axe"]}
    places |= {view: seen["axe"] for view, seen in found["shown"].items()}
    places |= {look: seen["axe"] for look, seen in found["looks"].items()}
    assert {place: violations for place, violations in places.items() if violations} == {}
    assert {seen["overflow"] for seen in found["looks"].values()} == {0}


def test_the_widget_lives_on_an_allowed_site_without_touching_its_style(
    chromium: str, drive: Drive, gateway: Served, elsewhere: tuple[str, Path], shots: Path
) -> None:
    origin, folder = elsewhere
    (folder / "index.html").write_text(
        "<!doctype html><meta charset=utf-8><link rel=icon href=data:,>"
        "<style>h2 { color: rgb(200, 0, 0) } button { background: lime }</style>"
        "<h2>Our shop</h2><div id=search></div>"
        f"<script src='{gateway.url}/web/widget.js' data-accent='#123456'></script>"
        f"<script src='{gateway.url}/web/widget.js' data-mode=search data-target='#search'></script>"
    )
    seen = drive("widget.mjs", chromium, f"{origin}/", str(shots))
    assert seen["words"].startswith("Hello, this is a streamed answer.") and seen["bullets"] == ["one", "two"]
    assert seen["accent"] == "rgb(18, 52, 86)"
    assert seen["refusal"] == "Too many questions. Try again in 5 seconds."
    assert seen["closed"] == {"box": True, "focus": "open"}
    # A search box stands on the background of its page, which does not change with the visitor's preference.
    assert seen["themes"] == {"search": "rgb(23, 33, 31)", "chat": "rgb(230, 237, 235)"}
    assert seen["inside"] == "rgb(255, 255, 255)" and seen["outside"] == "rgb(200, 0, 0)"
    assert [line for line in seen["wrong"] if "429" not in line] == []


def test_operators_only_get_what_is_for_operators(gateway: Served, tmp_path: Path) -> None:
    behind = Gateway(writer, home=tmp_path, serving=Serving(behind_tls_proxy=True))
    with serving(behind) as served:
        for path in ("/operate/audit", "/operate/dead-letters"):
            assert httpx2.get(f"{served.url}{path}").status_code == 401, path
        for path in ("/operate/check", "/operate/ask"):
            order = {"url": served.url, "text": "hi"}
            assert httpx2.post(f"{served.url}{path}", json=order).status_code == 401, path
    invalid = httpx2.post(f"{gateway.url}/operate/check", json={"url": gateway.url, "protocol": "latin"})
    assert invalid.status_code == 422 and "expected one of" in invalid.json()["content"]
