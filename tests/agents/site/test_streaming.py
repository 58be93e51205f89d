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
import pytest
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


@pytest.mark.parametrize("ending", ["whole", "broken off"])
def test_with_a_model_the_first_result_comes_while_the_model_still_speaks(tmp_path: Path, ending: str) -> None:
    received = threading.Event()
    in_time: list[bool] = []

    def piece(text: str, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
        return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"

    async def speaking() -> AsyncIterator[bytes]:
        yield piece("4 9")
        yield piece("5\n")
        in_time.append(await asyncio.to_thread(received.wait, PATIENCE))
        yield piece("2 80\n4 70\n77 60\n")
        if ending == "whole":
            yield piece("5 99\n1 10\n3 5", "stop") + b"data: [DONE]\n\n"

    with scripted(lambda body: StreamingResponse(speaking(), media_type="text/event-stream")) as server:
        judge = model_agent("judge", BackendSettings(model="small", base_url=server.url))
        site = Site(soups(), model=AgentModel(judge), questions=False)
        with serving(Gateway(site, home=tmp_path, beside=(judge,))) as served:
            events = list(heard(served.url, received))
        [asked] = server.chats
    shown = [line.split(". ", 1)[1].split(" soup")[0] for line in asked["messages"][-1]["content"].splitlines()[-5:]]
    named = (3, 1, 4, 0, 2) if ending == "whole" else (3, 1, 0, 2, 4)  # what was not named keeps its order behind
    assert in_time == [True]
    assert names(events) == [shown[place] for place in named]
    scores = [data["item"]["score"] for name, data in events if name == "result"]
    assert scores == sorted(scores, reverse=True) and scores[:2] == [95.0, 80.0]
    assert [name for name, _ in events][-1] == "complete"
