"""Whose question an NLIP message answers. ``tests/suites/bridge/test_whose_question.py`` asks over every protocol."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from conftest import Served, serving
from sabir import Gateway, agent
from sabir.events import Field, Question
from sabir.turn import Turn


@agent
async def taxi(turn: Turn) -> str:
    place = Field("where", "Where to", "single_select", ("airport", "harbour"))
    return f"A taxi to the {(await turn.ask(Question('Where to?', (place,)))).text}"


@agent
async def echo(turn: Turn) -> str:
    return f"You said: {turn.text}"


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Served]:
    with serving(Gateway(taxi, echo, home=tmp_path)) as served:
        yield served


def say(url: str, text: str, tokens: list[Any], **headers: str) -> dict[str, Any]:
    message = {"format": "text", "subformat": "english", "content": text, "submessages": tokens or None}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return dict(httpx2.post(url, json=message, headers=named).json())


def tokens_of(message: dict[str, Any]) -> list[Any]:
    return [part for part in message["submessages"] if part["format"] == "token"]


@pytest.mark.parametrize("path", ["/nlip", "/nlip/taxi"])
def test_where_no_agent_is_named_the_one_that_asked_gets_the_answer(gateway: Served, path: str) -> None:
    tokens = tokens_of(say(f"{gateway.url}/nlip", "hi", []))  # taxi is the default
    assert say(f"{gateway.url}{path}", "airport", tokens)["content"] == "A taxi to the airport"


def test_the_question_of_a_task_keeps_its_form_and_its_tokens(gateway: Served) -> None:
    own = {"format": "token", "subformat": "conversation_me", "content": "mine"}
    accepted = say(f"{gateway.url}/nlip/taxi", "hi", [own], prefer="respond-async")
    place = next(part["content"] for part in accepted["submessages"] if part.get("label") == "task")
    while (polled := httpx2.get(place)).status_code == 202:
        continue
    question = polled.json()
    assert question["content"] == "Where to?" and own in question["submessages"]
    form = next(part["content"] for part in question["submessages"] if part.get("label") == "question")
    expected = {"id": "where", "text": "Where to", "type": "single_select", "options": ["airport", "harbour"]}
    assert form["questions"] == [expected]
