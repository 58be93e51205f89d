"""An agent that dies while it works: its messages are redelivered, and nothing is sent twice."""

from __future__ import annotations

import asyncio
import json
from uuid import uuid4

from conftest import Served
from deadline import DEADLINE
from sabir.protocols.acl.peer.messenger import AclConversation, Messenger
from sabir.protocols.acl.wire.envelope import Envelope


async def registered(messenger: Messenger) -> None:
    """Let the gateway know the name of an agent, so that messages wait for it."""
    await messenger.link.waiting(messenger.name)


async def test_a_worker_that_dies_after_accepting_a_task_resumes_it(served: Served) -> None:  # ACL-30
    url, name = f"{served.url}/acl", f"worker-{uuid4().hex[:8]}"
    attempts = 0
    accepted = asyncio.Event()

    def worker() -> Messenger:
        messenger = Messenger(url, name)

        @messenger.on("TASK_REQUEST")
        async def work(conversation: AclConversation, message: Envelope) -> None:
            nonlocal attempts
            attempts += 1
            await conversation.say("TASK_ACCEPT", {"status": "accepted"})
            accepted.set()
            if attempts == 1:
                await asyncio.Event().wait()  # it dies here
            result = {"task_status": "success", "result_summary": f"attempt {attempts}", "result_details": {}}
            await conversation.say("INFORM_RESULT", result)

        return messenger

    first = worker()
    await registered(first)
    async with Messenger(url, f"eddy-{uuid4().hex[:8]}") as eddy, asyncio.timeout(60):
        async with first:
            conversation = await eddy.request(name, "work")
            await accepted.wait()
        async with worker():
            acts = [message.performative async for message in conversation]
            last = conversation.state
    assert acts == ["TASK_ACCEPT", "INFORM_RESULT"]
    assert (attempts, last) == (2, "done")


async def test_a_message_that_comes_again_while_it_is_handled_is_handled_once(served: Served) -> None:  # ACL-25
    url = f"{served.url}/acl"
    release = asyncio.Event()
    handled: list[str] = []
    async with Messenger(url, f"worker-{uuid4().hex[:8]}") as worker, Messenger(url, f"eddy-{uuid4().hex[:8]}") as eddy:

        @worker.on("TASK_REQUEST")
        async def work(conversation: AclConversation, message: Envelope) -> None:
            handled.append(message.message_id)
            await release.wait()
            result = {"task_status": "success", "result_summary": "done", "result_details": {}}
            await conversation.say("INFORM_RESULT", result)

        await registered(worker)
        async with asyncio.timeout(60):
            conversation = await eddy.request(worker.name, "work")
            while not handled:
                await asyncio.sleep(0.01)
            (item,) = (await worker.link.waiting(worker.name))["messages"]
            worker._arrived(item["id"], json.dumps(item["message"]).encode())
            assert len((await worker.link.waiting(worker.name))["messages"]) == 1  # not acknowledged by the second one
            release.set()
            await conversation.result(DEADLINE)
            while (await worker.link.waiting(worker.name))["messages"]:
                await asyncio.sleep(0.01)
    assert len(handled) == 1
