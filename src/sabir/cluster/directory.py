"""The directory: which agents are offered, and where. Shared by all nodes through the store.

An entry is an offer with a lease; one that is not renewed disappears. A name belongs to whoever registered it first,
while the lease lasts; several nodes of one owner may offer the same name. Search is by template: every slot that the
template fills must match.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from typing import Final, Literal

import msgspec

from sabir.aio import cancel_and_wait
from sabir.bus.base import Bus, Letter, LetterReceiver, Receiving
from sabir.card import Card
from sabir.errors import BusUnavailable, Conflict, NotFound, StoreUnavailable
from sabir.ids import new_id
from sabir.stores.base import Record, Store
from sabir.stores.rows import value_of

ENTRIES: Final = "directory"
OWNERS: Final = "directory-owners"
VERSION: Final = "directory-version"  # counts changes, so that not all entries are read each time
GROUP: Final = "sabir.directory"  # where nodes announce changes
NODE_OWNER: Final = "gateway"  # the owner of entries made by the nodes themselves
LEASE_SECONDS: Final = 30.0
NAME_SECONDS: Final = 604_800.0  # by default as long as letters wait for an absent agent
GOODBYE_SECONDS: Final = 1.0  # for announcing the last change; others poll anyway
_MAX_OFFERS: Final = 100_000


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One offer. ``addresses`` has one per protocol."""

    name: str
    description: str = ""
    skills: tuple[str, ...] = ()
    ontologies: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    protocols: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()  # that ACL messages can be sent to
    addresses: dict[str, str] = {}
    node: str = ""  # which node of its owner offers it; empty with a single node
    owner: str = ""
    key: str = ""  # for checking its signatures
    card: Card | None = None
    until: float = 0.0  # when the lease ends; 0: never

    @classmethod
    def of(cls, card: Card, *, node: str = "", addresses: dict[str, str] | None = None) -> Entry:
        """The entry for an agent with this card."""
        skills = dict.fromkeys(word for skill in card.skills for word in (skill.id, skill.name, *skill.tags) if word)
        reached = addresses or {}
        return cls(
            card.name,
            card.description,
            tuple(skills),
            ontologies=card.ontologies,
            languages=card.languages,
            protocols=tuple(reached),
            addresses=reached,
            node=node,
            card=card,
        )


