"""NLWeb over A2A: requests in a data part, and the whole NLWeb body in the task (issue 11, C 10)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from a2a.client import Client
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import InvalidParamsError
from google.protobuf.json_format import MessageToDict

from gates import Gate
from protocols.a2a.a2a_bench import closed, connected, said, saying
from sabir.agent import agent
from sabir.events import Field, Progress, Question
from sabir.gateway.gateway import Gateway
from sabir.message import Message, json_part, text_part
from sabir.protocols.a2a.wire.parts import value_to
from sabir.turn import Turn

GATE = Gate()


@agent(description="Finds soups", repeatable=True)
async def soups(turn: Turn) -> Message:
    """Says what it was asked, as a site agent says its results."""
    asked = turn.message.labelled("ask")
    about = asked.value if asked is not None else {}
    item = {"@type": "Recipe", "@id": "urn:x:1", "name": turn.text, "score": 90, "filters": about.get("filters", {})}
    return Message.of(text_part(f"Found {turn.text}."), json_part(item, label="result"))


@agent(description="Finds nothing", repeatable=True)
async def nothing(turn: Turn) -> Message:
    return Message.of(text_part("No such soup."), json_part({"question": turn.text, "total": 0}, label="meta"))


@agent(description="Asks which colour", repeatable=True)
async def asker(turn: Turn) -> str:
    field = Field("colour", "Which colour?", "single_select", ("red", "blue"))
    answer = await turn.ask(Question("Which colour?", (field,)))
    given = answer.labelled("answer")
    return f"You chose {given.value['colour'] if given is not None else answer.text}."


@agent(description="Asks in its reply", repeatable=True)
async def replier(turn: Turn) -> Message:
    if turn.text != "soup":
        return Message.text(f"Then {turn.text}.")
    return Message.of(text_part("Hot or cold?"), json_part({"text": "Hot or cold?"}, label="question"))


@agent(description="Fails", repeatable=True)
async def broken(turn: Turn) -> str:
    raise RuntimeError("secret inside")


@agent(description="Takes until the gate opens", repeatable=True)
async def slow(turn: Turn) -> AsyncIterator[Any]:
    yield Progress(0.5, "half way")
    await GATE.passed()
    yield "done"


@pytest.fixture
async def connect(serve, home) -> AsyncIterator:
    served = serve(Gateway(soups, nothing, asker, replier, broken, slow, home=home))
    made: list[Client] = []

    async def to(name: str, **config) -> Client:
        made.append(await connected(served.url, name, **config))
        return made[-1]

    yield to
    for client in made:
        await closed(client)


def data(value: object) -> pb.Part:
    return pb.Part(data=value_to(value))


def body_in(parts: Any) -> dict[str, Any]:
    """The NLWeb body: the only data part."""
    (found,) = [MessageToDict(part.data) for part in parts if part.HasField("data")]
    return dict(found)


async def asked(client: Client, *parts: str | pb.Part, **more: Any) -> pb.Task:
    (response,) = await said(client, saying(*parts, **more))
    return response.task


ASKS = {
    "alone": [data({"query": {"text": "leek soup", "itemType": "Recipe"}})],
    "beside a text": [pb.Part(text="Please."), data({"query": {"text": "leek soup", "itemType": "Recipe"}})],
    "with its words in a text": [pb.Part(text="leek soup"), data({"query": {"itemType": "Recipe"}})],
    "as a flat request": [data({"query": "leek soup", "itemType": "Recipe"})],
}


@pytest.mark.parametrize("way", ASKS)
async def test_an_answer_is_the_artifact_and_its_words_are_in_the_status(connect, way: str) -> None:
    task = await asked(await connect("soups", streaming=False), *ASKS[way])
    assert task.status.state == pb.TASK_STATE_COMPLETED
    body = body_in(task.artifacts[0].parts)
    assert body["_meta"]["response_type"] == "Answer"
    assert body["_meta"]["session_context"]["conversation_id"]
    (item,) = body["structuredData"]
    assert (item["name"], item["filters"]) == ("leek soup", {"itemType": "Recipe"})
    assert body["content"] == [{"type": "text", "text": "Found leek soup.", "Type": "text", "Text": "Found leek soup."}]
    assert [part.text for part in task.status.message.parts] == ["Found leek soup."]


async def test_version_and_format_are_taken_from_the_request(connect) -> None:
    request = {
        "query": {"text": "soup"},
        "prefer": {"response_format": "conv_search"},
        "meta": {"api_version": "0.55", "request_id": "r1"},
    }
    body = body_in((await asked(await connect("soups", streaming=False), data(request))).artifacts[0].parts)
    assert body["_meta"]["response_type"] == "answer"
    assert (body["_meta"]["version"], body["_meta"]["request_id"]) == ("0.55", "r1")
    assert body["results"][0]["name"] == "soup"


async def test_an_answer_is_streamed_and_ends_with_the_body(connect) -> None:
    *_, whole, last = await said(await connect("soups"), saying(data({"query": {"text": "soup"}})))
    assert body_in(whole.artifact_update.artifact.parts)["_meta"]["response_type"] == "Answer"
    assert last.status_update.status.state == pb.TASK_STATE_COMPLETED


@pytest.mark.parametrize(
    "answer",
    [
        ["red"],
        [data({"query": {"text": "red"}})],
        [data({"query": {}, "context": {"answers": {"colour": "red"}}})],
    ],
    ids=["in words", "as a query", "by the id of the question"],
)
async def test_an_elicitation_is_input_required_and_its_answer_resumes_the_task(connect, answer: list[Any]) -> None:
    client = await connect("asker", streaming=False)
    task = await asked(client, data({"query": {"text": "paint it"}}))
    assert task.status.state == pb.TASK_STATE_INPUT_REQUIRED
    assert task.status.message.parts[0].text == "Which colour?"
    body = body_in(task.status.message.parts)
    assert body["_meta"]["response_type"] == "Elicitation"
    assert body["elicitation"]["questions"][0]["options"] == ["red", "blue"]
    done = await asked(client, *answer, task=task.id)
    assert (done.id, done.status.state) == (task.id, pb.TASK_STATE_COMPLETED)
    assert body_in(done.artifacts[0].parts)["content"][0]["text"] == "You chose red."


async def test_a_question_in_a_reply_is_input_required_too(connect) -> None:
    client = await connect("replier", streaming=False)
    task = await asked(client, data({"query": {"text": "soup"}}))
    assert task.status.state == pb.TASK_STATE_INPUT_REQUIRED
    assert body_in(task.status.message.parts)["elicitation"]["text"] == "Hot or cold?"
    done = await asked(client, data({"query": {"text": "hot"}}), task=task.id)
    assert done.status.state == pb.TASK_STATE_COMPLETED
    assert done.context_id == task.context_id


@pytest.mark.parametrize(("name", "code"), [("nothing", "NO_RESULTS"), ("broken", "INTERNAL_ERROR")])
async def test_a_failure_is_a_failed_task(connect, name: str, code: str) -> None:
    task = await asked(await connect(name, streaming=False), data({"query": {"text": "soup"}}))
    assert task.status.state == pb.TASK_STATE_FAILED
    body = body_in(task.status.message.parts)
    assert (body["_meta"]["response_type"], body["error"]["code"]) == ("Failure", code)
    assert "secret" not in str(task)


async def test_a_promise_is_a_task_under_way(connect) -> None:
    client, watcher = await connect("slow", streaming=False), await connect("slow")
    try:
        task = await asked(client, data({"query": {"text": "soup"}, "prefer": {"wait": 0.3}}))
        assert task.status.state == pb.TASK_STATE_WORKING
        body = body_in(task.status.message.parts)
        assert body["_meta"]["response_type"] == "Promise"
        assert (body["promise"]["token"], body["promise"]["progress"]) == (task.id, 0.5)
        stream = watcher.subscribe(pb.SubscribeToTaskRequest(id=task.id))
        last = await anext(stream)
    finally:
        await asyncio.to_thread(GATE.open)
    async for update in stream:
        last = update
    assert last.status_update.status.state == pb.TASK_STATE_COMPLETED
    kept = await client.get_task(pb.GetTaskRequest(id=task.id))
    assert body_in(kept.artifacts[0].parts)["content"][0]["text"] == "done"


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ({"query": {}}, r"parts\[0\]\.data\.query\.text"),
        ({"query": {"text": 5}}, r"parts\[0\]\.data\.query\.text"),
        ({"query": {"text": "a"}, "prefer": {"mode": "dance"}}, r"parts\[0\]\.data\.prefer\.mode"),
        ({"query": {"text": "a"}, "meta": {"api_version": "9.9"}}, r"parts\[0\]\.data\.meta\.api_version"),
    ],
)
async def test_an_invalid_request_is_an_error_that_says_where(connect, value: object, where: str) -> None:
    with pytest.raises(InvalidParamsError, match=where):
        await asked(await connect("soups", streaming=False), data(value))


async def test_data_without_a_query_is_data(connect) -> None:
    task = await asked(await connect("soups", streaming=False), "hi", data({"queries": 1}))
    assert task.artifacts[0].parts[0].text == "Found hi."
