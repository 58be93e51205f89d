"""With a shared folder, an upload to one node is read on another, and downloads work from any node."""

from __future__ import annotations

import asyncio
from pathlib import Path

from deadline import DEADLINE
from sabir import Turn, agent
from sabir.bus.memory import MemoryBus
from sabir.events import Event, Reply
from sabir.exchange.request import EventSink, TurnRequest
from sabir.gateway.gateway import Gateway
from sabir.guard import Credentials
from sabir.message import Message, text_part, uri_part
from sabir.stores.memory import MemoryStore
from sabir.turn import Caller

SECRET = "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldA"
ANN = Caller("key:ann", "key")


@agent(name="reader")
async def reader(turn: Turn) -> Message:
    [found] = await turn.attachments.all(turn.message)
    data = b"".join([block async for block in found.chunks()])
    return Message.of(text_part(data.decode()), await turn.attachments.give(data.upper(), "text/plain"))


@agent(name="local")
async def local(turn: Turn) -> str:
    return "local"


async def test_an_upload_is_read_on_another_node_and_one_that_it_gives_is_its_callers(home: Path) -> None:
    store, bus = MemoryStore(), MemoryBus()
    shared = {"home": home, "store": store, "bus": bus, "secrets": (SECRET,), "public_url": "http://shared.example"}
    there = Gateway(reader, node="there", **shared)  # type: ignore[arg-type]
    here = Gateway(local, node="here", **shared)  # type: ignore[arg-type]
    await there.start()
    await here.start()
    async with asyncio.timeout(DEADLINE):
        while "reader" not in here.agents:
            await asyncio.sleep(0.01)
    conversations = here.exchange.conversations
    token = conversations.token("talk", ANN, conversations.sort((), ANN))
    uploads = here.uploads
    place, upload = await uploads.offer("talk", ANN)
    async with uploads.begin(upload) as writing:
        await writing.write(b"a letter")
        await writing.finish()
    said: list[Event] = []

    async def hear(event: Event) -> None:
        said.append(event)

    message = Message.text("read this", parts=[uri_part(uploads.public_url + place), token])
    await here.exchange.ask(TurnRequest(message, "nlip", "reader", Credentials(caller=ANN)), EventSink(hear))
    reply = said[-1]
    assert isinstance(reply, Reply) and reply.message.text == "a letter"
    given = reply.message.labelled("download")
    assert given is not None
    fetched = await uploads.of("talk", ANN).open(given)
    assert fetched.path.read_bytes() == b"A LETTER"
    for gateway in (here, there):
        await store.open()
        await bus.open()
        await gateway.stop()
