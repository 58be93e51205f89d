"""A name that points outside when it is checked and inside when it is used gains nothing at a running gateway."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from conftest import Serve
from deadline import DEADLINE
from guard_site import Site
from sabir.agents.echo import echo
from sabir.gateway.gateway import Gateway
from sabir.guard.egress.addresses import Outbound, OutboundRules
from sabir.protocols.a2a.door.routes import A2aDoor
from suites.security.attackers import Caller

OUTSIDE, INSIDE = "127.0.0.1", "127.0.0.66"  # the rules of these gateways call only the first one outside
CHECKS = 2  # how often a webhook is looked up when it is given, before anything is sent


@pytest.fixture
def outside() -> Iterator[Site]:
    """Where the webhook seems to be."""
    site = Site()
    site.says("/hook")
    yield site
    site.close()


@pytest.fixture
def trap(outside: Site) -> Iterator[socket.socket]:
    """Where nothing may connect to: on the same port, inside."""
    with socket.create_server((INSIDE, outside.port)) as listening:
        listening.setblocking(False)
        yield listening


class Names:
    """A name server that says something else after so many questions."""

    def __init__(self, gateway: Gateway, outside: int) -> None:
        self.asked: list[str] = []
        self._outside = outside
        (door,) = [item for item in gateway.doors if isinstance(item, A2aDoor)]
        door.webhooks._outbound = Outbound(OutboundRules(allow=(OUTSIDE,)), resolve=self.resolve)

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        return [OUTSIDE if len(self.asked) <= self._outside else INSIDE]


def until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + DEADLINE
    while not holds():
        assert time.monotonic() < end, "it did not come to be in time"
        time.sleep(0.01)


def told_at(caller: Caller, url: str) -> dict[str, object]:
    """Ask for something whose progress goes to a webhook."""
    call = {
        "message": {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "hi"}]},
        "configuration": {"taskPushNotificationConfig": {"url": url}, "returnImmediately": True},
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": call}
    answer: dict[str, object] = caller.http.post("/a2a", json=body, headers={"a2a-version": "1.0"}).json()
    return answer


def untouched(trap: socket.socket) -> bool:
    try:
        trap.accept()[0].close()
    except BlockingIOError:
        return True
    return False


def test_a_webhook_whose_name_moves_inside_after_the_check_is_not_called(
    serve: Serve, home: Path, outside: Site, trap: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    gateway = Gateway(echo, home=home)
    names = Names(gateway, outside=CHECKS)
    with Caller(serve(gateway).url) as caller:
        assert "result" in told_at(caller, f"http://rebind.example:{outside.port}/hook")  # it was outside then
        until(lambda: re.search("Webhook .* stopped", caplog.text))
    assert "not on the open internet" in caplog.text
    assert len(names.asked) > CHECKS
    assert untouched(trap) and outside.heard == []


def test_the_connection_goes_to_the_address_that_was_checked(
    serve: Serve, home: Path, outside: Site, trap: socket.socket
) -> None:
    """A name is looked up once for each connection: what a second look would say does not matter."""
    gateway = Gateway(echo, home=home)
    names = Names(gateway, outside=CHECKS + 1)
    with Caller(serve(gateway).url) as caller:
        assert "result" in told_at(caller, f"http://rebind.example:{outside.port}/hook")
        until(lambda: outside.heard)
    assert len(names.asked) > CHECKS
    assert {headers["host"] for _, headers, _ in outside.heard} == {f"rebind.example:{outside.port}"}
    assert untouched(trap)
