"""Every deployment model of the digest, as the example that shows it: DEP-CS, -PROXY, -MID, -FED and -BACK."""

from __future__ import annotations

import asyncio
import importlib.util
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote

import pytest

from conftest import Serve
from sabir import Agent, Gateway, Message, Turn, agent, connect
from sabir.message import binary_part

HERE = Path(__file__).resolve().parents[3] / "examples" / "deployments"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", HERE / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_example_has_its_test() -> None:
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert {path.stem for path in HERE.glob("*.py")} <= tested


async def test_client_server(serve: Serve, home: Path) -> None:
    module = example("client_server")
    served = serve(module.gateway(str(home)))
    assert await module.talk(served.url) == ["one (1)", "two (2)", "three (3)"]


async def test_proxy(serve: Serve, home: Path) -> None:
    async def rest(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = (await reader.readuntil(b"\r\n\r\n")).decode().split()[1]
        known = "Geneva" in unquote(line)
        body = b'{"sky": "sunny", "celsius": 21}' if known else b"{}"
        head = f"HTTP/1.1 {200 if known else 404} X\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        writer.write(head.encode() + body)
        writer.close()

    service = await asyncio.start_server(rest, "127.0.0.1", 0)
    port = service.sockets[0].getsockname()[1]
    served = serve(example("proxy").gateway(f"http://127.0.0.1:{port}", str(home)))
    async with connect(served.url) as peer:
        reply = await peer.ask("How is the weather in Geneva?")
        assert reply.first.content == "In Geneva it is sunny, 21 degrees."
        details = reply.labelled("weather")
        assert details is not None and details.value["celsius"] == 21
        assert (await peer.ask("What is the weather?")).first.content == "Which city?"
        assert (await peer.ask("Atlantis")).text == "I do not know Atlantis."
    service.close()
    await service.wait_closed()


async def test_reverse_proxy(serve: Serve, home: Path) -> None:
    def desk_of(name: str) -> Agent:
        @agent(name="desk")
        async def desk(turn: Turn) -> str:
            return f"{name} heard: {turn.text}"

        return desk

    urls = {name: serve(Gateway(desk_of(name), home=home / name)).url for name in ("sales", "support")}
    served = serve(example("reverse_proxy").gateway(urls, str(home / "front")))
    for name in urls:
        async with connect(f"{served.url}/nlip/{name}") as peer:
            assert (await peer.ask("hi")).text == f"{name} heard: hi"
            assert "to no one else" in (await peer.control("What are your policies?")).text


async def test_middle_agent(serve: Serve, home: Path) -> None:
    seen: list[Turn] = []

    @agent(name="expert")
    async def expert(turn: Turn) -> str:
        seen.append(turn)
        return "all is well"

    far = serve(Gateway(expert, home=home / "far"))
    served = serve(example("middle_agent").gateway(far.url, str(home / "middle")))
    async with connect(served.url) as peer:
        assert (await peer.ask("Is account 12345678 safe?")).text == "The expert says: all is well"
    assert seen[0].text == "Is account [number] safe?"


async def test_federator(serve: Serve, home: Path) -> None:
    @agent(name="shop")
    async def shop(turn: Turn) -> str:
        return "A lamp is 19 EUR."

    far = serve(Gateway(shop, home=home / "far"))
    shops = {"far-shop": far.url, "closed-shop": "http://127.0.0.1:9"}
    served = serve(example("federator").gateway(shops, str(home / "front")))
    async with connect(served.url) as peer:
        reply = await peer.ask("How much is a lamp?")
    assert reply.text.startswith("far-shop is cheapest, at 19.")
    sources = reply.labelled("sources")
    assert sources is not None and list(sources.value["failed"]) == ["closed-shop"]


async def test_back_level(serve: Serve, home: Path) -> None:
    module = example("back_level")
    served = serve(module.gateway(str(home)))
    async with connect(f"{served.url}/nlip/voice") as peer:
        reply = await peer.ask(Message.of(binary_part(b"lights on please", "audio/wav")))
        speech = reply.labelled("speech")
        assert speech is not None and speech.content == b"The lights are on."
    part = await module.only_json(served.url)
    assert (part.format, part.kind, part.value["text"]) == ("structured", "json", "The lights are on.")


@agent(name="adder", description="Adds numbers")
async def adder(turn: Turn) -> str:
    return f"The sum is {sum(int(word) for word in turn.text.split() if word.isdigit())}"


async def test_mode_a(serve: Serve, home: Path) -> None:  # TR-9
    pytest.importorskip("mcp")
    vendor = serve(Gateway(adder, home=home / "vendor"))  # its MCP door is the vendor's server
    served = serve(example("mode_a").gateway(f"{vendor.url}/mcp", str(home / "front")))
    async with connect(f"{served.url}/nlip") as peer:
        assert "The sum is 5" in (await peer.ask("2 and 3")).text


async def test_mode_b(serve: Serve, home: Path) -> None:  # TR-9
    pytest.importorskip("mcp")
    pytest.importorskip("a2a")
    module = example("mode_b")
    vendor = serve(Gateway(adder, home=home / "vendor"))
    far = serve(module.far(f"{vendor.url}/mcp", str(home / "far")))
    near = serve(module.near(far.url, str(home / "near")))
    async with connect(near.url, protocol="a2a") as client:
        assert "The sum is 9" in (await client.ask("4 and 5")).text
