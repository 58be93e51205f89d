"""An agent written with the official SDK alone, on a real socket: what our peer talks to."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from a2a.helpers import new_task_from_user_message, new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import a2a_pb2 as pb
from starlette.applications import Starlette

from deadline import DEADLINE


class Executor(AgentExecutor):
    """Follows commands: ``message``, ``stream``, ``ask``, ``fail``, ``wait``, or says which context it is in."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()
        self.reached = threading.Event()
        self.go_on = threading.Event()

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        words = context.get_user_input()
        if words == "message":
            await event_queue.enqueue_event(new_text_message("a message", context_id=context.context_id))
            return
        if words == "echo":
            assert context.message is not None
            back = pb.Message()
            back.CopyFrom(context.message)
            back.role, back.message_id = pb.ROLE_AGENT, "echo"
            back.metadata.update({"extensions asked for": sorted(context.call_context.requested_extensions)})
            await event_queue.enqueue_event(back)
            return
        if words == "late":  # silent until released
            self.reached.set()
            while not self.go_on.is_set():
                await asyncio.sleep(0.005)
        task = context.current_task or new_task_from_user_message(context.message)
        if context.current_task is None:
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        asked = context.current_task is not None
        await getattr(self, f"_{words}", self._context)(updater, words, asked)

    async def _context(self, updater: TaskUpdater, words: str, asked: bool) -> None:
        answer = f"answered {words}" if asked else updater.context_id
        await updater.add_artifact([pb.Part(text=answer)])
        await updater.complete()

    async def _stream(self, updater: TaskUpdater, words: str, asked: bool) -> None:
        await updater.start_work(updater.new_agent_message([pb.Part(text="working on it")]))
        for number, text in enumerate(("one ", "two ", "three")):
            await updater.add_artifact([pb.Part(text=text)], artifact_id="a", append=number > 0)
        await updater.complete()

    async def _report(self, updater: TaskUpdater, words: str, asked: bool) -> None:
        await updater.add_artifact(
            [pb.Part(text="All is well.")], artifact_id="a", name="Report", metadata={"pages": 1}
        )
        table = pb.Part(raw=b"a,b", media_type="text/csv", filename="a.csv")
        await updater.add_artifact([table], artifact_id="b", extensions=["urn:example:table"])
        await updater.complete(updater.new_agent_message([pb.Part(text="See the table, too.")]))

    async def _login(self, updater: TaskUpdater, words: str, asked: bool) -> None:
        await updater.requires_auth(updater.new_agent_message([pb.Part(text="Please log in at the desk.")]))

    async def _ask(self, updater: TaskUpdater, words: str, asked: bool) -> None:
        await updater.requires_input(updater.new_agent_message([pb.Part(text="Which colour?")]))

    async def _fail(self, updater: TaskUpdater, words: str, asked: bool) -> None:
        await updater.failed(updater.new_agent_message([pb.Part(text="no luck today")]))

    async def _wait(self, updater: TaskUpdater, words: str, asked: bool) -> None:
        await updater.start_work(updater.new_agent_message([pb.Part(text="waiting")]))
        await asyncio.Event().wait()

    _late = _wait

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.cancelled.set()
        await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").cancel()


def card(url: str, *, streaming: bool = True, versions: tuple[str, ...] = ("1.0",)) -> pb.AgentCard:
    return pb.AgentCard(
        name="SDK agent",
        description="Written with the SDK",
        version="1",
        supported_interfaces=[
            pb.AgentInterface(url=url, protocol_binding=binding, protocol_version=version)
            for version in versions
            for binding in ("JSONRPC", "HTTP+JSON")
        ],
        capabilities=pb.AgentCapabilities(streaming=streaming),
        default_input_modes=["text/plain", "application/json", "application/octet-stream"],
        default_output_modes=["text/plain"],
        skills=[pb.AgentSkill(id="s", name="S", description="s", tags=["t"])],
    )


@contextmanager
def sdk_server(*, streaming: bool = True, versions: tuple[str, ...] = ("1.0",)) -> Iterator[tuple[str, Executor]]:
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{sock.getsockname()[1]}"
    executor, answer = Executor(), card(url, streaming=streaming, versions=versions)
    handler = DefaultRequestHandler(executor, InMemoryTaskStore(), answer)
    routes = [
        *create_agent_card_routes(answer),
        *create_jsonrpc_routes(handler, "/", enable_v0_3_compat=True),
        *create_rest_routes(handler, enable_v0_3_compat=True),
    ]
    config = uvicorn.Config(Starlette(routes=routes), log_level="critical", lifespan="off", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.005)
    try:
        yield url, executor
    finally:
        server.should_exit = True
        thread.join(DEADLINE)
