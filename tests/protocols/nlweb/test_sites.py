"""What a new installation answers, and how sites are ingested, listed and removed by command."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest

from conftest import Served, serving
from deadline import DEADLINE
from protocols.nlweb.agents import events
from protocols.nlweb.wire.test_wire import SEED
from sabir.agents.site.agent import Site
from sabir.agents.site.sites import Sites
from sabir.cli import main
from sabir.config.build import gateway_of
from sabir.config.load import settings_of
from sabir.errors import ConfigError
from sabir.events import Reply
from sabir.message import Message
from sabir.protocols.connect import connect
from sabir.protocols.nlweb.wire.mapping import notes_of, results_of
from sabir.search import LocalIndex, ingest
from sabir.search.sample import SITES
from sabir.server.server import bind
from sabir.turn import Turn


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """``sabir serve`` in an empty folder."""
    home = tmp_path_factory.mktemp("fresh") / "home"
    with serving(gateway_of(settings_of({"home": str(home)}))) as served:
        yield served


def ask(served: Served, text: str, **query: Any) -> dict[str, Any]:
    body = {"query": {"text": text, **query}, "prefer": {"streaming": False}}
    return dict(httpx2.post(f"{served.url}/ask", json=body).json())


def test_the_first_question_after_the_first_start_gets_a_good_answer(fresh: Served) -> None:
    assert fresh.gateway.default == "sites" and "echo" in fresh.gateway.agents
    body = httpx2.post(f"{fresh.url}/ask", json=SEED).json()
    names = [item["name"] for item in body["structuredData"]]
    assert any("Pumpkin" in name for name in names), names
    assert all(item["offers"]["price"] < 20 for item in body["structuredData"])


def test_its_stream_sends_results_one_by_one(fresh: Served) -> None:
    body = {**SEED, "prefer": {"streaming": True}}
    heard = events(httpx2.post(f"{fresh.url}/ask", json=body).text)
    assert [name for name, _ in heard].count("result") > 1


class Talk:
    """A conversation over NLWeb."""

    def __init__(self, served: Served) -> None:
        self.url, self.session = f"{served.url}/ask", dict[str, Any]()

    def ask(self, text: str, **query: Any) -> dict[str, Any]:
        prefer = {"streaming": False, "response_format": "conv_search"}
        meta = {"api_version": "0.54", "session_context": self.session}  # it knows elicitations
        body = {"query": {"text": text, **query}, "prefer": prefer, "meta": meta}
        answer = dict(httpx2.post(self.url, json=body).json())
        self.session = answer["_meta"]["session_context"]
        return answer


@pytest.mark.parametrize(
    "text", ["pumpkin soup", "chocolate cake", "vegetarian dinner with beans", "live jazz in Boise"]
)
def test_a_specific_question_is_answered_and_not_asked_about(fresh: Served, text: str) -> None:
    """W-10"""
    assert Talk(fresh).ask(text)["_meta"]["response_type"] == "Answer"


def test_a_client_that_names_no_version_gets_results_with_the_question(fresh: Served) -> None:
    """W-10: the search component of the reference shows nothing for an elicitation."""
    body = {"query": {"text": "recipes", "price": "less than $30"}, "prefer": {"streaming": False}}
    answer = httpx2.post(f"{fresh.url}/ask", json=body).json()
    assert answer["_meta"]["response_type"] == "Answer" and "elicitation" not in answer
    assert answer["structuredData"]
    assert "?" in answer["_meta"]["note"] and "(" in answer["_meta"]["note"]  # "What kind of dish? Dessert (12), ..."


async def test_the_sentence_that_answers_is_in_the_note_and_the_peer_says_it(fresh: Served) -> None:
    sentence = "Salt & Sedge is open Wed–Sun 11:30–21:00, closed Mon and Tue."
    assert ask(fresh, "when does Salt & Sedge open?")["_meta"]["note"] == sentence
    async with connect(f"{fresh.url}/ask") as peer:
        reply = await peer.ask("when does Salt & Sedge open?")
    assert reply.text == sentence
    assert results_of(reply)[0]["name"] == "Salt & Sedge"


def test_another_question_over_nlweb_in_place_of_an_answer_is_one(fresh: Served) -> None:
    talk = Talk(fresh)
    asked = talk.ask("recipes", price="less than $30")
    assert asked["_meta"]["response_type"] == "Elicitation"
    assert asked["elicitation"]["questions"][0]["id"] != "addressLocality"
    answer = talk.ask("What is on in Boise in January 2027?")
    assert answer["results"] and all("Event" in str(result["@type"]) for result in answer["results"])


def test_an_answer_over_nlweb_is_kept_by_follow_ups(fresh: Served) -> None:
    talk = Talk(fresh)
    assert "elicitation" in talk.ask("recipes", price="less than $30")
    for text in ("Dessert, please", "cheaper ones", "only vegan"):
        found = talk.ask(text)["results"]
        assert found and {item["recipeCategory"] for item in found} == {"Dessert"}
    assert all("Vegan" in str(item["suitableForDiet"]) for item in found)


async def test_another_question_over_nlip_in_place_of_an_answer_is_one(fresh: Served) -> None:
    async with connect(fresh.url) as peer:
        assert (await peer.ask("recipes")).text.startswith("Which course should it be?")
        assert "Jazz" in (await peer.ask("What is on in Boise in January 2027?")).text
        assert (await peer.ask("events")).text.startswith("What kind of thing")
        assert "Chopin" in (await peer.ask("Music Event")).text
        assert "Chopin" not in (await peer.ask("in Boise")).text


async def test_a_sample_that_was_half_read_when_its_process_ended_is_read_again(tmp_path: Path) -> None:
    async with Sites(tmp_path) as first:
        whole = await first.index.sites()
        await first.index.delete("pumpkins-r-us.com")
    async with Sites(tmp_path) as second:
        assert len(await second.index.sites()) == 1  # what was removed stays so
    (tmp_path / "index" / "sample.unfinished").touch()
    async with Sites(tmp_path) as third:
        assert await third.index.sites() == whole
    assert not (tmp_path / "index" / "sample.unfinished").exists()


async def test_a_client_that_arrives_while_the_gateway_starts_waits() -> None:
    with bind("127.0.0.1", 0) as sock, socket.create_connection(sock.getsockname(), 5) as early:
        early.sendall(b"hello")  # nobody accepts yet, and nothing is lost
        heard: asyncio.Queue[bytes] = asyncio.Queue()

        async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heard.put_nowait(await reader.readexactly(5))
            writer.close()

        async with asyncio.timeout(DEADLINE), await asyncio.start_server(listen, sock=sock):
            assert await heard.get() == b"hello"


class Slow:
    """An embedder that is never done."""

    name, size, floor = "slow", 8, 0.0

    async def embed(self, texts: Sequence[str]) -> Any:
        await asyncio.Event().wait()


async def test_a_site_whose_vectors_are_not_computed_yet_answers_and_says_so() -> None:
    index = LocalIndex(None, Slow())
    try:
        for source in SITES["harbour.example"]:
            await ingest(index, str(source), site="harbour.example")
        turn = Turn(Message.text("vegetarian dinner under 30 minutes without nuts"))
        [*_, reply] = [event async for event in Site(index, "harbour.example", questions=False)(turn)]
    finally:
        await index.close()
    assert isinstance(reply, Reply)
    items, notes = results_of(reply.message), notes_of(reply.message)
    assert items and all("https://schema.org/VegetarianDiet" in item["suitableForDiet"] for item in items)
    assert notes is not None and notes.coverage == 0.0


def test_all_sites_are_listed_and_asked(fresh: Served) -> None:
    assert httpx2.get(f"{fresh.url}/sites").json()["sites"] == ["harbour.example", "pumpkins-r-us.com"]
    found = {item["site"] for item in ask(fresh, "pumpkin breakfast", max_results=20)["structuredData"]}
    assert found == {"harbour.example", "pumpkins-r-us.com"}
    one = {item["site"] for item in ask(fresh, "pumpkin breakfast", site="harbour.example")["structuredData"]}
    assert one == {"harbour.example"}


@pytest.mark.parametrize("mode", ["list,summarize", "generate"])
def test_nothing_is_written_that_no_source_holds_w12(fresh: Served, mode: str) -> None:
    body = {
        "query": {"text": "pumpkin breakfast"},
        "prefer": {"streaming": False, "mode": mode, "response_format": "conv_search"},
    }
    *items, summary = httpx2.post(f"{fresh.url}/ask", json=body).json()["results"]
    assert summary["@type"] == "Summary" and summary["grounding"]["source_urls"]
    sources = " ".join(json.dumps(item, ensure_ascii=False) for item in items)
    sentences = [
        piece.strip() for piece in summary["text"].split("[") for piece in piece.partition("]")[2:] or (piece,)
    ]
    for sentence in filter(None, sentences):
        assert sentence in sources, sentence


def test_echo_is_there_from_the_start(fresh: Served) -> None:
    body = {"query": {"text": "hi"}, "prefer": {"streaming": False}}
    said = httpx2.post(f"{fresh.url}/ask/echo", json=body).json()["content"][0]["text"]
    assert said == "You said: hi"


def test_a_second_start_has_the_same_sites(tmp_path: Path) -> None:
    settings = settings_of({"home": str(tmp_path / "home")})
    with serving(gateway_of(settings)) as served:
        before = list(served.gateway.agents)
    with serving(gateway_of(settings)) as served:
        assert list(served.gateway.agents) == before
        assert httpx2.get(f"{served.url}/sites").json()["sites"] == ["harbour.example", "pumpkins-r-us.com"]


def test_agents_that_are_configured_come_without_the_sample(home: Path) -> None:
    gateway = gateway_of(settings_of({"home": str(home), "agents": [{"id": "mine", "use": "echo"}]}))
    assert list(gateway.agents) == ["mine"]
    assert list(gateway_of(settings_of({"home": str(home), "sites": []})).agents) == ["echo"]


def test_sites_of_the_configuration_are_read_at_start(tmp_path: Path) -> None:
    page = tmp_path / "pages" / "ferry.md"
    page.parent.mkdir()
    page.write_text("# Ferry times\n\nThe ferry leaves at nine and at noon.\n")
    settings = settings_of(
        {"home": str(tmp_path / "home"), "sites": [{"name": "ferry.example", "source": str(page.parent)}]}
    )
    with serving(gateway_of(settings)) as served:
        assert list(served.gateway.agents) == ["sites", "ferry.example"]
        assert ask(served, "ferry times")["structuredData"][0]["name"] == "Ferry times"


def test_a_site_is_ingested_listed_and_removed_by_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "shop.jsonl"
    good = {"@type": "Product", "@id": "urn:rope", "name": "Rope", "offers": {"price": 5, "priceCurrency": "USD"}}
    source.write_text(json.dumps(good) + "\n{broken\n")
    home = ["--home", str(tmp_path / "home")]
    assert main(["ingest", str(source), "--site", "shop.example", "--no-vectors", *home]) == 0
    printed = capsys.readouterr()
    assert "2 read, 1 new, 0 changed, 0 unchanged, 1 skipped" in printed.out
    assert "shop.jsonl:2: not JSON" in printed.err
    assert main(["sites", "--json", *home]) == 0
    assert json.loads(capsys.readouterr().out) == [{"name": "shop.example", "items": 1, "types": {"Product": 1}}]
    assert main(["ingest", str(source), "--site", "shop.example", "--no-vectors", "--json", *home]) == 0
    assert json.loads(capsys.readouterr().out)["unchanged"] == 1
    source.write_text(json.dumps({**good, "@id": "urn:sail", "name": "Sail"}) + "\n")
    assert main(["ingest", str(source), "--site", "shop.example", "--no-vectors", "--sync", *home]) == 0
    assert "1 new, 0 changed, 0 unchanged, 1 removed" in capsys.readouterr().out
    assert main(["ingest", "--delete", "--site", "shop.example", *home]) == 0
    assert "1 item removed" in capsys.readouterr().out
    assert main(["sites", *home]) == 0
    assert "sabir ingest SOURCE --site NAME" in capsys.readouterr().out


def test_ingest_says_what_it_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ingest", "--site", "x", "--home", str(tmp_path)]) == 2
    assert "give a SOURCE to read, or --delete" in capsys.readouterr().err
    assert main(["ingest", str(tmp_path / "nothing"), "--site", "x", "--home", str(tmp_path)]) == 1
    assert "no file or folder" in capsys.readouterr().err
    assert main(["ingest", "http://127.0.0.1:9/feed.xml", "--site", "x", "--home", str(tmp_path)]) == 1
    assert "127.0.0.1" in capsys.readouterr().err  # a private address is not fetched
    config, page = tmp_path / "mine.yaml", tmp_path / "page.md"
    config.write_text(f"home: {tmp_path / 'home'}\nagents: [{{id: clerk, use: echo}}]\n")
    page.write_text("# Rope\n\nFive dollars.\n")
    assert main(["ingest", str(page), "--site", "x.example", "--no-vectors", "--config", str(config)]) == 0
    assert "add sites: [{name: x.example}]" in capsys.readouterr().err  # beside agents, sites are served only if named


def test_a_running_gateway_answers_from_newly_ingested_items(tmp_path: Path) -> None:
    home = tmp_path / "home"
    page = tmp_path / "ferry.md"
    page.write_text("# Ferry times\n\nThe ferry leaves at nine and at noon.\n")
    with serving(gateway_of(settings_of({"home": str(home)}))) as served:
        assert ask(served, "ferry", site="ferry.example")["error"]["code"] == "NO_RESULTS"
        assert main(["ingest", str(page), "--site", "ferry.example", "--no-vectors", "--home", str(home)]) == 0
        for _ in range(100):
            body = ask(served, "ferry times", site="ferry.example")
            if "structuredData" in body:
                break
        assert body["structuredData"][0]["name"] == "Ferry times"
        assert "ferry.example" in httpx2.get(f"{served.url}/sites").json()["sites"]


def test_an_unknown_key_of_a_site_is_an_error_that_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean sites\\[0\\]\\.source"):
        settings_of({"sites": [{"name": "x", "sorce": "y"}]})


def test_who_looks_into_what_sites_hold(fresh: Served) -> None:
    rows = httpx2.get(f"{fresh.url}/who", params={"query": "soup"}).json()["results"]
    best = {row["definition"]["name"]: row["score"] for row in rows}
    assert best["sites"] == best["harbour.example"] >= 60  # it has soups
    assert "echo" not in best
    asked = {"query": {"text": "pumpkin granola", "type": "nlweb"}}
    first, *_ = httpx2.post(f"{fresh.url}/who", json=asked).json()["results"]
    assert first["endpoint"] == f"{fresh.url}/ask"
    elsewhere = {"query": {"text": "granola", "domain": "pumpkins-r-us.com"}}
    assert {row["definition"]["site"] for row in httpx2.post(f"{fresh.url}/who", json=elsewhere).json()["results"]} == {
        "pumpkins-r-us.com"
    }
    assert httpx2.get(f"{fresh.url}/who", params={"query": "xylophone zeppelin"}).json()["results"] == []


@pytest.fixture
def ferry(tmp_path: Path) -> dict[str, Any]:
    """A configuration with a site of one's own, in a home where the sample was read before."""
    page = tmp_path / "pages" / "ferry.md"
    page.parent.mkdir()
    page.write_text("# Ferry times\n\nThe ferry leaves at nine and at noon.\n")
    home = str(tmp_path / "home")
    with serving(gateway_of(settings_of({"home": home}))) as served:
        assert ask(served, "pumpkin soup")["structuredData"]
    return {"home": home, "sites": [{"name": "ferry.example", "source": str(page.parent)}]}


