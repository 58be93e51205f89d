"""A gateway mounted in FastAPI and Starlette, below a path of its own, over real sockets."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
import uvicorn
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount

from deadline import DEADLINE
from free_ports import free_port
from sabir import Gateway, agent, connect
from sabir.turn import Turn

PREFIX = "/team/agents"


@agent(description="Repeats what it hears")
async def echo(turn: Turn) -> str:
    return f"You said: {turn.text}"


@contextmanager
def running(app: Starlette, port: int) -> Iterator[str]:
    """The application on uvicorn, as anybody would serve it."""
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_config=None, ws="websockets-sansio"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.005)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(DEADLINE)


@pytest.fixture(params=["fastapi", "starlette"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    port = free_port()
    gateway = Gateway(echo, home=tmp_path, public_url=f"http://127.0.0.1:{port}{PREFIX}")
    if request.param == "fastapi":
        app: Starlette = FastAPI(lifespan=gateway.lifespan)
        app.mount(PREFIX, gateway)
    else:
        app = Starlette(routes=[Mount(PREFIX, app=gateway)], lifespan=gateway.lifespan)
    with running(app, port) as address:
        yield f"{address}{PREFIX}"


async def test_every_protocol_answers_below_the_path(url: str) -> None:
    for path in ("nlip", "ask", "mcp", "a2a", "acl"):
        protocol = {"ask": "nlweb"}.get(path, path)
        async with connect(f"{url}/{path}", protocol=protocol) as peer:
            assert "You said: hi" in (await peer.ask("hi")).text, path
    async with connect(f"{url.replace('http', 'ws', 1)}/nlip/ws") as peer:
        assert (await peer.ask("hi")).text == "You said: hi"


def test_cards_links_and_places_name_the_path(url: str) -> None:
    card = httpx2.get(f"{url}/.well-known/agent-card.json").json()
    assert all(item["url"].startswith(f"{url}/") for item in card["supportedInterfaces"])
    message = {"format": "text", "subformat": "english", "content": "hi"}
    accepted = httpx2.post(f"{url}/nlip", json=message, headers={"prefer": "respond-async"})
    assert accepted.status_code == 202 and accepted.headers["location"].startswith(f"{PREFIX}/nlip/tasks/")
    who = httpx2.get(f"{url}/who?query=").json()["results"]
    assert all(PREFIX in row["endpoint"] for row in who)
    page = httpx2.get(f"{url}/")
    assert page.status_code == 200 and 'src="web/app.js"' in page.text
    assert httpx2.get(f"{url}/web/app.js").status_code == 200


def test_a_mount_without_its_address_is_reported_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    gateway = Gateway(echo, home=tmp_path)
    app = Starlette(routes=[Mount("/here", app=gateway)], lifespan=gateway.lifespan)
    with caplog.at_level(logging.WARNING, "sabir"), running(app, free_port()) as address:
        for _ in range(2):
            assert httpx2.get(f"{address}/here/health").status_code == 200
    warnings = [record for record in caplog.records if "is mounted at /here" in record.getMessage()]
    assert len(warnings) == 1 and "public_url='https://your.host/here'" in warnings[0].getMessage()
