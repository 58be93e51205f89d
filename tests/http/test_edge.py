"""Every rule of the HTTP edge at every HTTP door, over real sockets (issue 11, C 8)."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import socket
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import httpx2
import pytest

from conftest import Served, serving
from deadline import DEADLINE
from edge_doors import DRIVERS, ELSEWHERE, DoorDriver
from edge_rules import NOT_READ, RULES, Rule, page
from sabir import Gateway
from sabir.agents.echo import echo
from sabir.guard import Quotas
from sabir.guard.identity.api_keys import ApiKeys
from sabir.protocols import registry
from sabir.server.settings import Serving
from sabir.stores.sqlite.store import SQLiteStore

ROOT = Path(__file__).resolve().parent.parent.parent
NUMBERS = count(1)
ADDRESSES = (f"127.0.{high}.{low}" for high in count(1) for low in range(1, 250))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A gateway that counts everybody: one request a second, five at once."""
    home = tmp_path_factory.mktemp("home")
    gateway = Gateway(echo, home=home, quotas=Quotas(rate_per_address=1.0, rate_per_caller=1000.0, burst=5))
    with serving(gateway) as one:
        yield one


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("proxied")
    quotas = Quotas(rate_per_address=1.0, burst=5)
    with serving(Gateway(echo, home=home, quotas=quotas, serving=Serving(behind_tls_proxy=True))) as one:
        yield one


class Client:
    """A client at one door, from an address of its own, so that it has an account of its own."""

    def __init__(self, served: Served, door: DoorDriver) -> None:
        self.served = served
        self.door = door
        self.address = next(ADDRESSES)
        transport = httpx2.HTTPTransport(local_address=self.address)
        self._http = httpx2.Client(base_url=served.url, transport=transport, trust_env=False)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def send(self, body: bytes | Iterator[bytes] = b"", method: str = "POST", **headers: str) -> httpx2.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self._http.request(
            method,
            self.door.path,
            content=body,
            headers={"content-type": "application/json", **self.door.headers, **named},
        )

    def raw(self, *pieces: bytes) -> bytes:
        """What comes back for these bytes until the connection is closed."""
        with socket.create_connection(
            (self.served.host, self.served.port), timeout=DEADLINE, source_address=(self.address, 0)
        ) as connection:
            for piece in pieces:
                connection.sendall(piece)
            return b"".join(iter(lambda: connection.recv(65536), b""))


Outcome = str
Try = Callable[[Client], Outcome]
TRIES: dict[str, Try] = {}


def tries(name: str) -> Callable[[Try], Try]:
    def register(function: Try) -> Try:
        TRIES[name] = function
        return function

    return register


def in_protocol(client: Client, answer: httpx2.Response) -> str:
    """The reason of an error, which is in the door's own protocol and repeats no text of Python or a library."""
    assert answer.headers["content-type"].startswith("application/json")
    reason = client.door.reason(answer.json())
    assert not re.search(r"codec|Traceback|msgspec|Exceeds the limit|line \d+ column|JSONDecode|'utf-8'", reason), (
        reason
    )
    return reason


@tries("malformed flood")
def _(client: Client) -> Outcome:
    statuses = [client.send(b"{not json").status_code for _ in range(15)]
    assert 429 not in statuses[:5] and set(statuses[7:]) == {429}, statuses
    over = client.send(b"{not json")
    assert "retry-after" in over.headers and "ratelimit" in over.headers
    in_protocol(client, over)
    return str(over.status_code)


@tries("compressed body")
def _(client: Client) -> Outcome:
    answer = client.send(gzip.compress(client.door.bytes()), content_encoding="gzip")
    assert "identity" in in_protocol(client, answer)
    return str(answer.status_code)


@tries("other charset")
def _(client: Client) -> Outcome:
    text = client.door.bytes().decode()
    answer = client.send(text.encode("utf-16"), content_type="application/json; charset=utf-16")
    assert "utf-8" in in_protocol(client, answer)
    return str(answer.status_code)


@tries("declared too long")
def _(client: Client) -> Outcome:
    lines = [f"POST {client.door.path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json"]
    lines += [f"{name}: {value}" for name, value in client.door.headers.items()]
    answer = client.raw("\r\n".join([*lines, "Content-Length: 2000000", "", ""]).encode())
    assert b"\r\nconnection: close\r\n" in answer.lower()
    return answer[9:12].decode()


@tries("too long")
def _(client: Client) -> Outcome:
    answer = client.send(iter([b'{"a": "'] + [b"x" * 65536] * 20))
    in_protocol(client, answer)
    return str(answer.status_code)


@tries("too deep")
def _(client: Client) -> Outcome:
    body = client.door.bytes(["deep"]).replace(b'["deep"]', b"[" * 200 + b"]" * 200)
    answer = client.send(body)
    assert "nesting" in in_protocol(client, answer)
    return str(answer.status_code)


@tries("too many values")
def _(client: Client) -> Outcome:
    answer = client.send(client.door.bytes([[]] * 50_000))
    assert "values" in in_protocol(client, answer)
    return str(answer.status_code)


@tries("not JSON")
def _(client: Client) -> Outcome:
    answer = client.send(b'{"a": nonsense}')
    assert re.search(r"(byte|character|line) \d", in_protocol(client, answer))
    return str(answer.status_code)


