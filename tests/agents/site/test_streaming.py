"""With ``streaming: true`` the first result is with the client while later ones are still unranked.

Proved by order, not by time: what ranks the rest waits until the client has read the first ``result`` event.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
from starlette.responses import StreamingResponse

from conftest import serving
from openai_server import scripted
from sabir import Gateway
from sabir.agents.llm import BackendSettings, model_agent
from sabir.agents.site.agent import Site
from sabir.agents.site.model import AgentModel
from sabir.search import Hit, Item, LocalIndex
from sabir.turn import Turn

SOUPS = ("Pumpkin", "Leek", "Tomato", "Lentil", "Onion")
PATIENCE = 20  # seconds; a test that needs them has failed


def soups() -> LocalIndex:
    index = LocalIndex(None, None)
    items = [
        Item(f"https://s.example/{name}", "s.example", f"{name} soup", ("Recipe",), description=f"A soup of {name}.")
        for name in SOUPS
    ]
    asyncio.run(index.put(items))
    return index


def heard(url: str, received: threading.Event) -> Iterator[tuple[str, dict[str, Any]]]:
    """The events of a stream as they come; ``received`` is set as soon as the first result is here."""
    body = {"query": {"text": "soup"}, "prefer": {"streaming": True}}
    with httpx2.Client(timeout=PATIENCE) as client, client.stream("POST", f"{url}/ask", json=body) as response:
        name = ""
        for line in response.iter_lines():
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                if name == "result":
                    received.set()
                yield name, json.loads(line.removeprefix("data: "))


def names(events: list[tuple[str, dict[str, Any]]]) -> list[str]:
    return [data["item"]["name"].removesuffix(" soup") for name, data in events if name == "result"]


def test_without_a_model_nothing_behind_the_first_result_is_ranked_before_the_client_has_it(tmp_path: Path) -> None:
    received = threading.Event()
    in_time: list[bool] = []

    async def held(turn: Turn, hit: Hit) -> float:
        """The first hit is weighed at once; each further one when the client has the first result."""
        in_time.append(not in_time or await asyncio.to_thread(received.wait, PATIENCE))
        return 1.0

    site = Site(soups(), weight=held, questions=False)
    with serving(Gateway(site, home=tmp_path)) as served:
        events = list(heard(served.url, received))
    assert in_time == [True] * len(SOUPS)
    assert sorted(names(events)) == sorted(SOUPS)
    assert [data["index"] for name, data in events if name == "result"] == list(range(len(SOUPS)))
    assert [name for name, _ in events][-1] == "complete"


def test_a_result_that_a_later_one_may_still_pass_is_held_back(tmp_path: Path) -> None:
    async def against_the_first(turn: Turn, hit: Hit) -> float:
        return 0.5 if hit.item.name == first else 1.0

    index = soups()
    with serving(Gateway(Site(index, questions=False), home=tmp_path / "plain")) as served:
        plain = names(list(heard(served.url, threading.Event())))
    first = f"{plain[0]} soup"
    with serving(Gateway(Site(index, weight=against_the_first, questions=False), home=tmp_path / "own")) as served:
        events = list(heard(served.url, threading.Event()))
    assert names(events) == [*plain[1:], plain[0]]
    scores = [data["item"]["score"] for name, data in events if name == "result"]
    assert scores == sorted(scores, reverse=True)


def test_with_a_model_every_result_comes_before_the_model_says_a_word(tmp_path: Path) -> None:
    received = threading.Event()
    in_time: list[bool] = []

    def piece(text: str, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
        return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"

    async def speaking() -> AsyncIterator[bytes]:
        in_time.append(await asyncio.to_thread(received.wait, PATIENCE))
        yield piece("4 95\n2 80\n5 99\n1 10\n3 5", "stop") + b"data: [DONE]\n\n"

    index = soups()
    with serving(Gateway(Site(index, questions=False), home=tmp_path / "plain")) as served:
        plain = names(list(heard(served.url, threading.Event())))
    with scripted(lambda body: StreamingResponse(speaking(), media_type="text/event-stream")) as server:
        judge = model_agent("judge", BackendSettings(model="small", base_url=server.url))
        site = Site(index, model=AgentModel(judge), questions=False)
        with serving(Gateway(site, home=tmp_path, beside=(judge,))) as served:
            events = list(heard(served.url, received))
            whole = httpx2.post(
                f"{served.url}/ask", json={"query": {"text": "soup"}, "prefer": {"streaming": False}}, timeout=PATIENCE
            ).json()
    assert in_time[0] and names(events) == plain
    assert [name for name, _ in events][-1] == "complete"
    # Who waits for the whole answer gets it in the model's order.
    order = [item["name"].removesuffix(" soup") for item in whole["structuredData"]]
    assert order == [plain[place] for place in (3, 1, 4, 0, 2)]
