"""Prompts and resources of servers behind the gateway: together at ``/mcp``, and with their own names at their own.

Defects of issue 11, item E 18.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from conftest import Served
from mcp_servers import ways
from mcp_servers.nursery import Nursery
from mcp_servers.ways import WAYS, client, words
from sabir.guard import Rights, Rule

HERE = "sabir://servers/memory/"
MODES = ("legacy", "2026-07-28")
TOGETHER = [name for name, (_, path, _) in WAYS.items() if path == "/mcp"]


@pytest.fixture(params=TOGETHER)
def served(request: pytest.FixtureRequest, tmp_path: Path, memory_server: str, programs: Nursery) -> Iterator[Served]:
    with ways.way(request.param, tmp_path, memory_server, programs, version="auto") as (made, _, _):
        yield made


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_prompts_are_listed_and_got_with_their_roles(served: Served, mode: str) -> None:
    async with client(served, "/mcp", mode=mode) as made:
        (greet,) = (await made.list_prompts()).prompts
        assert (greet.name, greet.description) == ("memory-greet", "Greets")
        got = await made.get_prompt("memory-greet", {"who": "Ada"})
        assert [(message.role, message.content.text) for message in got.messages] == [  # type: ignore[union-attr]
            ("user", "Greet Ada"),
            ("assistant", "Hello, Ada!"),
        ]
        completed = await made.complete(types.PromptReference(name="memory-greet"), {"name": "who", "value": "A"})
        assert completed.completion.values == ["Ada"]
        with pytest.raises(MCPError, match="there is no prompt 'greet' here"):
            await made.get_prompt("greet", {"who": "Ada"})


async def test_resources_are_listed_and_read(served: Served, mode: str) -> None:
    async with client(served, "/mcp", mode=mode) as made:
        assert f"{HERE}memo://1" in [resource.uri for resource in (await made.list_resources()).resources]
        templates = [template.uri_template for template in (await made.list_resource_templates()).resource_templates]
        assert f"{HERE}memo://{{id}}" in templates
        for uri in (f"{HERE}memo://1", "memo://1"):  # the second, because only one server has it
            (contents,) = (await made.read_resource(uri)).contents
            assert (contents.uri, contents.text) == (uri, "memo 1")  # type: ignore[union-attr]
        reference = types.ResourceTemplateReference(uri=f"{HERE}memo://{{id}}")
        assert (await made.complete(reference, {"name": "id", "value": "A"})).completion.values == ["Ada"]
        for uri in ("other://1", "sabir://servers/nobody/memo://1"):
            with pytest.raises(MCPError, match="resource not found"):
                await made.read_resource(uri)


async def test_links_in_results_can_be_read(served: Served, mode: str) -> None:
    async with client(served, "/mcp", mode=mode) as made:
        link, memo = (await made.call_tool("memory-link", {})).content
        assert isinstance(link, types.ResourceLink)
        assert isinstance(memo, types.EmbeddedResource)
        for uri, text in ((link.uri, "memo 2"), (memo.resource.uri, "memo 3")):
            (contents,) = (await made.read_resource(uri)).contents
            assert contents.text == text  # type: ignore[union-attr]


async def test_rights_hold_for_prompts_and_resources(tmp_path: Path, memory_server: str, programs: Nursery) -> None:
    rules = (
        Rule(roles=("id:ada",), agents=("memory", "echo")),
        Rule(roles=("id:bob",), agents=("memory",), skills=("recall",)),
        Rule(roles=("anonymous",), agents=("echo",)),
    )
    home = tmp_path
    with ways.way("a tool at /mcp, over HTTP", home, memory_server, programs, rights=Rights(rules)) as (served, _, _):
        for who, sees in (("ada", True), ("bob", False), ("", False)):
            async with client(served, "/mcp", who) as made:
                assert bool((await made.list_prompts()).prompts) is sees
                templates = [
                    template.uri_template for template in (await made.list_resource_templates()).resource_templates
                ]
                assert any(template.startswith(HERE) for template in templates) is sees
                if not sees:
                    with pytest.raises(MCPError):
                        await made.get_prompt("memory-greet", {"who": "Ada"})
                    with pytest.raises(MCPError):
                        await made.read_resource(f"{HERE}memo://1")
        lines = [chained.line for chained in await served.gateway.store.audit_lines()]
    assert not [line for line in lines if line.kind == "relay" and line.outcome == "ok"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", [name for name, (_, path, _) in WAYS.items() if path == "/mcp/memory"])
async def test_at_its_own_address_a_server_keeps_its_names(
    tmp_path: Path, memory_server: str, programs: Nursery, name: str, mode: str
) -> None:
    """Also where the server speaks only versions that are older than its client's."""
    with ways.way(name, tmp_path, memory_server, programs, version="legacy") as (served, path, _):
        async with client(served, path, mode=mode) as made:
            names = [tool.name for tool in (await made.list_tools()).tools]
            assert {"roots", "odd.name", "echo"} <= set(names)
            assert words(await made.call_tool("echo", {"text": "hello"})) == "hello"
            assert [prompt.name for prompt in (await made.list_prompts()).prompts] == ["greet"]
            assert [resource.uri for resource in (await made.list_resources()).resources] == ["memo://1"]
            contents: Any = (await made.read_resource("memo://7")).contents[0]
            assert (contents.uri, contents.text) == ("memo://7", "memo 7")
            (link, _) = (await made.call_tool("link", {})).content
            assert link.uri == "memo://2"  # type: ignore[union-attr]