def test_a_gateway_with_sites_of_its_own_does_not_serve_the_sample(ferry: dict[str, Any]) -> None:
    with serving(gateway_of(settings_of(ferry))) as served:
        assert list(served.gateway.agents) == ["sites", "ferry.example"]
        assert httpx2.get(f"{served.url}/sites").json()["sites"] == ["ferry.example"]
        assert ask(served, "pumpkin soup")["error"]["code"] == "NO_RESULTS"
        assert ask(served, "ferry times")["structuredData"][0]["site"] == "ferry.example"


def test_the_sample_stays_where_it_is_wanted(ferry: dict[str, Any]) -> None:
    with serving(gateway_of(settings_of({**ferry, "sample": True}))) as served:
        sites = httpx2.get(f"{served.url}/sites").json()["sites"]
        assert sorted(sites) == ["ferry.example", "harbour.example", "pumpkins-r-us.com"]
        assert ask(served, "pumpkin soup")["structuredData"]


def test_the_sample_goes_where_it_is_not_wanted_and_what_was_ingested_stays(
    ferry: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    home = ferry["home"]
    [own] = ferry["sites"]
    assert main(["ingest", own["source"], "--site", "ferry.example", "--no-vectors", "--home", home]) == 0
    assert "the sample sites are also served; 'sample: false'" in capsys.readouterr().err
    with serving(gateway_of(settings_of({"home": home, "sample": False}))) as served:
        assert httpx2.get(f"{served.url}/sites").json()["sites"] == ["ferry.example"]


def test_an_unreadable_source_is_reported_without_a_hint_about_serving(
    ferry: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torn = tmp_path / "torn.json"
    torn.write_text("{")
    to = ["--site", "ferry.example", "--no-vectors", "--home", ferry["home"]]
    closed = tmp_path / "closed.yaml"
    closed.write_text("agents: [{id: clerk, use: echo}]\n")
    for source in ("gone.json", str(torn)):
        for more in ([], ["--config", str(closed)]):
            capsys.readouterr()
            assert main(["ingest", source, *to, *more]) == 1
            [said] = capsys.readouterr().err.splitlines()
            assert Path(source).name in said
    assert main(["ingest", "gone.json", ferry["sites"][0]["source"], *to]) == 1
    assert "the sample sites are also served" in capsys.readouterr().err  # of what was read this is true


def test_items_of_ones_own_under_a_name_of_the_sample_are_not_taken_for_it(ferry: dict[str, Any]) -> None:
    [own] = ferry["sites"]
    with serving(gateway_of(settings_of({**ferry, "sites": [{**own, "name": "harbour.example"}]}))) as served:
        assert ask(served, "ferry times")["structuredData"][0]["site"] == "harbour.example"


def test_cards_have_examples_of_the_sites_own_items(ferry: dict[str, Any], tmp_path: Path) -> None:
    def examples(served: Served) -> dict[str, list[str]]:
        cards = [row["definition"] for row in httpx2.get(f"{served.url}/who", params={"query": ""}).json()["results"]]
        return {card["name"]: card["skills"][0].get("examples", []) for card in cards if "skills" in card}

    with serving(gateway_of(settings_of(ferry))) as served:
        assert examples(served) == {"sites": ["Ferry times"], "ferry.example": ["Ferry times"]}
    [own] = ferry["sites"]
    with serving(
        gateway_of(settings_of({**ferry, "sites": [{**own, "examples": ["Is there one at ten?"]}]}))
    ) as served:
        assert examples(served)["ferry.example"] == ["Is there one at ten?"]
    own["name"] = "unread.example"
    unread = gateway_of(settings_of({**ferry, "home": str(tmp_path / "unread")}))
    assert "what is new here?" in unread.announcement(unread.serving).command
    with serving(unread) as served:
        assert ask(served, "what is new here?")["structuredData"][0]["name"] == "Ferry times"
        answer = ask(served, "xylophone")["error"]["message"]
        assert answer.startswith('I found nothing for that. Ask, for example: "Ferry times".')
        assert ask(served, "hello")["content"][0]["text"].endswith('Ask, for example: "Ferry times".')
    with serving(gateway_of(settings_of({"home": str(tmp_path / "new")}))) as served:
        command = served.gateway.announcement(served.gateway.serving).command
        assert "vegetarian dinner under 30 minutes without nuts" in command
        assert "something protein rich that has cinnamon in it" in examples(served)["sites"]


def test_a_table_of_any_columns_is_read_by_command_and_by_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "fairs.csv"
    table.write_text("Titel,Ort,Tag\nApple fair,Boise,2027-10-02\n")
    home = str(tmp_path / "home")
    mapping = {"name": "Titel", "@type": "=Event", "location.address.addressLocality": "Ort", "startDate": "Tag"}
    flags = [flag for name, column in mapping.items() for flag in ("--map", f"{name}={column}")]
    assert main(["ingest", str(table), "--site", "fairs.example", "--no-vectors", "--home", home, *flags]) == 0
    sites = [{"name": "fairs.example", "source": str(table), "mapping": mapping}]
    with serving(gateway_of(settings_of({"home": home, "sites": sites}))) as served:
        [found] = ask(served, "fairs in Boise in October 2027")["structuredData"]
    assert (found["@type"], found["name"]) == ("Event", "Apple fair")
    assert main(["ingest", str(table), "--site", "x", "--home", home, "--map", "name"]) == 2
    assert "--map: expected PROPERTY=COLUMN such as name=Title, not 'name'" in capsys.readouterr().err
