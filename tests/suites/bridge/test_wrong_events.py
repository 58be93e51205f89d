"""An agent that yields no event, or one with invalid fields: every protocol reports a failure, none crashes."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import pytest

from conftest import Served, serving
from sabir import Card, Fault, Gateway, Message, Progress, Question, Reply, Turn, agent
from sabir.errors import TurnFailed
from suites.bridge.bridge_clients import TALKERS

WRONG: dict[str, Any] = {
    "progress": Progress("step 1"),
    "note": Progress(fraction=7, note=5),
    "fault": Fault(5, 7),
    "surrogate": Fault("half a pair: \ud83d"),
    "question": Question(5),
    "reply": Reply(Message(5, 6, 7)),
}


@agent(name="wrong")
async def invalid_events(turn: Turn) -> AsyncIterator[Any]:
    yield WRONG[turn.text]
    yield "and so on"


@agent(name="raises")
async def raises(turn: Turn) -> str:
    raise TurnFailed(ValueError("no bread today"))


@agent(name="asks", remembers=False)
async def asks(turn: Turn) -> str:
    return (await turn.ask(Question(5))).text


class Speaks:
    """An agent that is a class of its own, and yields words."""

    card = Card(name="speaks")

    async def __call__(self, turn: Turn, /) -> AsyncIterator[Any]:
        yield "words"
        yield Reply(Message.text("end"))


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(Gateway(invalid_events, raises, asks, Speaks(), home=tmp_path_factory.mktemp("a home"))) as served:
        yield served


@pytest.mark.parametrize("protocol", TALKERS)
@pytest.mark.parametrize("case", WRONG)
async def test_the_caller_gets_a_failure_in_its_own_protocol(
    there: Served, protocol: str, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    talker = TALKERS[protocol](there.url)
    heard = await talker.ask("wrong", case)
    assert "half a pair" in heard.failure if case == "surrogate" else "wrong failed" in heard.failure
    await talker.aclose()
    assert not [record for record in caplog.records if "ASGI" in record.getMessage()]


@pytest.mark.parametrize("protocol", TALKERS)
async def test_so_it_is_where_the_agent_is_a_class_raises_or_asks_back(there: Served, protocol: str) -> None:
    talker = TALKERS[protocol](there.url)
    assert "speaks failed" in (await talker.ask("speaks", "x")).failure
    assert "no bread today" in (await talker.ask("raises", "x")).failure
    assert "asks failed" in (await talker.ask("asks", "x")).failure
    await talker.aclose()


def test_the_log_says_which_agent_gave_what(there: Served, caplog: pytest.LogCaptureFixture) -> None:
    httpx2.post(f"{there.url}/nlip/wrong", json={"format": "text", "subformat": "english", "content": "progress"})
    [logged] = [record for record in caplog.records if record.levelno == logging.ERROR]
    message = logged.getMessage()
    assert message.startswith("Agent wrong failed in turn ")
    assert message.endswith(": Progress.fraction: expected a number from 0 to 1, or None, not str")
    assert "step 1" not in message
