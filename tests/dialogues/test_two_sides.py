"""Two services, each with a store of its own, over a line that loses, repeats and reorders; and both restart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acl_messages import message
from sabir.bus.store import StoreBus
from sabir.dialogues.service import Dialogues, dialogue_of, limits_for
from sabir.dialogues.settings import DialogueSettings
from sabir.dialogues.states import CANCEL_FAILED, PROTOCOLS, Dialogue, I, P, Role
from sabir.errors import BadMessage, Conflict
from sabir.protocols.acl.wire.envelope import Envelope, envelope_of
from sabir.stores import Store, open_store
from sabir.stores.letters import Letters
from sabir.stores.memory import MemoryStore

SETTINGS = DialogueSettings(inbox_messages=1_000, sender_messages=1_000)
NAMES: dict[Role, str] = {I: "eddy", P: "jules"}
OPENER = "msg_open"
STEPS = ("act", "act", "deliver", "deliver", "deliver", "restart")


class Side:
    """One gateway: its store, which stays through restarts, and all that it has said."""

    def __init__(self, role: Role, make: Callable[[], Store]) -> None:
        self.role = role
        self.other: Role = P if role == I else I
        self.sent: list[Envelope] = []  # sent again until the other side has it
        self.refused: set[str] = set()  # ids that were out of sequence when they came
        self._make = make
        self._ids = count(1)
        self._store: Store | None = None

    async def restart(self) -> None:
        """Nothing but the store is left of what was; one in memory is the process's, and only the service goes."""
        if not isinstance(self._store, MemoryStore):
            if self._store is not None:
                await self._store.close()
            self._store = self._make()
            await self._store.open()
        assert isinstance(self._store, Letters)
        self.dialogues = Dialogues(self._store, StoreBus(self._store, limits_for(SETTINGS)), SETTINGS)

    async def close(self) -> None:
        assert self._store is not None
        await self._store.close()

    async def dialogue(self) -> Dialogue | None:
        row = await self.dialogues.store.dialogue(OPENER, NAMES[I], NAMES[P])
        return None if row is None else dialogue_of(row)

    async def state(self) -> str:
        dialogue = await self.dialogue()
        return "" if dialogue is None else dialogue.state

    async def is_over(self) -> bool:
        dialogue = await self.dialogue()
        return dialogue is not None and dialogue.is_over

    async def say(self, act: str, *, opens: bool = False) -> None:
        """An act of this side, which it has checked and written before the line has it."""
        dialogue = await self.dialogue()
        answers = OPENER
        if act == CANCEL_FAILED:
            assert dialogue is not None and dialogue.cancel is not None
            act, answers = "FAILURE", dialogue.cancel
        given = message(
            act,
            message_id=OPENER if opens else f"msg_{self.role}_{next(self._ids)}",
            sender={"agent_id": NAMES[self.role]},
            receiver={"agent_id": NAMES[self.other]},
            conversation_id=OPENER,
            in_reply_to=None if opens else answers,
        )
        posted = await self.dialogues.post(envelope_of(given), NAMES[self.other])
        assert not posted.duplicate
        self.sent.append(posted.envelope)

    async def hear(self, envelope: Envelope, *, final: bool) -> None:
        """What the line brought. If a refusal is final, the message is not taken later either."""
        if envelope.message_id in self.refused:
            return
        before = await self.state()
        try:
            await self.dialogues.post(envelope, NAMES[self.role])
        except (Conflict, BadMessage):
            assert await self.state() == before
            if final:
                self.refused.add(envelope.message_id)


async def chatter(sides: dict[Role, Side], data: st.DataObject, longest: int, *, final: bool) -> None:
    for _ in range(data.draw(st.integers(1, longest), "steps")):
        side = sides[data.draw(st.sampled_from([I, P]))]
        others = sides[side.other].sent
        match data.draw(st.sampled_from(STEPS)):
            case "act":
                dialogue = await side.dialogue()
                if dialogue is not None and (legal := dialogue.legal(side.role)):
                    await side.say(data.draw(st.sampled_from(legal)))
            case "deliver" if others:  # any of what was sent, in any order, as often as the line likes; or never
                await side.hear(data.draw(st.sampled_from(others)), final=final)
            case "restart":
                await side.restart()


async def talk(protocol: str, data: st.DataObject, make: Callable[[Role], Store], longest: int) -> None:
    sides = {role: Side(role, lambda role=role: make(role)) for role in (I, P)}  # type: ignore[misc]
    for side in sides.values():
        await side.restart()
    final = data.draw(st.booleans(), "a refusal is final")
    await sides[I].say(data.draw(st.sampled_from(PROTOCOLS[protocol].opens)), opens=True)
    await chatter(sides, data, longest, final=final)
    for _ in range(2 + len(sides[I].sent) + len(sides[P].sent)):  # at last everything arrives
        for side in sides.values():
            for envelope in sides[side.other].sent:
                await side.hear(envelope, final=final)
    for side in sides.values():
        await side.restart()
    over = [await side.is_over() for side in sides.values()]
    states = [await side.state() for side in sides.values()]
    if all(over) or (any(over) and not final):
        assert states[0] == states[1]
    for side in sides.values():
        await side.close()


@pytest.mark.parametrize("protocol", PROTOCOLS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_two_services_never_disagree_on_how_a_conversation_ended(
    protocol: str, data: st.DataObject
) -> None:  # ACL-24, ACL-25, ACL-28
    asyncio.run(talk(protocol, data, lambda role: open_store("memory:"), 30))


@pytest.mark.parametrize("protocol", ["request", "contract-net"])
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_nor_do_they_with_files_that_are_closed_and_opened_again(
    protocol: str, data: st.DataObject
) -> None:  # ACL-24, ACL-25, ACL-28
    with TemporaryDirectory() as folder:
        asyncio.run(talk(protocol, data, lambda role: open_store(f"sqlite:///{Path(folder)}/{role}.db"), 12))
