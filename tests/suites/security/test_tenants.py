"""What a running gateway keeps for all (an index, lists, connections, metrics) never reveals another caller's data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from conftest import Served, serving
from sabir.config.build import gateway_of
from sabir.config.load import settings_of
from suites.security.attackers import Caller, add_key, say, tokens
from suites.security.test_doors import mcp, nlweb

RIGHTS = [
    {"roles": ["blue"], "agents": ["blue.example", "echo"]},
    {"roles": ["red"], "agents": ["red.example", "echo"]},
]


def site(folder: Path, name: str, hotel: str) -> dict[str, Any]:
    path = folder / f"{name}.jsonl"
    path.write_text(
        json.dumps({"@type": "Hotel", "@id": f"urn:{hotel}", "name": f"{hotel} hotel", "description": "quiet"})
    )
    return {"name": name, "source": str(path)}


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Two tenants, each with a site of its own in the same index."""
    folder = tmp_path_factory.mktemp("tenants")
    settings = {
        "home": str(folder / "home"),
        "agents": [{"id": "echo", "use": "echo"}],
        "sites": [site(folder, "blue.example", "Heron"), site(folder, "red.example", "Stork")],
        "rights": RIGHTS,
        "observe": {"metrics": True},
    }
    with serving(gateway_of(settings_of(settings))) as served:
        yield served


@pytest.fixture(scope="module")
def blue(services: Served) -> Iterator[Caller]:
    with Caller(services.url, add_key(services.gateway.home, "bluebeard", "blue")) as caller:
        yield caller


@pytest.fixture(scope="module")
def red(services: Served) -> Iterator[Caller]:
    with Caller(services.url, add_key(services.gateway.home, "redbreast", "red")) as caller:
        yield caller


TENANTS = {"blue.example": "Heron hotel", "red.example": "Stork hotel"}


def test_one_index_shows_each_tenant_its_own_site(blue: Caller, red: Caller) -> None:
    for caller, own, other in ((blue, "blue.example", "red.example"), (red, "red.example", "blue.example")) * 2:
        assert TENANTS[own] in nlweb(caller, "hotel", site=own).text
        said = [
            nlweb(caller, "hotel"),
            nlweb(caller, "hotel", site=other),
            caller.ask(say("hotel"), other),
            mcp(caller, "resources/list"),
            mcp(caller, "tools/list"),
            caller.http.get("/who", params={"query": "hotel"}),
            caller.http.get("/sites"),
        ]
        for reply in said:
            assert TENANTS[other] not in reply.text
        for reply in said[3:]:
            assert other not in reply.text


@pytest.mark.parametrize("path", ["/who?query=hotel", "/sites"])
def test_what_is_listed_for_one_is_kept_for_nobody_else(blue: Caller, red: Caller, path: str) -> None:
    mine, theirs = blue.http.get(path), red.http.get(path)
    assert mine.content != theirs.content
    assert "public" not in mine.headers.get("cache-control", "")
    again = red.http.get(path, headers={"if-none-match": mine.headers.get("etag", "*")})
    assert (again.status_code, again.content) == (200, theirs.content)


def test_on_one_connection_each_request_is_its_own_callers(services: Served, blue: Caller, red: Caller) -> None:
    """What is remembered of a connection or of a head is not who came by it last."""
    with httpx2.Client(base_url=services.url, trust_env=False) as shared:
        for _ in range(3):
            for key, sees in (
                (blue.key, "blue.example"),
                (None, None),
                (red.key, "red.example"),
                ("sbk_0_wrong", None),
            ):
                headers = {"authorization": f"Bearer {key}"} if key else {}
                listed = shared.get("/sites", headers=headers)
                for name in ("blue.example", "red.example"):
                    assert (name in listed.text) is (name == sees)


def test_callers_at_the_same_time_get_their_own_answers(blue: Caller, red: Caller) -> None:
    def ask(number: int) -> tuple[str, str]:
        caller, name = (blue, "blue") if number % 2 else (red, "red")
        reply = caller.ask(say(f"{name}-{number}"), "echo")
        assert tokens(reply)
        return f"You said: {name}-{number}", reply.json()["content"]

    with ThreadPoolExecutor(8) as pool:
        for expected, answer in pool.map(ask, range(64)):
            assert answer == expected


def test_metrics_name_no_caller_and_nothing_that_was_said(services: Served, blue: Caller) -> None:
    blue.ask(say("PLANTED-WORDS"), "echo")
    blue.ask(say("PLANTED-WORDS"), "PLANTED-NAME")
    nlweb(blue, "PLANTED-WORDS", site="PLANTED-SITE")
    shown = httpx2.get(f"{services.url}/metrics", trust_env=False).text
    assert "sabir_turns_total" in shown
    for planted in ("PLANTED", "bluebeard", "redbreast", str(blue.key)):
        assert planted not in shown
