"""The A2A door, talked to by the official client over real sockets, in both bindings of 1.0."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from a2a.client import Client
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import (
    InvalidParamsError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from google.protobuf.json_format import MessageToDict

from deadline import DEADLINE
from protocols.a2a.a2a_bench import PNG, Bench, closed, connected, said, saying, task_of, text_of
from sabir.gateway.gateway import Gateway

BINDINGS = ["JSONRPC", "HTTP+JSON"]


@pytest.fixture(params=BINDINGS)
def binding(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def connect(serve, gateway: Gateway, binding: str) -> AsyncIterator:
    served = serve(gateway)
    made: list[Client] = []

    async def to(agent: str, as_: str | None = None, **config) -> Client:
        client = await connected(served.url, agent, binding, as_, **config)
        made.append(client)
        return client

    yield to
    for client in made:
        await closed(client)


async def test_a_message_is_answered_with_a_completed_task(connect) -> None:
    client = await connect("echo", streaming=False)
    (response,) = await said(client, saying("hello"))
    assert response.task.status.state == pb.TASK_STATE_COMPLETED
    assert text_of(response.task) == "hello"
    assert response.task.context_id.startswith("sb1.")
    assert [m.role for m in response.task.history] == [pb.ROLE_USER]


async def test_a_stream_has_pieces_progress_and_the_end(connect) -> None:
    client = await connect("pieces")
    first, *updates = await said(client, saying("go"))
    assert first.task.status.state in (pb.TASK_STATE_SUBMITTED, pb.TASK_STATE_WORKING)
    pieces = [u.artifact_update for u in updates if u.HasField("artifact_update")]
    assert [(p.artifact.parts[0].text, p.append) for p in pieces[:2]] == [("one, ", False), ("two", True)]
    assert MessageToDict(pieces[2].artifact.parts[0].data) == {"three": 3}
    working = next(u.status_update for u in updates if u.HasField("status_update"))
    assert working.status.message.parts[0].text == "half way"
    assert MessageToDict(working.metadata) == {"nlip": {"progress": 0.5}}
    assert updates[-1].status_update.status.state == pb.TASK_STATE_COMPLETED


async def test_images_languages_and_large_numbers_cross(connect) -> None:
    task = await task_of(await connect("painter"), saying("a heron"))
    words, picture, data = task.artifacts[0].parts
    assert (words.text, MessageToDict(words.metadata)) == ("voilà", {"nlip": {"subformat": "french"}})
    assert (picture.raw, picture.media_type, picture.filename) == (PNG, "image/png", "heron.png")
    assert (data.text, data.media_type) == (f'{{"size":[8,8],"id":{2**60}}}', "application/json")


async def test_what_is_sent_comes_back_unchanged(connect) -> None:
    sent = [
        pb.Part(text="hi"),
        pb.Part(raw=PNG, media_type="image/png", filename="a.png"),
        pb.Part(url="https://example.com/x"),
        pb.Part(text="<p>hi</p>", media_type="text/html"),
        pb.Part(text="print()", media_type="text/x-python"),
    ]
    sent[-1].metadata.update({"nlip": {"label": "code"}})
    task = await task_of(await connect("echo"), saying(*sent))
    assert list(task.artifacts[0].parts) == sent


async def test_a_conversation_continues_by_its_context(connect) -> None:
    client = await connect("counter")
    first = await task_of(client, saying("a"))
    second = await task_of(client, saying("b", context=first.context_id))
    third = await task_of(client, saying("c", context=first.context_id))
    assert [text_of(task) for task in (first, second, third)] == ["turn 1: a", "turn 2: b", "turn 3: c"]
    assert first.context_id == second.context_id == third.context_id


async def test_a_context_that_the_client_made_is_kept(connect) -> None:
    client = await connect("counter")
    own = "0f8fad5b-d9cb-469f-a165-70867728950e"
    first = await task_of(client, saying("a", context=own))
    second = await task_of(client, saying("b", context=own))
    assert (first.context_id, second.context_id) == (own, own)
    assert text_of(second) == "turn 2: b"


async def test_a_context_that_anybody_could_guess_is_refused_from_strangers(connect) -> None:
    with pytest.raises(InvalidParamsError, match="at least 22 characters"):
        await said(await connect("counter"), saying("a", context="ctx-1"))
    alice = await connect("counter", "alice")
    assert (await task_of(alice, saying("a", context="ctx-1"))).context_id == "ctx-1"


async def test_a_question_makes_the_task_wait_and_its_answer_resumes_it(connect) -> None:
    client = await connect("asker")
    *_, asking = await said(client, saying("paint"))
    status = asking.status_update.status
    assert status.state == pb.TASK_STATE_INPUT_REQUIRED
    words, shape = status.message.parts
    assert words.text == "Which colour?"
    assert MessageToDict(shape.data)["questions"][0]["options"] == ["red", "blue"]
    answered = await said(client, saying("blue", task=asking.status_update.task_id))
    assert answered[-1].status_update.status.state == pb.TASK_STATE_COMPLETED
    task = await client.get_task(pb.GetTaskRequest(id=asking.status_update.task_id))
    assert text_of(task) == "You chose blue."


async def test_a_blocking_send_returns_when_input_is_required(connect) -> None:
    client = await connect("asker", streaming=False)
    (asking,) = await said(client, saying("paint"))
    assert asking.task.status.state == pb.TASK_STATE_INPUT_REQUIRED
    (done,) = await said(client, saying("red", task=asking.task.id, context=asking.task.context_id))
    assert text_of(done.task) == "You chose red."


async def test_an_answer_in_another_context_is_refused(connect) -> None:
    client = await connect("asker", streaming=False)
    (asking,) = await said(client, saying("paint"))
    with pytest.raises(InvalidParamsError, match="contextId of the task"):
        await said(client, saying("red", task=asking.task.id, context="0f8fad5b-d9cb-469f-a165-70867728950e"))


async def test_a_task_is_returned_at_once_cancelled_and_stays_so(connect, bench: Bench) -> None:
    client = await connect("slow", streaming=False)
    (begun,) = await said(client, saying("work", return_immediately=True))
    assert begun.task.status.state in (pb.TASK_STATE_SUBMITTED, pb.TASK_STATE_WORKING)
    await asyncio.to_thread(bench.gate.entered.wait, DEADLINE)
    cancelled = await client.cancel_task(pb.CancelTaskRequest(id=begun.task.id))
    assert cancelled.status.state == pb.TASK_STATE_CANCELED
    assert await asyncio.to_thread(bench.gate.left.wait, DEADLINE), "the agent was not told"
    with pytest.raises(TaskNotCancelableError):
        await client.cancel_task(pb.CancelTaskRequest(id=begun.task.id))
    with pytest.raises(UnsupportedOperationError, match="has ended"):
        await said(client, saying("more", task=begun.task.id))


async def test_a_stream_that_was_dropped_is_taken_up_again(connect, bench: Bench) -> None:
    client = await connect("slow")
    stream = client.send_message(saying("work"))
    task = (await anext(stream)).task.id
    assert (await anext(stream)).artifact_update.artifact.parts[0].text == "first "
    await stream.aclose()  # the connection is closed under it
    again = client.subscribe(pb.SubscribeToTaskRequest(id=task))
    whole = (await anext(again)).task
    assert (whole.status.state, text_of(whole)) == (pb.TASK_STATE_WORKING, "first ")
    bench.gate.open()
    rest = [response async for response in again]
    assert [(u.artifact_update.artifact.parts[0].text, u.artifact_update.append) for u in rest[:1]] == [("last", True)]
    assert rest[-1].status_update.status.state == pb.TASK_STATE_COMPLETED
    with pytest.raises(UnsupportedOperationError):
        await anext(client.subscribe(pb.SubscribeToTaskRequest(id=task)))


async def test_the_same_message_sent_twice_is_one_task(connect) -> None:
    client = await connect("counter", streaming=False)
    request = saying("once", item_id="3d1c0a5e-5f0e-4d3e-9d55-0d6a4f1c2b3a")
    (first,), (second,) = await said(client, request), await said(client, request)
    assert first.task.id == second.task.id
    (other,) = await said(client, saying("other", item_id="3d1c0a5e-5f0e-4d3e-9d55-0d6a4f1c2b3a"))
    assert other.task.id != first.task.id


async def test_tasks_are_found_and_listed_by_their_owner_only(connect) -> None:
    alice, bob, nobody = await connect("echo", "alice"), await connect("echo", "bob"), await connect("echo")
    task = await task_of(alice, saying("mine"))
    for other in (bob, nobody):
        with pytest.raises(TaskNotFoundError):
            await other.get_task(pb.GetTaskRequest(id=task.id))
        with pytest.raises(TaskNotFoundError):
            await other.cancel_task(pb.CancelTaskRequest(id=task.id))
        with pytest.raises(TaskNotFoundError):
            await anext(other.subscribe(pb.SubscribeToTaskRequest(id=task.id)))
        with pytest.raises(TaskNotFoundError):
            await said(other, saying("mine too", task=task.id))
        assert not (await other.list_tasks(pb.ListTasksRequest())).tasks
    assert [t.id for t in (await alice.list_tasks(pb.ListTasksRequest())).tasks] == [task.id]


async def test_a_task_of_one_agent_is_not_found_with_another(connect) -> None:
    task = await task_of(await connect("echo", "alice"), saying("mine"))
    with pytest.raises(TaskNotFoundError):
        await (await connect("counter", "alice")).get_task(pb.GetTaskRequest(id=task.id))


async def test_lists_have_pages_filters_and_artifacts_on_request(connect) -> None:
    alice = await connect("echo", "alice")
    tasks = [await task_of(alice, saying(f"n{number}")) for number in range(5)]
    found: list[str] = []
    token = ""
    while True:
        page = await alice.list_tasks(pb.ListTasksRequest(page_size=2, page_token=token))
        assert (page.total_size, len(page.tasks) <= 2) == (5, True)
        found += [task.id for task in page.tasks]
        token = page.next_page_token
        if not token:
            break
    assert found == [task.id for task in reversed(tasks)]
    one = await alice.list_tasks(pb.ListTasksRequest(context_id=tasks[2].context_id, include_artifacts=True))
    assert [text_of(task) for task in one.tasks] == ["n2"]
    assert not (await alice.list_tasks(pb.ListTasksRequest(status=pb.TASK_STATE_WORKING))).tasks
    with pytest.raises(InvalidParamsError, match="pageSize"):
        await alice.list_tasks(pb.ListTasksRequest(page_size=1000))


async def test_the_history_is_as_long_as_wanted(connect) -> None:
    client = await connect("echo")
    task = await task_of(client, saying("hi"))
    assert len(task.history) == 1
    assert not (await client.get_task(pb.GetTaskRequest(id=task.id, history_length=0))).history


async def test_a_failure_is_a_failed_task_and_shows_nothing_inside(connect) -> None:
    task = await task_of(await connect("broken"), saying("x"))
    assert task.status.state == pb.TASK_STATE_FAILED
    assert "secret" not in str(task)
    assert task.status.message.parts[0].text.startswith("broken failed; the operator's log says why")


async def test_a_refusal_is_a_rejected_task(connect) -> None:
    task = await task_of(await connect("refuser"), saying("x"))
    assert (task.status.state, task.status.message.parts[0].text) == (pb.TASK_STATE_REJECTED, "not on a Sunday")


async def test_the_extended_card_is_for_known_callers(serve, gateway: Gateway, http: httpx.AsyncClient) -> None:
    served = serve(gateway)
    client = await connected(served.url, "painter", as_="alice")
    card = await client.get_extended_agent_card(pb.GetExtendedAgentCardRequest())
    assert MessageToDict(card.capabilities.extensions[0].params)["limits"] == {"pixels": 100}
    await closed(client)
    answer = await http.get(f"{served.url}/a2a/painter/extendedAgentCard", headers={"a2a-version": "1.0"})
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert answer.json()["error"]["status"] == "UNAUTHENTICATED"
    raised = {"a2a-version": "1.0", "authorization": "Bearer mallory"}
    answer = await http.get(f"{served.url}/a2a/painter/tasks", headers=raised)
    assert answer.status_code == 401
