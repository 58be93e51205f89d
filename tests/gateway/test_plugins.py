"""Parts that installed packages register: agents, filters and stores by their names, protocols by their objects."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sabir import plugins
from sabir.config.agents import build_agents
from sabir.config.build import gateway_of
from sabir.config.load import settings_of
from sabir.errors import ConfigError
from sabir.guard.build import filters_of
from sabir.message import Message
from sabir.protocols import registry
from sabir.stores import open_store
from sabir.stores.memory import MemoryStore
from sabir.testing import ask
from sabir.turn import Caller

MODULE = """
from sabir import agent
from sabir.message import Message
from sabir.protocols.protocol import Protocol
from sabir.stores.memory import MemoryStore

@agent(description="Says what the weather is")
async def weather(turn):
    return "fine"

def dice(sides: int) -> int:
    "Rolls a die."
    return sides

class Shout:
    def __init__(self, ending="!"):
        self.ending = ending
    async def inbound(self, message, caller):
        return message
    async def outbound(self, message, caller):
        return Message.text(message.text.upper() + self.ending)

class Attic(MemoryStore):
    def __init__(self, address, *, durability="process"):
        super().__init__()
        self.address = address

semaphore = Protocol(name="semaphore", title="Semaphore")
"""
ENTRY_POINTS = """
[sabir.agents]
weather = plugged:weather
[sabir.tools]
dice = plugged:dice
lost = plugged:no_such_thing
[sabir.filters]
shout = plugged:Shout
[sabir.stores]
attic = plugged:Attic
[sabir.protocols]
semaphore = plugged:semaphore
broken = no_such_module:thing
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package on the path with entry points of its own, as pip would leave it."""
    (tmp_path / "plugged.py").write_text(MODULE)
    info = tmp_path / "plugged-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    registry.protocols.cache_clear()
    yield
    registry.protocols.cache_clear()
    sys.modules.pop("plugged", None)


@pytest.mark.usefixtures("installed")
def test_an_agent_of_a_package_is_used_by_its_name(tmp_path: Path) -> None:
    settings = settings_of({"agents": [{"id": "local", "use": "weather"}], "home": str(tmp_path / "home")})
    assert gateway_of(settings).agents["local"].card.description == "Says what the weather is"


@pytest.mark.usefixtures("installed")
async def test_a_filter_of_a_package_is_used_by_its_name_with_its_options() -> None:
    filters = filters_of([{"shout": {"ending": "?"}}])
    said = await filters.outbound(Message.text("hello"), Caller(id="a"))
    assert said.text == "HELLO?"
    with pytest.raises(ConfigError, match=r"unknown key filters\[0\]\.shout\.colour: choose from ending"):
        filters_of([{"shout": {"colour": "red"}}])


@pytest.mark.usefixtures("installed")
def test_a_store_of_a_package_is_used_by_its_scheme() -> None:
    store = open_store("attic://upstairs")
    assert isinstance(store, MemoryStore)
    assert store.address == "attic://upstairs"  # type: ignore[attr-defined]


@pytest.mark.usefixtures("installed")
def test_a_protocol_of_a_package_is_known_and_one_that_cannot_be_loaded_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert registry.protocols()["semaphore"].title == "Semaphore"
    assert "'broken' (sabir.protocols: no_such_module:thing) cannot be loaded" in caplog.text
    assert "broken" not in registry.protocols()


@pytest.mark.usefixtures("installed")
def test_what_is_not_registered_is_named_with_what_is() -> None:
    assert plugins.find(plugins.AGENTS, "wether") is None
    with pytest.raises(ConfigError, match=r"expected module:name or one of echo, weather, not 'wether'"):
        gateway_of(settings_of({"agents": [{"id": "local", "use": "wether"}]}))
    with pytest.raises(ConfigError, match=r"there is no filter 'whisper'; choose from .*shout"):
        filters_of(["whisper"])


@pytest.mark.usefixtures("installed")
async def test_a_tool_is_used_by_its_name_and_a_broken_one_is_reported_at_the_start() -> None:
    call = {"tool_calls": [{"name": "dice", "arguments": {"sides": 6}}]}
    player = {"id": "player", "backend": {"type": "mock", "script": [call, "Rolled."]}, "tools": ["dice"]}
    [made] = build_agents(settings_of({"agents": [player]})).agents
    answer = await ask(made, "Roll")
    assert answer.text == "Rolled." and answer.tools == ("dice",)
    with pytest.raises(ConfigError, match=r"plugin 'lost' .*cannot be loaded"):
        build_agents(settings_of({"agents": [{**player, "tools": ["lost"]}]}))
    with pytest.raises(ConfigError, match=r"expected module:function or one of .*dice"):
        build_agents(settings_of({"agents": [{**player, "tools": ["dise"]}]}))
