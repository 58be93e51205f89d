"""A defect of a door is reported in NLIP, and reveals no internals."""

from __future__ import annotations

import http.client
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import httpx2
import pytest
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from conftest import Serve
from sabir import Gateway
from sabir.agents.echo import echo
from sabir.http.door import GatewayServices


class Broken:
    """A door with a defect on both of its ways in."""

    name = "broken"

    def __init__(self, services: GatewayServices) -> None:
        self.services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raise RuntimeError("the password is hunter2")

    def raw(self) -> Mapping[str, ASGIApp]:
        return {"/broken": self}

    def routes(self) -> Sequence[BaseRoute]:
        async def fails(request: object) -> None:
            raise RuntimeError("the password is hunter2")

        return [Route("/broken/too", fails)]

    def addresses(self) -> Sequence[tuple[str, str]]:
        return []

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


@pytest.mark.parametrize("path", ["/", "/health", "/health/live", "/.well-known/nlip"])
def test_a_method_that_a_path_does_not_take_is_reported_in_nlip(serve: Serve, home: Path, path: str) -> None:
    response = httpx2.post(serve(Gateway(echo, home=home)).url + path, content=b"{}")
    assert response.status_code == 405
    assert "GET" in response.headers["allow"]
    assert response.json() == {
        "format": "text",
        "subformat": "english",
        "content": "this path takes GET, HEAD, not POST",
        "messagetype": "error",
    }


def test_a_defect_of_a_door_is_reported_in_nlip_and_shows_nothing(serve: Serve, home: Path) -> None:
    url = serve(Gateway(echo, home=home, extra_doors=[Broken])).url
    for path in ("/broken", "/broken/too"):
        response = httpx2.get(url + path)
        assert response.status_code == 500
        assert response.json()["messagetype"] == "error"
        assert "hunter2" not in response.text
    assert httpx2.get(url + "/health/ready").status_code == 200


@pytest.mark.parametrize("path", ["/broken", "/broken/too"])
def test_the_connection_of_a_request_that_met_a_defect_takes_the_next(serve: Serve, home: Path, path: str) -> None:
    served = serve(Gateway(echo, home=home, extra_doors=[Broken]))
    with closing(http.client.HTTPConnection(served.host, served.port, timeout=10)) as connection:
        for asked, status in ((path, 500), ("/health/live", 200), (path, 500), ("/health/live", 200)):
            connection.request("GET", asked)
            with connection.getresponse() as answer:
                assert (answer.status, answer.getheader("connection")) == (status, None)
                answer.read()
