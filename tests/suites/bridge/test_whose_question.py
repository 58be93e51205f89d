"""A message goes to the agent it names, also while another agent of the conversation waits for an answer.

One table over all protocols; ``tests/exchange/test_whose_question.py`` has what is particular to NLIP.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from conftest import Served, serving
from sabir import Gateway, Turn, agent
from sabir.events import Field, Question
from suites.bridge.bridge_clients import TALKERS, A2aTalker, AclTalker, Heard, Talker


@agent
async def taxi(turn: Turn) -> str:
    place = Field("where", "Where to", "single_select", ("airport", "harbour"))
    return f"A taxi to the {(await turn.ask(Question('Where to?', (place,)))).text}"


@agent
async def parrot(turn: Turn) -> str:
    return f"You said: {turn.text}"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(Gateway(taxi, parrot, home=tmp_path_factory.mktemp("home"))) as served:
        yield served


async def answer(talker: Talker, asked: Heard, agent_name: str, text: str) -> Heard:
    """Send an answer as the protocol does: as a message in the conversation, to the task, or as INFORM_INPUT."""
    if isinstance(talker, A2aTalker):
        client = await talker.client(agent_name)
        (done,) = [r async for r in client.send_message(talker.request(text, *asked.place))]
        return talker.heard_of(done.task)
    if isinstance(talker, AclTalker):
        more: dict[str, Any] = {"in_reply_to": asked.data[0], "conversation_id": asked.place}
        sent = await talker.send("INFORM_INPUT", agent_name, {"answer": text}, **more)
        return await talker.fresh(sent, asked.place)
    return await talker.ask(agent_name, text, asked.place)


@pytest.mark.parametrize("protocol", TALKERS)
async def test_a_message_to_another_agent_is_not_taken_for_the_answer(protocol: str, gateway: Served) -> None:
    talker = TALKERS[protocol](gateway.url)
    try:
        asked = await talker.ask("taxi", "hi")
        assert "Where to?" in (asked.question or asked.text)
        assert (await talker.ask("parrot", "hello", asked.place)).text == "You said: hello"
        assert (await answer(talker, asked, "taxi", "harbour")).text == "A taxi to the harbour"
    finally:
        await talker.aclose()