class Template(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A search. An empty slot matches everything; letter case is ignored."""

    name: str = ""
    skills: tuple[str, ...] = ()
    ontologies: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    protocols: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    node: str = ""
    owner: str = ""

    def matches(self, entry: Entry) -> bool:
        return all(_fits(getattr(self, slot), getattr(entry, slot)) for slot in self.__struct_fields__)


ANY: Final = Template()


class Change(msgspec.Struct, frozen=True):
    """A change: the old entry, or the new one."""

    kind: Literal["registered", "modified", "deregistered"]
    entry: Entry
    version: int = 0  # of the record, if it was modified


_SLOTS: Final = ("skills", "ontologies", "languages", "protocols", "groups")


class Index:
    """A snapshot of the entries, indexed by each word that they offer."""

    def __init__(self, version: bytes, entries: Iterable[tuple[str, Entry]]) -> None:
        self.version = version
        self.entries = dict(entries)
        self._by: dict[tuple[str, str], set[str]] = {}
        for key, entry in self.entries.items():
            for slot in _SLOTS:
                for word in getattr(entry, slot):
                    self._by.setdefault((slot, word.casefold()), set()).add(key)

    def candidates(self, template: Template) -> list[str]:
        """The keys of the entries that offer every word of the template, in order."""
        words = [(slot, word.casefold()) for slot in _SLOTS for word in getattr(template, slot)]
        if not words:
            return list(self.entries)
        sets = sorted((self._by.get(word, set()) for word in words), key=len)
        return sorted(sets[0].intersection(*sets[1:]))


def _used_until(claim: Record) -> float:
    """How long a name is in use; after that it is only kept from others."""
    try:
        until = float(claim.value)
    except ValueError:  # of an older version: there was no time between the two
        until = claim.expires
    return until or math.inf


class Directory:
    """Registers and finds agents, and announces changes."""

    def __init__(
        self,
        store: Store,
        bus: Bus | None = None,
        *,
        node: str = "",
        look_seconds: float = 5.0,
        name_seconds: float = 0.0,
    ) -> None:
        """``name_seconds``: so long after its last use a name is nobody else's, because letters may wait for it."""
        self.store = store
        self.bus = bus
        self.node = node or "directory"
        self.look_seconds = look_seconds
        self.name_seconds = name_seconds
        self._watchers: set[asyncio.Event] = set()
        self._receiver: LetterReceiver | None = None
        self._announcing: asyncio.Task[None] | None = None
        self._unannounced = False
        self._index: Index | None = None

    # -- offering ---------------------------------------------------------------------------------

    async def register(self, entry: Entry, owner: str, *, lease: float = LEASE_SECONDS) -> Entry:
        """Offer something. Registering again replaces the entry and renews its lease.

        Raises:
            Conflict: the name belongs to somebody else.
        """
        until = time.time() + lease if lease else 0.0
        await self._claim(entry.name, owner, until)
        entry = msgspec.structs.replace(entry, owner=owner, until=until)
        key = _key(entry.name, entry.node)
        known = await self.store.get(ENTRIES, key)
        await self.store.put(Record(ENTRIES, key, _encode(entry), owner, until))
        before = _read(known) if known is not None else None
        if before is None or msgspec.structs.replace(before, until=until) != entry:
            await self._changed()
        else:
            self._wake_watchers()
        return entry

    async def modify(self, entry: Entry, owner: str) -> Entry:
        """Change an offer; its lease stays.

        Raises:
            NotFound: the owner has no offer of this name.
            Conflict: it was changed by somebody else at the same moment.
        """
        known = await self._record(entry.name, entry.node, owner)
        changed = msgspec.structs.replace(entry, owner=owner, until=known.expires)
        record = msgspec.structs.replace(known, value=_encode(changed))
        if not await self.store.put(record, expect=known.version):
            raise Conflict(f"{entry.name} was changed concurrently")
        await self._changed()
        return changed

    async def renew(self, name: str, owner: str, *, node: str = "", lease: float = LEASE_SECONDS) -> None:
        """Extend a lease.

        Raises:
            NotFound: the owner has no readable offer of this name; the lease may have expired.
        """
        known = await self._record(name, node, owner)
        entry = _read(known)
        if entry is None:
            raise NotFound(f"the entry of {name} cannot be read any more")
        until = time.time() + lease if lease else 0.0
        await self._claim(name, owner, until)
        entry = msgspec.structs.replace(entry, until=until)
        await self.store.put(msgspec.structs.replace(known, value=_encode(entry), expires=until))

    async def deregister(self, name: str, owner: str, *, node: str = "") -> None:
        """Withdraw an offer.

        Raises:
            NotFound: the owner has no offer of this name.
        """
        await self._record(name, node, owner)
        await self.store.delete(ENTRIES, _key(name, node))
        if not await self.find(name):
            await self.store.put(self._claim_of(name, owner, time.time()))
        await self._changed()

    async def claim(self, name: str, owner: str, *, seconds: float) -> None:
        """Own a name without offering anything, as a sender of messages does.

        Raises:
            Conflict: the name belongs to somebody else.
        """
        await self._claim(name, owner, time.time() + seconds)

    async def owner_of(self, name: str) -> str | None:
        """The owner of a name in use; None if it is unknown."""
        known = await self.store.get(OWNERS, name)
        return known.owner if known is not None and _used_until(known) > time.time() else None

    async def names_of(self, owner: str) -> list[str]:
        """All owned names."""
        return [record.key for record in await self.store.list(OWNERS, owner=owner)]

    async def _claim(self, name: str, owner: str, until: float) -> None:
        claim = self._claim_of(name, owner, until)
        while True:
            known = await self.store.get(OWNERS, name)
            if known is None:
                if await self.store.put(claim, expect=0):
                    return
            elif known.owner != owner:
                raise Conflict(f"{name} is registered by somebody else")
            elif _used_until(known) < (until or math.inf):
                expires = max(known.expires, claim.expires) if until else 0.0
                if await self.store.put(msgspec.structs.replace(claim, expires=expires), expect=known.version):
                    return
            else:
                return

    def _claim_of(self, name: str, owner: str, until: float) -> Record:
        return Record(OWNERS, name, str(until).encode(), owner, until + self.name_seconds if until else 0.0)

    async def _record(self, name: str, node: str, owner: str) -> Record:
        record = await self.store.get(ENTRIES, _key(name, node))
        if record is None or record.owner != owner:
            raise NotFound(f"{name} is not registered")
        return record

    # -- looking ----------------------------------------------------------------------------------

    async def find(self, name: str) -> list[Entry]:
        """Every offer of a name."""
        records = await self.store.list(ENTRIES, prefix=f"{name}/", limit=_MAX_OFFERS)
        return [entry for record in records if (entry := _read(record)) is not None]

    async def search(self, template: Template = ANY, *, max_results: int = 100) -> list[Entry]:
        """The entries that match a template, ordered by name."""
        if template.name:
            named = await self.find(template.name)
            if named:
                return [entry for entry in named if template.matches(entry)][:max_results]
        index = await self._fresh_index()
        found: list[Entry] = []
        for key in index.candidates(template):
            entry: Entry | None = index.entries[key]
            if entry is not None and 0 < entry.until <= time.time():  # its lease may have been renewed meanwhile
                record = await self.store.get(ENTRIES, key)
                entry = _read(record) if record is not None else None
            if entry is not None and template.matches(entry):
                found.append(entry)
                if len(found) >= max_results:
                    break
        return found

    async def _fresh_index(self) -> Index:
        """The index of entries; reread only after a change, on whichever node."""
        record = await self.store.get(VERSION, "")
        version = record.value if record is not None else b""
        if self._index is None or self._index.version != version:
            records = await self.store.list(ENTRIES, limit=_MAX_OFFERS)
            self._index = Index(version, [(item.key, entry) for item in records if (entry := _read(item)) is not None])
        return self._index

    async def _changed(self) -> None:
        await self.store.put(Record(VERSION, "", new_id().encode()))  # any new value
        self._wake_watchers()

    async def changes(self, template: Template = ANY, seen: Iterable[Entry] = ()) -> AsyncIterator[Change]:
        """The current matches, then every change as it happens; endless.

        ``seen`` is what the caller already knows: only changes to that are reported.
        """
        wake = asyncio.Event()
        self._watchers.add(wake)
        known = {_key(entry.name, entry.node): (b"", entry) for entry in seen}
        try:
            await self._hear()
            while True:
                wake.clear()
                with suppress(StoreUnavailable):  # then no change is known; poll again later
                    records = await self.store.list(ENTRIES, limit=_MAX_OFFERS)
                    for change in _compared(known, records, template):
                        yield change
                with suppress(TimeoutError):
                    # Expired leases are not announced, so poll periodically.
                    async with asyncio.timeout(self.look_seconds):
                        await wake.wait()
        finally:
            self._watchers.discard(wake)

    async def close(self) -> None:
        if self._announcing is not None and not self._announcing.done():
            await asyncio.wait([self._announcing], timeout=GOODBYE_SECONDS)
        await cancel_and_wait([self._announcing])
        if self._receiver is not None:
            await self._receiver.stop()
            self._receiver = None

    async def _hear(self) -> None:
        if self.bus is not None and self._receiver is None:
            with suppress(BusUnavailable):  # polling is enough
                receiving = Receiving(idle_seconds=60.0)
                self._receiver = await self.bus.join(GROUP, self.node, self._on_letter, receiving)

    async def _on_letter(self, letter: Letter) -> None:
        for wake in self._watchers:
            wake.set()

    def _wake_watchers(self) -> None:
        for wake in self._watchers:
            wake.set()
        self._unannounced = True
        if self.bus is not None and (self._announcing is None or self._announcing.done()):
            # In the background: an unavailable bus retries for longer than anybody should wait.
            self._announcing = asyncio.create_task(self._announce(self.bus), name="directory: announcing")

    async def _announce(self, bus: Bus) -> None:
        while self._unannounced:
            self._unannounced = False
            with suppress(BusUnavailable):
                await bus.publish(Letter(GROUP, b"", sender=self.node))


def _compared(known: dict[str, tuple[bytes, Entry]], records: Iterable[Record], template: Template) -> list[Change]:
    """The differences from what was known; updates ``known``."""
    changes: list[Change] = []
    gone = set(known)
    for record in records:
        before = known.get(record.key)
        if before is not None and before[0] == record.value:
            gone.discard(record.key)
            continue
        entry = _read(record)
        if entry is None or not template.matches(entry):
            continue
        gone.discard(record.key)
        known[record.key] = (record.value, entry)
        if before is None:
            changes.append(Change("registered", entry))
        elif msgspec.structs.replace(before[1], until=entry.until) != entry:
            changes.append(Change("modified", entry, record.version))
    changes += [Change("deregistered", known.pop(key)[1]) for key in sorted(gone)]
    return changes


def _fits(wanted: str | tuple[str, ...], offered: str | tuple[str, ...]) -> bool:
    if isinstance(wanted, str) and isinstance(offered, str):
        return not wanted or wanted.casefold() == offered.casefold()
    return {word.casefold() for word in wanted} <= {word.casefold() for word in offered}


def _key(name: str, node: str) -> str:
    return f"{name}/{node}"


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Entry).decode


def _read(record: Record) -> Entry | None:
    return value_of(record, _decode)
