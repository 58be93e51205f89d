"""No message starts a program, and no page outside the web is opened for a log-in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conftest import Serve
from sabir import Turn, agent
from sabir.errors import Unauthenticated
from sabir.gateway.gateway import Gateway
from sabir.protocols.mcp.peer.oauth import oauth
from suites.security.attackers import Caller, say


@agent(description="Repeats")
async def parrot(turn: Turn) -> str:
    return turn.text or "nothing"


@pytest.mark.parametrize("control", [False, True], ids=["data", "control"])
def test_a_program_named_in_a_message_is_not_started(serve: Serve, tmp_path: Path, control: bool) -> None:
    """Peers over stdio come from the configuration only."""
    mark = tmp_path / "started"
    with Caller(serve(Gateway(parrot, home=tmp_path / "home")).url) as caller:
        for address in (f"stdio:touch {mark}", f"stdio:///bin/touch {mark}", f"file:///bin/touch%20{mark}"):
            named = {"format": "structured", "subformat": "uri", "content": address}
            assert caller.ask(say("Connect to this", named, control=control)).status_code < 500
    assert not mark.exists()


@pytest.mark.parametrize("url", ["javascript:alert(1)", "file:///etc/passwd", "data:text/html,x", "ms-settings:x", "x"])
async def test_an_authorization_page_that_is_not_on_the_web_is_not_opened(url: str) -> None:
    visited: list[str] = []

    async def visit(page: str) -> str:
        visited.append(page)
        return page

    provider: Any = await oauth("https://tools.example.com/mcp", visit)
    with pytest.raises(Unauthenticated, match="not on the web"):
        await provider.context.redirect_handler(url)
    assert visited == []
