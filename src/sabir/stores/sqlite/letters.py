"""Boxes and dialogues in SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Mapping
from itertools import chain as chained
from time import time as now
from typing import Any, Final

import msgspec

from sabir.stores.letters import (
    DEAD,
    DIALOGUE,
    EXPIRED,
    HIGH,
    LETTER,
    UTTERANCE,
    DeadRow,
    DialogueRow,
    Entry,
    LetterNotices,
    LetterRow,
    Outcome,
    UtteranceRow,
)

from .bulk import MANY, append_audit, chunks, insert, with_rows
from .group_commit import Bulk, GroupCommit
from .one_statement import Finish, Write

_json = msgspec.json.Encoder().encode
_GIVEN: Final = "SELECT value FROM json_each(?)"  # one statement for any number of them
_DROP: Final = f"DELETE FROM letters WHERE number IN ({_GIVEN})"
_values = msgspec.structs.astuple

_PUT: Final = (
    "INSERT INTO letters (box, id, body, at, expires, sender, lane, priority, member, deliveries, holder, lease)"
    " VALUES "
)
_PUT_ONCE: Final = " ON CONFLICT (box, member, id) DO NOTHING"
# What waits in these lanes: the lowest priority, the holders, and the end of their leases.
_LANES: Final = "SELECT box, member, lane, min(priority), min(holder), max(holder), min(lease) FROM (VALUES "
_BY_LANE: Final = (
    ") AS new CROSS JOIN letters INDEXED BY letters_by_lane ON box = new.column1 AND member = new.column2"
    " AND lane = new.column3 AND lane <> '' GROUP BY box, member, lane"
)
_FREE: Final = (
    "SELECT number FROM letters l WHERE box = ?1 AND member = ?2 AND lease <= ?4 AND (lane = '' OR NOT EXISTS ("
    "SELECT 1 FROM letters h WHERE h.box = l.box AND h.member = l.member AND h.lane = l.lane AND h.lane <> ''"
    " AND h.lease > ?4 AND h.holder <> ?3)) ORDER BY priority DESC, number LIMIT ?6"
)
_TAKE: Final = (
    "UPDATE letters SET holder = ?3, lease = ?5, deliveries = deliveries + 1"
    f" WHERE number IN ({_FREE}) RETURNING number"
)
_TAKEN: Final = f"SELECT {LETTER} FROM whole_letters WHERE number IN ({_GIVEN}) ORDER BY priority DESC, number"
_SAY: Final = f"INSERT INTO utterances ({UTTERANCE}) VALUES "
_KEY: Final = "conversation = ? AND initiator = ? AND participant = ?"
_OPEN: Final = f"INSERT INTO dialogues ({DIALOGUE}) VALUES "
_ONCE: Final = " ON CONFLICT DO NOTHING"
_COLUMNS: Final = tuple((name, f"new.column{n}") for n, name in enumerate(DIALOGUE.split(", "), 1))
_MOVE: Final = f"UPDATE dialogues SET {', '.join(f'{name} = {new}' for name, new in _COLUMNS[3:])} FROM (VALUES "
_MOVED: Final = (
    f") AS new WHERE {' AND '.join(f'dialogues.{name} = {new}' for name, new in _COLUMNS[:3])}"
    " AND dialogues.version = new.column13 - 1"
)


class SQLiteLetters:
    """The SQLite implementation of ``stores.letters``."""

    _writer: GroupCommit

    def _rows(self, sql: str, *values: Any) -> list[Any]:
        raise NotImplementedError

    async def notice_letters(self, notify: Callable[[str], None]) -> LetterNotices | None:
        return None

    async def put_letters(self, rows: tuple[LetterRow, ...]) -> None:
        await self._writer.submit(lambda connection: _put(connection, rows))

    async def take_letters(self, box: str, member: str, holder: str, lease: float, limit: int) -> list[LetterRow]:
        at = now()
        # Most polls find nothing; they are reads, and cost no write transaction.
        if not self._rows(_FREE.replace("?6", "1"), box, member, holder, at):
            return []

        def job(connection: sqlite3.Connection) -> list[LetterRow]:
            at = now()
            taken = connection.execute(_TAKE, (box, member, holder, at, at + lease, limit)).fetchall()
            rows = connection.execute(_TAKEN, (_json([number for (number,) in taken]),)).fetchall()
            return [LetterRow(*row) for row in rows]

        taken: list[LetterRow] = await self._writer.submit(job)
        return taken

    async def hold_letters(self, holder: str, numbers: tuple[int, ...], lease: float) -> int:
        sql = f"UPDATE letters SET lease = ? WHERE number IN ({_GIVEN}) AND holder = ?"
        return await self._change(sql, now() + lease, _json(numbers), holder)

    async def release_letter(self, holder: str, box: str, letter_id: str) -> int:
        sql = "UPDATE letters SET lease = 0 WHERE box = ? AND member = '' AND id = ? AND holder = ?"
        return await self._change(sql, box, letter_id, holder)

    async def finish_letters(self, numbers: tuple[int, ...]) -> None:
        await self._writer.submit(Finish(numbers))

    async def drop_letters(self, numbers: tuple[int, ...], box: str) -> int:
        return await self._change(f"{_DROP} AND box = ? AND member = ''", _json(numbers), box)

    async def drop_letter(self, box: str, letter_id: str) -> int:
        return await self._change("DELETE FROM letters WHERE box = ? AND member = '' AND id = ?", box, letter_id)

    async def acknowledge_letters(self, box: str, through: int) -> int:
        sql = (
            "DELETE FROM letters WHERE box = ?1 AND member = '' AND number <= ?2 AND deliveries > 0 AND priority >="
            " coalesce((SELECT priority FROM letters WHERE number = ?2 AND box = ?1 AND member = ''), ?3)"
        )
        return await self._change(sql, box, through, HIGH)

    async def waiting_letters(self, box: str, member: str = "", after: int = 0, limit: int = 100) -> list[LetterRow]:
        sql = f"SELECT {LETTER} FROM whole_letters WHERE box = ? AND member = ? AND number > ? ORDER BY number LIMIT ?"
        return [LetterRow(*row) for row in self._rows(sql, box, member, after, limit)]

    async def count_letters(self, box: str, member: str = "") -> dict[str, int]:
        sql = "SELECT sender, count(*) FROM letters WHERE box = ? AND member = ? GROUP BY sender"
        return dict(self._rows(sql, box, member))

    async def clear_letters(self, box: str, member: str = "") -> int:
        return await self._change("DELETE FROM letters WHERE box = ? AND member = ?", box, member)

    async def last_letter(self) -> int:
        rows = self._rows("SELECT seq FROM sqlite_sequence WHERE name = 'letters'")
        return int(rows[0][0]) if rows else 0

    async def move_to_dead(self, number: int, dead: DeadRow) -> None:
        def job(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM letters WHERE number = ?", (number,))
            _add_dead(connection, dead)

        await self._writer.submit(job)

    async def dead_letters(self, box: str, limit: int = 100) -> list[DeadRow]:
        sql = f"SELECT {DEAD} FROM dead_letters WHERE box = ? ORDER BY number LIMIT ?"
        return [DeadRow(*row) for row in self._rows(sql, box, limit)]

    async def count_dead(self) -> dict[str, int]:
        return dict(self._rows("SELECT box, count(*) FROM dead_letters GROUP BY box ORDER BY box"))

    async def take_dead(self, box: str, numbers: tuple[int, ...] = ()) -> list[DeadRow]:
        def job(connection: sqlite3.Connection) -> list[DeadRow]:
            marks = ",".join("?" * len(numbers))
            chosen = f"AND number IN ({marks})" if numbers else ""
            sql = f"DELETE FROM dead_letters WHERE box = ? {chosen} RETURNING {DEAD}"
            return [DeadRow(*row) for row in connection.execute(sql, (box, *numbers)).fetchall()]

        taken: list[DeadRow] = await self._writer.submit(job)
        return sorted(taken, key=lambda row: row.number)

    async def _change(self, sql: str, *values: Any) -> int:
        return int(await self._writer.submit(lambda connection: connection.execute(sql, values).rowcount))

    # -- dialogues ---------------------------------------------------------------------------------

    async def converse(self, entry: Entry) -> Outcome:
        return (await self._write_entry(entry, "", 0.0))[0]

    def converse_and_hand(self, entry: Entry, holder: str, lease: float) -> Awaitable[tuple[Outcome, int]]:
        return self._write_entry(entry, holder, lease)

    def _write_entry(self, entry: Entry, holder: str, lease: float) -> Awaitable[tuple[Outcome, int]]:
        line = None if entry.audit is None else (entry.audit.at, _json(entry.audit))
        return self._writer.submit(Write(entry, line, holder, lease))

    async def dialogue(self, conversation: str, initiator: str, participant: str) -> DialogueRow | None:
        rows = self._rows(f"SELECT {DIALOGUE} FROM dialogues WHERE {_KEY}", conversation, initiator, participant)
        return DialogueRow(*rows[0]) if rows else None

    async def dialogues(
        self, *, conversation: str | None = None, agent: str | None = None, limit: int = 100
    ) -> list[DialogueRow]:
        sql = (
            f"SELECT {DIALOGUE} FROM dialogues WHERE (?1 IS NULL OR conversation = ?1)"
            " AND (?2 IS NULL OR initiator = ?2 OR participant = ?2) ORDER BY updated DESC LIMIT ?3"
        )
        if conversation is not None:
            sql = sql.replace("(?1 IS NULL OR conversation = ?1)", "conversation = ?1")
        return [DialogueRow(*row) for row in self._rows(sql, conversation, agent, limit)]

    async def due_dialogues(self, now: float, limit: int = 100) -> list[DialogueRow]:
        sql = f"SELECT {DIALOGUE} FROM dialogues WHERE due > 0 AND due <= ? ORDER BY due LIMIT ?"
        return [DialogueRow(*row) for row in self._rows(sql, now, limit)]

    async def count_open(self, agent: str) -> int:
        sql = "SELECT count(*) FROM dialogues WHERE participant = ? AND timer <> ''"
        return int(self._rows(sql, agent)[0][0])

    async def utterance(self, reference: str, sender: str, receiver: str) -> UtteranceRow | None:
        for column in ("id", "reply_with"):
            sql = (
                f"SELECT {UTTERANCE} FROM utterances WHERE {column} = ? AND {column} <> '' AND sender = ?"
                " AND receiver = ? ORDER BY seq DESC LIMIT 1"
            )
            rows = self._rows(sql, reference, sender, receiver)
            if rows:
                return UtteranceRow(*rows[0])
        return None

    async def utterances(self, conversation: str, limit: int = 1000) -> list[UtteranceRow]:
        sql = f"SELECT {UTTERANCE} FROM utterances WHERE conversation = ? ORDER BY seq LIMIT ?"
        return [UtteranceRow(*row) for row in self._rows(sql, conversation, limit)]


def sweep_letters(connection: sqlite3.Connection, now: float, limit: int) -> tuple[int, bool]:
    """Remove expired rows in chunks; expired letters become dead letters.

    Returns how many were removed, and whether there is more.
    """
    sql = f"SELECT {LETTER} FROM whole_letters WHERE expires <= ? LIMIT ?"
    old = connection.execute(sql, (now, limit)).fetchall()
    for row in (LetterRow(*values) for values in old):
        connection.execute("DELETE FROM letters WHERE number = ?", (row.number,))
        _add_dead(connection, DeadRow(row.box, row.body, EXPIRED, row.deliveries, now, row.member))
    swept = len(old)
    if swept == limit:
        return swept, True  # the messages that letters continue with are removed after them
    for table, key in (("dialogues", "rowid"), ("utterances", "seq")):
        spent = f"SELECT {key} FROM {table} WHERE expires <= ? LIMIT ?"
        swept += connection.execute(f"DELETE FROM {table} WHERE {key} IN ({spent})", (now, limit)).rowcount
    return swept, swept >= limit


def _put(connection: sqlite3.Connection, rows: tuple[LetterRow, ...]) -> None:
    together: list[LetterRow] = []
    lanes: set[tuple[str, str, str]] = set()
    for row in rows:
        lane = row.box, row.member, row.lane
        if len(together) == MANY or (row.lane and lane in lanes):
            _put_many(connection, [(item, "", 0.0) for item in together])
            together, lanes = [], set()
        together.append(row)
        lanes.add(lane)
    _put_many(connection, [(item, "", 0.0) for item in together])


def _put_many(connection: sqlite3.Connection, given: list[tuple[LetterRow, str, float]]) -> list[int] | None:
    """Put letters of different lanes into their boxes, each handed to the holder if all earlier ones of its lane are.

    Returns the numbers of those, 0 for the others; None if a letter of the same id was already there.
    """
    at = now()
    busy = _busy_lanes(connection, [(row.box, row.member, row.lane) for row, _, _ in given if row.lane])
    rows: list[tuple[Any, ...]] = []
    for row, holder, lease in given:
        priority = row.priority
        ahead = busy.get((row.box, row.member, row.lane))
        if ahead is not None:
            least, first, last, until = ahead
            priority = min(priority, least)
            if not (first == last == holder and until > at):
                holder = ""
        held = (1, holder, at + lease) if holder else (0, "", 0.0)
        rows.append((*_values(row)[:7], priority, row.member, *held))
    if insert(connection, _PUT, 12, rows, _PUT_ONCE) != len(rows):
        return None
    first_number = connection.execute("SELECT last_insert_rowid()").fetchone()[0] - len(rows) + 1
    return [first_number + n if row[9] else 0 for n, row in enumerate(rows)]


def _busy_lanes(
    connection: sqlite3.Connection, lanes: list[tuple[str, str, str]]
) -> dict[tuple[str, str, str], tuple[Any, ...]]:
    """For each lane with letters: the lowest priority, the first and last holder by name, the earliest end of a
    lease."""
    busy: dict[tuple[str, str, str], tuple[Any, ...]] = {}
    for chunk in chunks(lanes):
        sql = with_rows(_LANES, 3, len(chunk), _BY_LANE)
        rows = connection.execute(sql, list(chained.from_iterable(chunk))).fetchall()
        busy.update((row[:3], row[3:]) for row in rows)
    return busy


def _add_dead(connection: sqlite3.Connection, dead: DeadRow) -> None:
    connection.execute(
        "INSERT INTO dead_letters (box, body, reason, attempts, at, member) VALUES (?,?,?,?,?,?)", _values(dead)[:6]
    )


def _converse_many(connection: sqlite3.Connection, writes: list[Write]) -> list[tuple[Outcome, int]]:
    """Write the messages of a group in few statements; if one of them cannot be written, one by one."""
    if len(writes) > 1 and _are_simple(writes):
        connection.execute("SAVEPOINT many")
        numbers = _converse_at_once(connection, writes)
        if numbers is not None:
            connection.execute("RELEASE many")
            return [("done", number) for number in numbers]
        connection.execute("ROLLBACK TO many")
        connection.execute("RELEASE many")
    return [_converse(connection, write) for write in writes]


def _are_simple(writes: list[Write]) -> bool:
    """Whether each message has exactly one letter, each in a different lane."""
    lanes: set[tuple[str, str, str]] = set()
    ordered = 0
    for write in writes:
        entry = write.entry.whole
        if len(entry.said) != 1 or len(entry.letters) != 1:
            return False
        letter = entry.letters[0]
        if letter.lane:
            ordered += 1
            lanes.add((letter.lane, letter.box, letter.member))
    return len(lanes) == ordered


def _converse_at_once(connection: sqlite3.Connection, writes: list[Write]) -> list[int] | None:
    """The numbers of the letters that were handed over; None if a message is a duplicate or came too late."""
    entries = [write.entry.whole for write in writes]
    said = [_values(entry.said[0]) for entry in entries]
    if insert(connection, _SAY, 11, said, _ONCE) != len(said):
        return None
    if not _move(connection, [(row, entry.expect) for entry in entries if (row := entry.dialogue)]):
        return None
    letters = [entry.whole_letters[0] for entry in entries]
    given = [(letter, write.holder, write.lease) for letter, write in zip(letters, writes, strict=True)]
    numbers = _put_many(connection, given)
    if numbers is not None:
        append_audit(connection, [write.line for write in writes if write.line is not None])
    return numbers


def _converse(connection: sqlite3.Connection, write: Write) -> tuple[Outcome, int]:
    entry = write.entry.whole
    for said in entry.said[:1]:
        if insert(connection, _SAY, 11, [_values(said)], _ONCE) == 0:
            return "duplicate", 0
    row = entry.dialogue
    if row is not None and not _move(connection, [(row, entry.expect)]):
        for said in entry.said[:1]:
            key = (said.id, said.sender, said.receiver)
            connection.execute("DELETE FROM utterances WHERE id = ? AND sender = ? AND receiver = ?", key)
        return "changed", 0
    insert(connection, _SAY, 11, [_values(said) for said in entry.said[1:]], _ONCE)
    numbers: list[int] = []
    for letter in entry.whole_letters:
        numbers += _put_many(connection, [(letter, write.holder, write.lease)]) or [0]
    if write.line is not None:
        append_audit(connection, [write.line])
    return "done", numbers[0] if len(numbers) == 1 else 0


def _move(connection: sqlite3.Connection, rows: list[tuple[DialogueRow, int]]) -> bool:
    """Write dialogues over the expected versions; returns whether all of them matched."""
    opened: list[tuple[Any, ...]] = []
    moved: list[tuple[Any, ...]] = []
    for row, expect in rows:
        (moved if expect else opened).append((*_values(row)[:12], expect + 1, row.detail))
    if insert(connection, _OPEN, 14, opened, _ONCE) != len(opened):
        return False
    return insert(connection, _MOVE, 14, moved, _MOVED) == len(moved)


def _finish(connection: sqlite3.Connection, drops: list[Finish]) -> list[None]:
    numbers = [number for drop in drops for number in drop.numbers]
    connection.execute(_DROP, (_json(numbers),))
    return [None] * len(drops)


LETTER_BULKS: Final[Mapping[type, Bulk]] = {Write: _converse_many, Finish: _finish}
