"""Behind a proxy, the public address comes from its headers where no ``public_url`` is set."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from free_ports import free_port
from sabir import Gateway, agent
from sabir.gateway.banner import url_of
from sabir.gateway.forwarding import forwarded_url
from sabir.server.settings import Serving
from sabir.turn import Turn

BEHIND = {"X-Forwarded-Host": "agents.example", "X-Forwarded-Proto": "https"}


@agent(description="Repeats what it hears")
async def echo(turn: Turn) -> str:
    return f"You said: {turn.text}"


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    behind = Serving(port=free_port(), home=str(tmp_path), behind_tls_proxy=True)
    async with Gateway(echo, home=tmp_path, serving=behind) as made:
        yield made


async def get(gateway: Gateway, path: str, **headers: str) -> str:
    async with httpx2.AsyncClient() as client:
        response = await client.get(f"http://127.0.0.1:{gateway.serving.port}{path}", headers=headers)
    assert response.status_code == 200
    return response.text


@pytest.mark.parametrize("path", ["/.well-known/agent-card.json", "/.well-known/nlip", "/openapi.json"])
async def test_cards_name_the_address_that_the_proxy_names(gateway: Gateway, path: str) -> None:
    seen = await get(gateway, path, **BEHIND)
    assert "https://agents.example" in seen and "127.0.0.1" not in seen
    other = await get(gateway, path, **{**BEHIND, "X-Forwarded-Host": "other.example:8443"})
    assert "https://other.example:8443" in other and "agents.example" not in other


async def test_a_false_header_of_one_caller_does_not_reach_another(gateway: Gateway) -> None:
    await get(gateway, "/.well-known/agent-card.json", **{**BEHIND, "X-Forwarded-Host": "evil.example"})
    assert "evil" not in await get(gateway, "/.well-known/agent-card.json", **BEHIND)
    assert "evil" not in await get(gateway, "/.well-known/agent-card.json")
    assert "evil" not in gateway.services.public_url


async def test_an_upload_place_and_control_name_it_too(gateway: Gateway) -> None:
    message = {"messagetype": "control", "format": "text", "subformat": "english", "content": "I want to upload a file"}
    async with httpx2.AsyncClient() as client:
        place = f"http://127.0.0.1:{gateway.serving.port}/nlip"
        reply = await client.post(place, json=message, headers=BEHIND)
    assert "https://agents.example/nlip/upload/" in reply.text, reply.text


async def test_a_proxy_that_does_not_say_is_warned_of_once(gateway: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "sabir")
    for _ in range(2):
        assert url_of(gateway.serving) in await get(gateway, "/.well-known/agent-card.json")
    warnings = [record.getMessage() for record in caplog.records if "public_url" in record.getMessage()]
    assert len(warnings) == 1 and "X-Forwarded-Host" in warnings[0]


@pytest.mark.parametrize(
    ("options", "headers"),
    [
        ({"public_url": "https://fixed.example"}, BEHIND),
        ({"hosts": ["fixed.example"]}, {**BEHIND, "X-Forwarded-Host": "evil.example", "Host": "fixed.example"}),
    ],
)
async def test_what_is_configured_wins(tmp_path: Path, options: dict[str, str], headers: dict[str, str]) -> None:
    behind = Serving(port=free_port(), home=str(tmp_path), behind_tls_proxy=True)
    async with Gateway(echo, home=tmp_path, serving=behind, **options) as made:  # type: ignore[arg-type]
        card = await get(made, "/.well-known/agent-card.json", **headers)
    assert "evil" not in card and "agents.example" not in card


async def test_without_a_proxy_the_headers_are_not_trusted(tmp_path: Path) -> None:
    async with Gateway(echo, home=tmp_path, serving=Serving(port=free_port(), home=str(tmp_path))) as made:
        assert "agents.example" not in await get(made, "/.well-known/agent-card.json", **BEHIND)


async def test_an_address_that_others_cannot_reach_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "sabir")
    listening = Serving(host="0.0.0.0", port=free_port(), home=str(tmp_path), tls=Serving().tls.__class__(dev=True))
    async with Gateway(echo, home=tmp_path, serving=listening):
        pass
    assert any("which other machines cannot reach: set public_url" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize(
    ("headers", "url"),
    [
        ({b"x-forwarded-host": b"a.example", b"x-forwarded-proto": b"https"}, "https://a.example"),
        ({b"x-forwarded-host": b"evil.example, a.example"}, "https://a.example"),
        ({b"host": b"A.example:8443"}, "https://a.example:8443"),
        ({b"x-forwarded-host": b"a.example", b"x-forwarded-proto": b"http"}, "http://a.example"),
        ({b"x-forwarded-host": b"a.example/x?y"}, None),
        ({b"x-forwarded-host": b'a.example"><script>'}, None),
        ({b"x-forwarded-host": b"a.example", b"x-forwarded-proto": b"javascript"}, None),
        ({b"host": b"127.0.0.1:8080"}, None),
        ({b"host": b"10.1.2.3"}, None),
        ({b"host": b"[::1]:8080"}, None),
        ({b"host": b"backend"}, None),
        ({b"host": b"gateway.internal"}, None),
        ({}, None),
    ],
)
def test_an_address_is_read_from_headers(headers: dict[bytes, bytes], url: str | None) -> None:
    assert forwarded_url(headers) == url


def test_the_banner_names_the_public_address(tmp_path: Path) -> None:
    made = Gateway(echo, home=tmp_path, public_url="https://agents.example/team")
    lines = made.announcement(made.serving).lines()
    assert lines[0] == "Sabir is listening on http://127.0.0.1:8080, public at https://agents.example/team"
    assert any(line.endswith("  https://agents.example/team/nlip") for line in lines)
    assert any(line.endswith("  wss://agents.example/team/nlip/ws") for line in lines)
    assert lines[-2] == "Open: http://127.0.0.1:8080/"  # as reached from this machine
    assert lines[-1].startswith("Try:  ") and "http://127.0.0.1:8080" in lines[-1]
