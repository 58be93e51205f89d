"""Boxes and dialogues in memory."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import count
from time import time as now

import msgspec

from .base import AuditLine
from .letters import (
    EXPIRED,
    HIGH,
    DeadRow,
    DialogueRow,
    Entry,
    LetterNotices,
    LetterRow,
    Outcome,
    UtteranceRow,
)

_Box = tuple[str, str]


class _Contents:
    """The letters of one box: by priority, then by arrival; and their holders."""

    def __init__(self) -> None:
        self.waiting: tuple[dict[int, LetterRow], ...] = ({}, {}, {})
        self.ids: set[str] = set()
        self.lanes: dict[str, list[int]] = {}  # the numbers of a lane's letters in the box, in order
        self.held: dict[int, tuple[str, float]] = {}

    def find(self, number: int) -> LetterRow | None:
        return next((rows[number] for rows in self.waiting if number in rows), None)

    def put(self, row: LetterRow, holder: str = "", lease: float = 0.0) -> bool:
        """Put a letter into the box; returns whether it was handed to the holder, which needs all earlier ones of its
        lane."""
        handed = bool(holder)
        if row.lane:
            before = self.lanes.setdefault(row.lane, [])
            ahead = self.find(before[-1]) if before else None
            if ahead is not None and ahead.priority < row.priority:
                row = msgspec.structs.replace(row, priority=ahead.priority)
            handed = handed and all(self._is_held(number, holder) for number in before)
            before.append(row.number)
        if handed:
            row = msgspec.structs.replace(row, deliveries=1)
            self.held[row.number] = holder, now() + lease
        self.waiting[row.priority][row.number] = row
        self.ids.add(row.id)
        return handed

    def _is_held(self, number: int, holder: str) -> bool:
        by, until = self.held.get(number, ("", 0.0))
        return by == holder and until > now()

    def drop(self, number: int) -> LetterRow | None:
        row = self.find(number)
        if row is None:
            return None
        del self.waiting[row.priority][number]
        self.ids.discard(row.id)
        self.held.pop(number, None)
        if row.lane:
            self.lanes[row.lane].remove(number)
            if not self.lanes[row.lane]:
                del self.lanes[row.lane]
        return row

    def take(self, holder: str, lease: float, limit: int) -> list[LetterRow]:
        at = now()
        held = {number for number, (_, until) in self.held.items() if until > at}
        foreign = {
            row.lane
            for number in held
            if self.held[number][0] != holder and (row := self.find(number)) is not None and row.lane
        }
        taken: list[LetterRow] = []
        for rows in reversed(self.waiting):
            for number, row in rows.items():
                if len(taken) >= limit:
                    break
                if number not in held and row.lane not in foreign:
                    taken.append(msgspec.structs.replace(row, deliveries=row.deliveries + 1))
        for row in taken:
            self.waiting[row.priority][row.number] = row
            self.held[row.number] = holder, at + lease
        return taken

    def all(self) -> list[LetterRow]:
        return sorted((row for rows in self.waiting for row in rows.values()), key=lambda row: row.number)


class MemoryLetters:
    """The in-memory implementation of ``stores.letters``."""

    def __init__(self) -> None:
        self._boxes: dict[_Box, _Contents] = defaultdict(_Contents)
        self._box_of: dict[int, _Box] = {}
        self._numbers = count(1)
        self._last = 0
        self._dead: dict[int, DeadRow] = {}
        self._dialogues: dict[tuple[str, str, str], DialogueRow] = {}
        self._due: dict[tuple[str, str, str], float] = {}
        self._said: dict[tuple[str, str, str], UtteranceRow] = {}
        self._said_in: dict[str, list[UtteranceRow]] = defaultdict(list)

    async def ping(self) -> None:
        raise NotImplementedError

    async def audit(self, line: AuditLine) -> None:
        raise NotImplementedError

    async def notice_letters(self, notify: Callable[[str], None]) -> LetterNotices | None:
        return None

    async def put_letters(self, rows: tuple[LetterRow, ...]) -> None:
        await self.ping()
        self._put(rows)

    def _put(self, rows: tuple[LetterRow, ...], holder: str = "", lease: float = 0.0) -> int:
        """Put letters into their boxes; returns the number of the last one that was handed to the holder, or 0."""
        handed = 0
        for row in rows:
            box = self._boxes[row.box, row.member]
            if row.id in box.ids:
                continue
            self._last = next(self._numbers)
            self._box_of[self._last] = row.box, row.member
            if box.put(msgspec.structs.replace(row, number=self._last), holder, lease):
                handed = self._last
        return handed

    async def take_letters(self, box: str, member: str, holder: str, lease: float, limit: int) -> list[LetterRow]:
        await self.ping()
        contents = self._boxes.get((box, member))
        return contents.take(holder, lease, limit) if contents is not None else []

    async def hold_letters(self, holder: str, numbers: tuple[int, ...], lease: float) -> int:
        await self.ping()
        kept = 0
        for number in numbers:
            contents = self._boxes.get(self._box_of.get(number, ("", "")))
            if contents is not None and contents.held.get(number, ("", 0.0))[0] == holder:
                contents.held[number] = holder, now() + lease
                kept += 1
        return kept

    async def release_letter(self, holder: str, box: str, letter_id: str) -> int:
        rows = await self.waiting_letters(box, limit=1_000_000)
        return await self.hold_letters(holder, tuple(row.number for row in rows if row.id == letter_id), 0.0)

    async def finish_letters(self, numbers: tuple[int, ...]) -> None:
        await self.ping()
        for number in numbers:
            self._drop(number)

    async def drop_letters(self, numbers: tuple[int, ...], box: str) -> int:
        await self.ping()
        mine = [number for number in numbers if self._box_of.get(number) == (box, "")]
        return sum(self._drop(number) is not None for number in mine)

    def _drop(self, number: int) -> LetterRow | None:
        box = self._box_of.pop(number, None)
        if box is None:
            return None
        contents = self._boxes[box]
        row = contents.drop(number)
        if not contents.ids:
            del self._boxes[box]
        return row

    async def drop_letter(self, box: str, letter_id: str) -> int:
        rows = await self.waiting_letters(box, limit=1_000_000)
        return await self.drop_letters(tuple(row.number for row in rows if row.id == letter_id), box)

    async def acknowledge_letters(self, box: str, through: int) -> int:
        before = [row for row in await self.waiting_letters(box, limit=1_000_000) if row.number <= through]
        least = next((row.priority for row in before if row.number == through), HIGH)
        given = [row.number for row in before if row.deliveries and row.priority >= least]
        return await self.drop_letters(tuple(given), box)

    async def waiting_letters(self, box: str, member: str = "", after: int = 0, limit: int = 100) -> list[LetterRow]:
        await self.ping()
        contents = self._boxes.get((box, member))
        return [row for row in contents.all() if row.number > after][:limit] if contents is not None else []

    async def count_letters(self, box: str, member: str = "") -> dict[str, int]:
        await self.ping()
        contents = self._boxes.get((box, member))
        return dict(Counter(row.sender for row in contents.all())) if contents is not None else {}

    async def clear_letters(self, box: str, member: str = "") -> int:
        rows = await self.waiting_letters(box, member, limit=1_000_000)
        await self.finish_letters(tuple(row.number for row in rows))
        return len(rows)

    async def last_letter(self) -> int:
        await self.ping()
        return self._last

    async def move_to_dead(self, number: int, dead: DeadRow) -> None:
        await self.ping()
        self._drop(number)
        self._add_dead(dead)

    def _add_dead(self, dead: DeadRow) -> None:
        place = max(self._dead, default=0) + 1
        self._dead[place] = msgspec.structs.replace(dead, number=place)

    async def dead_letters(self, box: str, limit: int = 100) -> list[DeadRow]:
        await self.ping()
        return [dead for dead in self._dead.values() if dead.box == box][:limit]

    async def count_dead(self) -> dict[str, int]:
        await self.ping()
        counted = Counter(dead.box for dead in self._dead.values())
        return dict(sorted(counted.items()))

    async def take_dead(self, box: str, numbers: tuple[int, ...] = ()) -> list[DeadRow]:
        chosen = [row for row in await self.dead_letters(box, 1_000_000) if not numbers or row.number in numbers]
        for row in chosen:
            del self._dead[row.number]
        return chosen

    # -- dialogues ---------------------------------------------------------------------------------

    async def converse(self, entry: Entry) -> Outcome:
        return (await self.converse_and_hand(entry, "", 0.0))[0]

    async def converse_and_hand(self, entry: Entry, holder: str, lease: float) -> tuple[Outcome, int]:
        await self.ping()
        entry = entry.whole
        if any((said.id, said.sender, said.receiver) in self._said for said in entry.said[:1]):
            return "duplicate", 0
        row = entry.dialogue
        if row is not None:
            known = self._dialogues.get(row.key)
            if (known.version if known is not None else 0) != entry.expect:
                return "changed", 0
        if entry.audit is not None:
            await self.audit(entry.audit)
        if row is not None:
            self._dialogues[row.key] = msgspec.structs.replace(row, version=entry.expect + 1)
            self._due.pop(row.key, None)
            if row.due:
                self._due[row.key] = row.due
        for said in entry.said:
            if (said.id, said.sender, said.receiver) not in self._said:
                self._said[said.id, said.sender, said.receiver] = said
                self._said_in[said.conversation].append(said)
        return "done", self._put(entry.whole_letters, holder, lease)

    async def dialogue(self, conversation: str, initiator: str, participant: str) -> DialogueRow | None:
        await self.ping()
        return self._dialogues.get((conversation, initiator, participant))

    async def dialogues(
        self, *, conversation: str | None = None, agent: str | None = None, limit: int = 100
    ) -> list[DialogueRow]:
        await self.ping()
        found = [
            row
            for row in self._dialogues.values()
            if conversation in (None, row.conversation) and agent in (None, row.initiator, row.participant)
        ]
        return sorted(found, key=lambda row: -row.updated)[:limit]

    async def due_dialogues(self, now: float, limit: int = 100) -> list[DialogueRow]:
        await self.ping()
        keys = sorted((due, key) for key, due in self._due.items() if due <= now)[:limit]
        return [self._dialogues[key] for _, key in keys]

    async def count_open(self, agent: str) -> int:
        await self.ping()
        return sum(row.participant == agent and bool(row.timer) for row in self._dialogues.values())

    async def utterance(self, reference: str, sender: str, receiver: str) -> UtteranceRow | None:
        await self.ping()
        known = self._said.get((reference, sender, receiver))
        if known is not None:
            return known
        named = (
            u for u in self._said.values() if (u.reply_with, u.sender, u.receiver) == (reference, sender, receiver)
        )
        return max(named, key=lambda u: u.at, default=None)

    async def utterances(self, conversation: str, limit: int = 1000) -> list[UtteranceRow]:
        await self.ping()
        return self._said_in.get(conversation, [])[:limit]

    def sweep_letters(self, now: float) -> int:
        """Remove what has expired; expired letters become dead letters."""
        swept = 0
        for box in list(self._boxes.values()):
            for row in [row for row in box.all() if row.expires <= now]:
                self._drop(row.number)
                self._add_dead(DeadRow(row.box, row.body, EXPIRED, row.deliveries, now, row.member))
                swept += 1
        for key in [key for key, row in self._dialogues.items() if row.expires <= now]:
            del self._dialogues[key]
            self._due.pop(key, None)
            swept += 1
        for spent in [key for key, said in self._said.items() if said.expires <= now]:
            said = self._said.pop(spent)
            self._said_in[said.conversation].remove(said)
            if not self._said_in[said.conversation]:
                del self._said_in[said.conversation]
            swept += 1
        return swept
