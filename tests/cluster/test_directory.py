"""Yellow pages: offers with leases, templates, changes; over stores of both kinds that need no server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from deadline import DEADLINE
from sabir.bus.memory import MemoryBus
from sabir.card import Card, Skill
from sabir.cluster.directory import Change, Directory, Entry, Template
from sabir.errors import Conflict, NotFound
from sabir.stores.base import Store
from sabir.stores.open import open_store

HOTEL = Entry("hotel", "Rooms by the lake", ("booking", "Rooms"), languages=("en", "fr"), protocols=("bus", "nlip"))
TAXI = Entry("taxi", "Rides", ("booking", "rides"), ontologies=("elizaos:ride",), protocols=("bus",))


@pytest.fixture(params=["memory:", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    store = open_store(f"sqlite:///{tmp_path / 'd.db'}" if request.param == "sqlite" else request.param)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def directory(store: Store) -> Directory:
    return Directory(store, look_seconds=0.05)


async def names(directory: Directory, **slots: object) -> list[str]:
    return [entry.name for entry in await directory.search(Template(**slots))]  # type: ignore[arg-type]


async def test_what_is_registered_is_found_by_every_slot_that_is_filled(directory: Directory) -> None:
    await directory.register(HOTEL, "me")
    await directory.register(TAXI, "you")
    assert await names(directory) == ["hotel", "taxi"]
    assert await names(directory, skills=("BOOKING",)) == ["hotel", "taxi"]
    assert await names(directory, skills=("booking", "rooms")) == ["hotel"]
    assert await names(directory, skills=("booking",), languages=("FR",)) == ["hotel"]
    assert await names(directory, ontologies=("elizaos:ride",), protocols=("bus",)) == ["taxi"]
    assert await names(directory, name="Taxi") == ["taxi"]
    assert await names(directory, owner="me", skills=("rides",)) == []


async def test_no_more_than_asked_for_are_found(directory: Directory) -> None:
    for n in range(10):
        await directory.register(Entry(f"agent{n}"), "me")
    assert [entry.name for entry in await directory.search(max_results=3)] == ["agent0", "agent1", "agent2"]


async def test_a_card_becomes_an_entry(directory: Directory) -> None:
    card = Card("hotel", "Rooms", skills=(Skill("book", "Book a room", tags=("travel",)),), languages=("en",))
    await directory.register(Entry.of(card, node="n1", addresses={"bus": "agent.hotel"}), "gateway")
    (entry,) = await directory.find("hotel")
    assert entry.skills == ("book", "Book a room", "travel")
    assert (entry.protocols, entry.addresses, entry.node) == (("bus",), {"bus": "agent.hotel"}, "n1")
    assert entry.card == card


async def test_a_name_belongs_to_whoever_registered_it_first(directory: Directory) -> None:  # already_registered
    await directory.register(HOTEL, "me")
    with pytest.raises(Conflict, match="hotel is registered by somebody else"):
        await directory.register(HOTEL, "you")
    with pytest.raises(NotFound, match="hotel is not registered"):
        await directory.deregister("hotel", "you")
    await directory.deregister("hotel", "me")
    await directory.register(HOTEL, "you")


async def test_two_owners_at_once_get_one_name_once(directory: Directory) -> None:
    got = await asyncio.gather(
        *(directory.register(HOTEL, f"owner{n}") for n in range(8)),
        return_exceptions=True,
    )
    assert sum(isinstance(item, Entry) for item in got) == 1
    assert sum(isinstance(item, Conflict) for item in got) == 7


async def test_several_nodes_of_one_owner_offer_one_name(directory: Directory) -> None:
    for node in ("n1", "n2"):
        await directory.register(Entry("hotel", node=node), "gateway")
    assert [entry.node for entry in await directory.find("hotel")] == ["n1", "n2"]
    await directory.deregister("hotel", "gateway", node="n1")
    assert [entry.node for entry in await directory.find("hotel")] == ["n2"]
    with pytest.raises(Conflict):
        await directory.register(Entry("hotel"), "somebody")


async def test_a_lease_that_is_not_renewed_runs_out_and_frees_the_name(directory: Directory) -> None:
    await directory.register(HOTEL, "me", lease=0.05)
    await directory.register(TAXI, "me", lease=30)
    async with asyncio.timeout(DEADLINE):
        while await names(directory) != ["taxi"]:
            await asyncio.sleep(0.01)
    with pytest.raises(NotFound):
        await directory.renew("hotel", "me")
    await directory.register(HOTEL, "you")


@pytest.mark.parametrize("end", ["lease", "deregistered"])
async def test_a_name_may_be_kept_from_others_after_its_last_use(store: Store, end: str) -> None:  # ACL-47
    directory = Directory(store, name_seconds=60)
    await directory.register(HOTEL, "me", lease=0.05 if end == "lease" else 30)
    assert await directory.owner_of("hotel") == "me"
    if end == "deregistered":
        await directory.deregister("hotel", "me")
    async with asyncio.timeout(DEADLINE):
        while await directory.owner_of("hotel") is not None:
            await asyncio.sleep(0.01)
    with pytest.raises(Conflict):
        await directory.register(HOTEL, "you")
    with pytest.raises(Conflict):
        await directory.claim("hotel", "you", seconds=60)
    await directory.claim("hotel", "me", seconds=60)
    assert await directory.owner_of("hotel") == "me"


async def test_a_renewed_lease_continues(directory: Directory) -> None:
    first = await directory.register(HOTEL, "me", lease=0.5)
    await directory.renew("hotel", "me", lease=30)
    (entry,) = await directory.find("hotel")
    assert entry.until > first.until + 20


async def test_what_is_modified_keeps_its_lease_and_its_owner(directory: Directory) -> None:
    before = await directory.register(HOTEL, "me")
    after = await directory.modify(Entry("hotel", "Closed in winter"), "me")
    assert await directory.find("hotel") == [after]
    assert (after.description, after.owner, after.until) == ("Closed in winter", "me", before.until)
    with pytest.raises(NotFound):
        await directory.modify(Entry("hotel"), "you")


async def test_changes_are_announced_as_they_come(directory: Directory) -> None:
    await directory.register(HOTEL, "me")
    changes = directory.changes(Template(skills=("booking",)))

    async def next_change() -> tuple[str, str]:
        async with asyncio.timeout(DEADLINE):
            change: Change = await anext(changes)
        return change.kind, change.entry.name

    assert await next_change() == ("registered", "hotel")
    await directory.register(Entry("other"), "me")
    await directory.register(TAXI, "me", lease=0.2)
    assert await next_change() == ("registered", "taxi")
    await directory.renew("hotel", "me")
    await directory.modify(Entry("hotel", "New", ("booking",)), "me")
    assert await next_change() == ("modified", "hotel")
    assert await next_change() == ("deregistered", "taxi")  # its lease ran out
    await directory.deregister("hotel", "me")
    assert await next_change() == ("deregistered", "hotel")
    await changes.aclose()  # type: ignore[attr-defined]


async def test_what_went_between_two_polls_is_reported_as_gone(directory: Directory) -> None:
    await directory.register(Entry("hotel"), "ann")
    await directory.register(Entry("taxi"), "ann")
    seen = await directory.search()
    await directory.deregister("hotel", "ann")
    await directory.renew("taxi", "ann")
    changes = directory.changes(seen=seen)
    first = await anext(changes)
    assert (first.kind, first.entry.name) == ("deregistered", "hotel")
    await directory.modify(Entry("taxi", "Yellow"), "ann")
    second = await anext(changes)
    assert (second.kind, second.entry.description) == ("modified", "Yellow")
    await changes.aclose()  # type: ignore[attr-defined]


async def test_another_node_is_notified_of_a_change_over_the_bus_without_polling(store: Store) -> None:
    bus = MemoryBus()
    await bus.open()
    here, there = (Directory(store, bus, node=node, look_seconds=3600) for node in ("n1", "n2"))
    changes = there.changes()
    coming = asyncio.create_task(anext(changes))
    async with asyncio.timeout(DEADLINE):
        while not bus.receivers:
            await asyncio.sleep(0)
        await here.register(HOTEL, "me")
        change = await coming
    assert (change.kind, change.entry.name) == ("registered", "hotel")
    await changes.aclose()  # type: ignore[attr-defined]
    await there.close()
    await bus.close()


@pytest.mark.parametrize("passes", range(6))
async def test_a_follower_can_leave_at_the_very_moment_of_a_change(store: Store, passes: int) -> None:
    """Two nodes that stop at once tell each other so; each must still end."""
    directory = Directory(store, look_seconds=60.0)
    known = asyncio.Event()

    async def follow() -> None:
        async for _ in directory.changes():
            known.set()

    await directory.register(HOTEL, "me")
    following = asyncio.create_task(follow())
    await known.wait()
    await asyncio.sleep(0.01)  # it waits for the next change
    for wake in directory._watchers:
        wake.set()
    for _ in range(passes):
        await asyncio.sleep(0)
    following.cancel()
    _, still_there = await asyncio.wait([following], timeout=DEADLINE)
    assert not still_there
