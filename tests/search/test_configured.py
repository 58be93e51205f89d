"""Search as configured: PostgreSQL, an embeddings endpoint, a language model; asked over HTTP."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.responses import JSONResponse

from conftest import serving
from deadline import DEADLINE
from openai_server import SIZE, Scripted, scripted
from sabir.agents.site import sites as sites_module
from sabir.cli import main
from sabir.config.build import gateway_of
from sabir.config.load import settings_of
from sabir.errors import ConfigError
from sabir.search.engine.postgres import PostgresIndex

from .engines import schema
from .shelf import shelf

KEY = "sk-test-0123456789abcdefghij"
WARES = [
    {"@type": "Product", "@id": f"https://w.example/{name.replace(' ', '-')}", "name": name, "description": text}
    for name, text in (
        ("Red car", "A small red car for the city."),
        ("Blue boat", "A wooden boat with a blue sail."),
        ("Green kite", "A kite for windy days."),
        ("Yellow drum", "A loud drum made of tin."),
    )
]


@pytest.fixture
def server() -> Iterator[Scripted]:
    with scripted() as made:
        yield made


@pytest.fixture
def wares(tmp_path: Path) -> Path:
    path = tmp_path / "wares.jsonl"
    path.write_text("\n".join(json.dumps(ware) for ware in WARES))
    return path


def ask(url: str, text: str, **prefer: Any) -> dict[str, Any]:
    body = {"query": {"text": text}, "prefer": {"streaming": False, "response_format": "conv_search", **prefer}}
    return dict(httpx2.post(f"{url}/ask/sites", json=body, timeout=20).json())


def names(answer: dict[str, Any]) -> list[str]:
    return [result["name"] for result in answer.get("results", ()) if result["@type"] != "Summary"]


def settled(url: str) -> None:
    """Wait until every vector is there."""
    end = time.monotonic() + DEADLINE
    while ask(url, "car")["_meta"].get("coverage", 1.0) < 1.0:
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("size", [None, SIZE])
def test_vectors_come_from_the_endpoint_that_is_configured(
    tmp_path: Path, server: Scripted, wares: Path, size: int | None
) -> None:
    embeddings = {"url": server.url, "model": "small", "key": KEY, "size": size}
    sites = [{"name": "w.example", "source": str(wares)}]
    settings = settings_of({"home": str(tmp_path / "home"), "sites": sites, "search": {"embeddings": embeddings}})
    assert KEY not in repr(settings)
    with serving(gateway_of(settings)) as served:
        settled(served.url)
        assert any("A small red car" in text for text in server.embedded)
        assert names(ask(served.url, "automobile"))[0] == "Red car"  # no item has the word
        server.away = True
        assert names(ask(served.url, "windy kite")) == ["Green kite"]  # by words, while the endpoint is unavailable
    assert set(server.keys) == {f"Bearer {KEY}"}


def test_an_endpoint_that_is_unavailable_at_the_start_does_not_stop_the_gateway(
    tmp_path: Path, server: Scripted, wares: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sites_module, "RETRY", 0.0)
    server.away = True
    embeddings = {"url": server.url, "model": "small", "key": KEY}
    sites = [{"name": "w.example", "source": str(wares)}]
    settings = settings_of({"home": str(tmp_path / "home"), "sites": sites, "search": {"embeddings": embeddings}})
    with serving(gateway_of(settings)) as served:
        assert names(ask(served.url, "windy kite")) == ["Green kite"]  # by its words
        assert "words alone are searched until it is available" in caplog.text
        server.away = False
        end = time.monotonic() + DEADLINE
        while names(ask(served.url, "automobile"))[:1] != ["Red car"]:  # no item has the word
            assert time.monotonic() < end
            time.sleep(0.05)


def test_the_index_is_in_the_database_that_is_configured(
    tmp_path: Path, server: Scripted, wares: Path, pgvector: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async def asked(address: str) -> None:
        search = {"index": address, "embeddings": {"url": server.url, "model": "small", "size": SIZE}}
        file = tmp_path / "sabir.yaml"
        file.write_text(json.dumps({"home": str(tmp_path / "one"), "search": search}))
        given = ["ingest", str(wares), "--site", "w.example", "--config", str(file)]
        assert await asyncio.to_thread(main, given) == 0
        assert await asyncio.to_thread(main, ["sites", "--config", str(file), "--json"]) == 0
        assert json.loads(capsys.readouterr().out.splitlines()[-1])[0]["items"] == 4
        elsewhere = settings_of({"home": str(tmp_path / "two"), "search": search})  # another node, the same database
        with serving(gateway_of(elsewhere)) as served:
            assert names(await asyncio.to_thread(ask, served.url, "automobile"))[0] == "Red car"
        assert not (tmp_path / "two" / "index" / "words").exists()

    async def run() -> None:
        async with schema(pgvector) as address:
            await asked(address)

    asyncio.run(run())


def test_an_invalid_index_address_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"search\.index: expected postgresql"):
        settings_of({"home": str(tmp_path), "search": {"index": "mysql://x"}})


async def test_nodes_that_read_the_same_source_at_once_end_with_one_of_each_item(pgvector: str) -> None:
    async with schema(pgvector) as address:
        nodes = [await PostgresIndex(address, None, connections=2).open() for _ in range(3)]
        try:
            await asyncio.gather(*(node.put(shelf()) for node in nodes))
            assert sum(site.items for site in await nodes[0].sites()) == len(shelf())
        finally:
            for node in nodes:
                await node.close()


# A language model for the site


def site(tmp_path: Path, server: Scripted, wares: Path, **more: Any) -> Any:
    backend = {"type": "openai", "model": "small", "base_url": server.url, "api_key": KEY}
    return gateway_of(
        settings_of(
            {
                "home": str(tmp_path / "home"),
                "default": "sites",
                "agents": [{"id": "judge", "backend": backend}],
                "sites": [{"name": "w.example", "source": str(wares)}],
                "search": {"model": "judge", "embeddings": False},
                **more,
            }
        )
    )


def backwards(body: dict[str, Any]) -> str:
    """A ranking that turns the order round, in lines."""
    items = re.findall(r"^\d+\. ", body["messages"][-1]["content"], re.MULTILINE)
    return "\n".join(f"{number} {10 * number}" for number in range(len(items), 0, -1))


def test_the_model_ranks_in_one_call_a_query(tmp_path: Path, server: Scripted, wares: Path) -> None:
    server.script = backwards
    with serving(site(tmp_path, server, wares)) as served:
        plain = names(ask(served.url, "a car, a kite and a drum"))
        assert len(plain) == 3
        prompts = [body["messages"][-1]["content"] for body in server.chats]
        [prompt] = [item for item in prompts if item.startswith("Name")]
        assert len(prompts) <= 2  # it found little, so the question was rewritten first
        shown = sorted(plain, key=lambda name: prompt.index(f". {name} ("))
        assert plain == shown[::-1]
        assert set(server.keys) == {f"Bearer {KEY}"}


@pytest.mark.parametrize(
    "script",
    [
        lambda body: "I am sorry, I cannot do that.",
        lambda body: "[1000, 2, 3]",
        lambda body: JSONResponse({"error": {"message": "no credit"}}, 402),
    ],
)
def test_without_a_useful_answer_of_the_model_the_site_answers_itself(
    tmp_path: Path, server: Scripted, wares: Path, script: Any
) -> None:
    server.script = script
    with serving(site(tmp_path, server, wares)) as served:
        assert "Green kite" in names(ask(served.url, "a kite for a windy day"))
    assert len(server.chats) == 1


def test_a_turns_budget_ends_the_models_part_and_not_the_answer(tmp_path: Path, server: Scripted, wares: Path) -> None:
    server.script = backwards
    with serving(site(tmp_path, server, wares, quotas={"turn_calls": 1})) as served:
        answer = ask(served.url, "a car, a kite and a drum", mode="list,summarize")
    assert len(names(answer)) == 3
    assert len(server.chats) == 1  # the second call was over the budget; the summary is made of quotes
    [summary] = [result for result in answer["results"] if result["@type"] == "Summary"]
    assert any(ware["description"] in json.dumps(summary) for ware in WARES)


def test_a_model_that_is_not_an_agent_is_reported(tmp_path: Path, server: Scripted, wares: Path) -> None:
    with pytest.raises(ConfigError, match=r"'w.example': model: there is no agent 'jugde'; choose from judge"):
        site(tmp_path, server, wares, sites=[{"name": "w.example", "model": "jugde"}])