@tries("not UTF-8")
def _(client: Client) -> Outcome:
    answer = client.send(client.door.bytes("caf?").replace(b"caf?", b"caf\xe9"))
    assert "UTF-8" in in_protocol(client, answer)
    return str(answer.status_code)


@tries("huge number")
def _(client: Client) -> Outcome:
    answer = client.send(client.door.bytes([12345]).replace(b"12345", b"9" * 10_000))
    in_protocol(client, answer)
    return "4xx" if 400 <= answer.status_code < 500 else str(answer.status_code)


@tries("wrong method")
def _(client: Client) -> Outcome:
    answer = client.send(method="PATCH")
    assert "POST" in answer.headers["allow"]
    return str(answer.status_code)


@tries("long key")
def _(client: Client) -> Outcome:
    answer = client.send(client.door.bytes(), idempotency_key="k" * 257)
    assert "256" in in_protocol(client, answer)
    return str(answer.status_code)


@tries("reused key")
def _(client: Client) -> Outcome:
    key = _key(client.served)
    proven = {"authorization": f"Bearer {key}", "idempotency_key": "k" * 256}
    first = client.send(client.door.bytes("first question"), **proven)
    again = client.send(client.door.bytes("first question"), **proven)
    other = client.send(client.door.bytes("second question"), **proven)
    assert first.status_code == again.status_code == 200 and "first question" in again.text
    in_protocol(client, other)
    return str(other.status_code)


@tries("cross-site")
def _(client: Client) -> Outcome:
    for method in ("GET", "POST"):
        answer = client.send(method=method, sec_fetch_site="cross-site")
        assert answer.status_code == 403 and answer.json()["messagetype"] == "error"
    for site in ("same-origin", "same-site", "none"):
        assert client.send(method="GET", sec_fetch_site=site).status_code != 403
    return "403"


@tries("no stream")
def _(client: Client) -> Outcome:
    body = client.door.body("hello")
    body.pop("prefer", None)  # of NLWeb; it would override the header
    for accept in ("application/json, text/event-stream;q=0", "*/*, text/event-stream;q=0", "*/*, text/*; q=0.0"):
        answer = client.send(json.dumps(body).encode(), accept=accept)
        assert answer.is_success
        if not answer.headers["content-type"].endswith("json"):
            return f"a stream for {accept}"
    return "JSON"


@tries("safe headers")
def _(client: Client) -> Outcome:
    for body in (client.door.bytes(), b"{not json"):
        answer = client.send(body)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "no-store" in answer.headers["cache-control"]
    return "yes"


FORWARDED = ("203.0.113.7:{}", "203.0.113.7, 203.0.113.7:{}", '"203.0.113.7:{}"', "junk-{}", "[2001:db8::7]:{}")


@tries("proxy port")
def _(client: Client) -> Outcome:
    statuses = {}
    for shown in FORWARDED:
        sent = [client.send(method="PATCH", x_forwarded_for=shown.format(port)) for port in range(1000, 1015)]
        statuses[shown] = sent[-1].status_code
    assert set(statuses.values()) == {429}, statuses
    return "429"


def _key(served: Served) -> str:
    """An API key, made as ``sabir keys add`` makes it: beside the running gateway."""

    async def add() -> str:
        store = SQLiteStore(Path(served.gateway.home) / "sabir.db")
        await store.open()
        try:
            return (await ApiKeys(store).add(f"caller {next(NUMBERS)}"))[1]
        finally:
            await store.close()

    return asyncio.run(add())


CELLS = [pytest.param(rule, door, id=f"{rule.name}, {door.name}") for rule in RULES for door in DRIVERS]


@pytest.mark.parametrize(("rule", "door"), CELLS)
def test_every_rule_holds_at_every_door(request: pytest.FixtureRequest, rule: Rule, door: DoorDriver) -> None:
    expected = rule.at(door.name)
    if expected == NOT_READ:
        return
    served: Served = request.getfixturevalue("proxied" if rule.name == "proxy port" else "served")
    with Client(served, door) as client:
        assert TRIES[rule.name](client) in expected.split(" or ")


GETS = (
    "/health",
    "/health/live",
    "/health/ready",
    "/.well-known/nlip",
    "/.well-known/agent-card.json",
    "/openapi.json",
)


@pytest.mark.parametrize("path", [*GETS, "/sites", "/who?query=x", "/nowhere"])
def test_json_that_is_read_by_get_is_not_guessed_at(proxied: Served, path: str) -> None:
    answer = httpx2.get(proxied.url + path, headers={"x-forwarded-for": next(ADDRESSES)}, trust_env=False)
    assert answer.headers["content-type"].startswith("application/json")
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_every_registered_door_is_in_the_table() -> None:
    known = {driver.name.partition(" ")[0] for driver in DRIVERS} | ELSEWHERE.keys()
    assert set(registry.doors()) <= known


def test_every_rule_is_tried() -> None:
    assert set(TRIES) == {rule.name for rule in RULES}


def test_the_page_on_the_edge_is_up_to_date() -> None:
    assert (ROOT / "docs" / "edge.md").read_text(encoding="utf-8") == page(), "run make docs"
