"""A receiver of the same process has a letter with the commit that stores it, in order, and none gets stuck."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from acl_messages import message
from deadline import DEADLINE
from sabir.bus import Letter
from sabir.bus.framing import BusLimits
from sabir.bus.store import StoreBus
from sabir.dialogues.service import Dialogues, answer_to
from sabir.protocols.acl.wire.envelope import Envelope, decode, envelope_of
from sabir.stores import open_store
from sabir.stores.letters import DialogueEntry, Letters, Outcome

LIMITS = BusLimits(ack_seconds=600.0)  # no test here waits for a lease to run out


@pytest.fixture(params=["memory:", "sqlite:///{}/sabir.db"])
async def dialogues(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Dialogues]:
    store = open_store(request.param.format(tmp_path))
    await store.open()
    assert isinstance(store, Letters)
    bus = StoreBus(store, LIMITS)
    await bus.open()
    yield Dialogues(store, bus)
    await bus.close()
    await store.close()


def said(message_id: str, act: str = "TASK_REQUEST") -> Envelope:
    parties = {"sender": {"agent_id": "eddy"}, "receiver": {"agent_id": "jules"}}
    return envelope_of(message(act, message_id=message_id, **parties))


class Inbox:
    """Handles letters by noting their ids."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.arrived = asyncio.Event()

    async def __call__(self, letter: Letter) -> None:
        self.ids.append(decode(letter.body).message_id)
        self.arrived.set()

    async def has(self, count: int) -> list[str]:
        async with asyncio.timeout(DEADLINE):
            while len(self.ids) < count:
                self.arrived.clear()
                await self.arrived.wait()
        return self.ids


async def test_messages_of_a_conversation_are_handled_in_order(dialogues: Dialogues) -> None:  # ACL-31
    jules, eddy = Inbox(), Inbox()
    await dialogues.bus.receive("jules", jules)
    await dialogues.bus.receive("eddy", eddy)
    asked = [said(f"m{n}") for n in range(20)]
    await asyncio.gather(*(dialogues.post(envelope, "jules") for envelope in asked))
    assert sorted(await jules.has(20)) == sorted(envelope.message_id for envelope in asked)
    for act, payload in (
        ("TASK_ACCEPT", {"status": "accepted"}),
        ("INFORM_PROGRESS", {"note": "half"}),
        ("INFORM_RESULT", {"task_status": "success", "result_summary": "x", "result_details": {}}),
    ):
        await dialogues.post(answer_to(asked[0], act, payload, sender="jules", message_id=act), "eddy")
    assert await eddy.has(3) == ["TASK_ACCEPT", "INFORM_PROGRESS", "INFORM_RESULT"]
    await dialogues.bus.settle()
    assert await dialogues.bus.waiting("jules") == await dialogues.bus.waiting("eddy") == 0


async def test_a_message_whose_sender_gave_up_meanwhile_is_handled_all_the_same(dialogues: Dialogues) -> None:
    """It is written, and held for a receiver that never learns of it: so it is given back."""
    jules = Inbox()
    await dialogues.bus.receive("jules", jules)
    write = dialogues.store.converse_and_hand
    written = asyncio.Event()

    async def write_and_wait(entry: DialogueEntry, holder: str, lease: float) -> tuple[Outcome, int]:
        result = await write(entry, holder, lease)
        written.set()
        await asyncio.Event().wait()
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dialogues.store, "converse_and_hand", write_and_wait)
        posting = asyncio.create_task(dialogues.post(said("m1"), "jules"))
        async with asyncio.timeout(DEADLINE):
            await written.wait()
        posting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await posting
    assert await jules.has(1) == ["m1"]


async def test_a_receiver_that_stops_meanwhile_gives_the_letter_back(dialogues: Dialogues) -> None:
    first, second = Inbox(), Inbox()
    receiver = await dialogues.bus.receive("jules", first)
    taker = dialogues.bus.taker("jules")
    assert taker is not None
    write = dialogues.store.converse_and_hand

    async def write_and_stop(entry: DialogueEntry, holder: str, lease: float) -> tuple[Outcome, int]:
        result = await write(entry, holder, lease)
        await receiver.stop()
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dialogues.store, "converse_and_hand", write_and_stop)
        await dialogues.post(said("m1"), "jules")
    await dialogues.bus.receive("jules", second)
    assert await second.has(1) == ["m1"]
    assert first.ids == []
