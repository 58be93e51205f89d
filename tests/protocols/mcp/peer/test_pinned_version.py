"""``agents: [{peer: …, version: …}]``: the version in which a server is spoken to (issue 11, E 20)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mcp_types as types
import pytest

from conftest import serving
from mcp_servers.ways import client, words
from sabir.config.build import gateway_of
from sabir.config.load import load
from sabir.errors import ConfigError
from sabir.gateway.gateway import Gateway


async def ada(context: Any, params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"name": "Ada"})


def configured(folder: Path, url: str, *lines: str) -> Gateway:
    config = folder / "sabir.yaml"
    agent = "".join(f"    {line}\n" for line in (f"peer: {url}", *lines))
    config.write_text(f"home: {folder}\nagents:\n  - id: memory\n{agent}")
    return gateway_of(load(config), config)


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
@pytest.mark.parametrize(
    ("lines", "said"),
    [((), "Hello, stranger"), (("version: 2025-11-25",), "Hello, Ada"), (("version: '2025-11-25'",), "Hello, Ada")],
)
async def test_a_tool_that_catches_the_error_can_ask_where_its_version_is_pinned(
    tmp_path: Path, memory_server: str, lines: tuple[str, ...], said: str, mode: str
) -> None:
    """Without the pin nobody can know: its server speaks both, and the tool hides that it could not ask."""
    with serving(configured(tmp_path, memory_server, *lines)) as served:
        async with client(served, "/mcp", mode=mode, elicitation_callback=ada) as made:
            assert words(await made.call_tool("memory-careful", {})) == said


@pytest.mark.parametrize(
    ("url", "lines", "expected"),
    [
        ("http://127.0.0.1:1/mcp", ("version: 2020-01-01",), "version '2020-01-01' of MCP is unknown"),
        ("http://127.0.0.1:1/nlip", ("version: 2025-11-25",), "version is for MCP servers"),
        ("http://127.0.0.1:1", ("version: 2025-11-25",), "version is for MCP servers"),
    ],
)
def test_a_version_that_cannot_be_is_rejected(tmp_path: Path, url: str, lines: tuple[str, ...], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        configured(tmp_path, url, *lines)
