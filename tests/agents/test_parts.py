"""A part that names an act asks for it only with the value that says so; any other changes nothing (issue 11, A 1)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import pytest

from agents.test_concierge import Talk
from conftest import Served, serving
from sabir.agents.control.intents import read
from sabir.agents.echo import echo
from sabir.gateway.gateway import Gateway
from sabir.guard.assent import takes_back
from sabir.message import Message, json_part


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(Gateway(echo, home=tmp_path_factory.mktemp("home"))) as one:
        yield one


@pytest.fixture
async def talk(served: Served) -> AsyncIterator[Talk]:
    async with httpx2.AsyncClient(trust_env=False) as http:
        yield Talk(http, served.url + "/nlip")


NO_WISHES: list[tuple[str, Any, str]] = [
    *(("anonymous", {"propose": value}, "propose must be true or false") for value in ("no", "false", 0, 1, "yes", [])),
    ("anonymous", "no", "anonymous must be true or false"),
    *(("sessions", {"erase": value}, "erase must be true or false") for value in ("no", "false", 1, {})),
    *(("sessions", {"end": value}, "end must be true or false") for value in ("no", "false", 1, {})),
    *(("stream", {"on": value}, "on must be true or false") for value in ("no", "off", 1)),
    ("stream", {"partial": "no"}, "partial must be true or false"),
    ("stream", "off", "stream must be true or false"),
    ("context", {"resume": "no"}, "resume must be true or false"),
    ("context", {"keeper": "nobody"}, "The keeper is server, client or both"),
    *(("context", {"window": value}, "The window is a number of turns from 0") for value in (-1, "3", True)),
    *(("limits", {"propose": {"reply": value}}, "reply must be a number above 0") for value in (0, -1, "600", True)),
    *(("vocabulary", {"words": words}, "expected at most 50 words") for words in ([1], ["yes", ""], ["yes", {}])),
]


@pytest.mark.parametrize(("label", "value", "text"), NO_WISHES, ids=[f"{row[0]} {row[1]}" for row in NO_WISHES])
async def test_a_value_that_says_nothing_clear_changes_nothing(talk: Talk, label: str, value: Any, text: str) -> None:
    assert (await talk.say("hi")).text == "You said: hi"
    reply = await talk.control("", json_part(value, label=label))
    assert text in reply.text and not reply.text.startswith("Erase ")
    history = await talk.control("What have we said so far?")
    assert "You said: hi" in history.text  # neither ended nor erased
    assert (await talk.say("and now")).text == "You said: and now"


@pytest.mark.parametrize(
    ("value", "is_meant"), [(True, True), (None, True), ("I changed my mind", True), (False, False)]
)
def test_a_part_that_says_no_to_taking_back_takes_nothing_back(value: Any, is_meant: bool) -> None:
    message = Message.text("", messagetype="control", parts=[json_part(value, label="cancel")])
    assert takes_back(message) is is_meant
    assert bool(read(message)) is is_meant
