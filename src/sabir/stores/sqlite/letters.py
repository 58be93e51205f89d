"""Boxes and dialogues in SQLite."""

from __future__ import annotations

import sqlite3
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
    DialogueEntry,
    DialogueRow,
    LetterRow,
    Outcome,
    UtteranceRow,
)

from .group_commit import GroupCommit

_line_bytes = msgspec.json.Encoder().encode
_values = msgspec.structs.astuple

_PUT: Final = (
    "INSERT INTO letters (box, id, body, at, expires, sender, lane, priority, member)"
    " VALUES (?1,?2,?3,?4,?5,?6,?7,"
    " min(?8, coalesce((SELECT min(priority) FROM letters INDEXED BY letters_by_lane"  # else it reads the whole box
    " WHERE box = ?1 AND member = ?9 AND lane = ?7 AND lane <> ''), ?8)), ?9) ON CONFLICT (box, member, id) DO NOTHING"
)
_FREE: Final = (
    "SELECT number FROM letters l WHERE box = ?1 AND member = ?2 AND lease <= ?4 AND (lane = '' OR NOT EXISTS ("
    "SELECT 1 FROM letters h WHERE h.box = l.box AND h.member = l.member AND h.lane = l.lane AND h.lane <> ''"
    " AND h.lease > ?4 AND h.holder <> ?3)) ORDER BY priority DESC, number LIMIT ?6"
)
_TAKE: Final = (
    "UPDATE letters SET holder = ?3, lease = ?5, deliveries = deliveries + 1"
    f" WHERE number IN ({_FREE}) RETURNING {LETTER}"
)
_SAY: Final = f"INSERT INTO utterances ({UTTERANCE}) VALUES ({','.join('?' * 11)}) ON CONFLICT DO NOTHING"
_KEY: Final = "conversation = ? AND initiator = ? AND participant = ?"
_OPEN: Final = f"INSERT INTO dialogues ({DIALOGUE}) VALUES ({','.join('?' * 14)}) ON CONFLICT DO NOTHING"
_MOVE: Final = (
    f"UPDATE dialogues SET {', '.join(f'{name} = ?' for name in DIALOGUE.split(', '))} WHERE {_KEY} AND version = ?"
)


class SQLiteLetters:
    """The part of the SQLite store that ``stores.letters`` describes."""

    _writer: GroupCommit

    def _rows(self, sql: str, *values: Any) -> list[Any]:
        raise NotImplementedError

    def _append_audit(self, connection: sqlite3.Connection, *lines: tuple[float, bytes]) -> None:
        raise NotImplementedError

    async def put_letters(self, rows: tuple[LetterRow, ...]) -> None:
        await self._writer.submit(lambda connection: _put(connection, rows))

    async def take_letters(self, box: str, member: str, holder: str, lease: float, limit: int) -> list[LetterRow]:
        at = now()
        # Most looks find nothing; they are reads, and cost no write transaction.
        if not self._rows(_FREE.replace("?6", "1"), box, member, holder, at):
            return []

        def job(connection: sqlite3.Connection) -> list[LetterRow]:
            at = now()
            rows = connection.execute(_TAKE, (box, member, holder, at, at + lease, limit)).fetchall()
            taken = [LetterRow(*row) for row in rows]
            return sorted(taken, key=lambda row: (-row.priority, row.number))

        taken: list[LetterRow] = await self._writer.submit(job)
        return taken

    async def hold_letters(self, holder: str, numbers: tuple[int, ...], lease: float) -> int:
        rows = [(now() + lease, number, holder) for number in numbers]

        def job(connection: sqlite3.Connection) -> int:
            sql = "UPDATE letters SET lease = ? WHERE number = ? AND holder = ?"
            return connection.executemany(sql, rows).rowcount

        return int(await self._writer.submit(job))

    async def drop_letters(self, numbers: tuple[int, ...], box: str | None = None) -> int:
        sql = "DELETE FROM letters WHERE number = ?"
        rows: list[tuple[Any, ...]] = [(number,) for number in numbers]
        if box is not None:
            sql, rows = f"{sql} AND box = ? AND member = ''", [(number, box) for number in numbers]

        def job(connection: sqlite3.Connection) -> int:
            return connection.executemany(sql, rows).rowcount

        return int(await self._writer.submit(job))

    async def drop_letter(self, box: str, letter_id: str) -> int:
        return await self._change("DELETE FROM letters WHERE box = ? AND member = '' AND id = ?", box, letter_id)

    async def acknowledge_letters(self, box: str, through: int) -> int:
        sql = (
            "DELETE FROM letters WHERE box = ?1 AND member = '' AND number <= ?2 AND deliveries > 0 AND priority >="
            " coalesce((SELECT priority FROM letters WHERE number = ?2 AND box = ?1 AND member = ''), ?3)"
        )
        return await self._change(sql, box, through, HIGH)

    async def waiting_letters(self, box: str, member: str = "", after: int = 0, limit: int = 100) -> list[LetterRow]:
        sql = f"SELECT {LETTER} FROM letters WHERE box = ? AND member = ? AND number > ? ORDER BY number LIMIT ?"
        return [LetterRow(*row) for row in self._rows(sql, box, member, after, limit)]

    async def count_letters(self, box: str, member: str = "") -> dict[str, int]:
        sql = "SELECT sender, count(*) FROM letters WHERE box = ? AND member = ? GROUP BY sender"
        return dict(self._rows(sql, box, member))

    async def clear_letters(self, box: str, member: str = "") -> int:
        return await self._change("DELETE FROM letters WHERE box = ? AND member = ?", box, member)

    async def last_letter(self) -> int:
        rows = self._rows("SELECT seq FROM sqlite_sequence WHERE name = 'letters'")
        return int(rows[0][0]) if rows else 0

    async def bury_letter(self, number: int, dead: DeadRow) -> None:
        def job(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM letters WHERE number = ?", (number,))
            _bury(connection, dead)

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

    async def converse(self, entry: DialogueEntry) -> Outcome:
        line = None if entry.audit is None else (entry.audit.at, _line_bytes(entry.audit))

        def job(connection: sqlite3.Connection) -> Outcome:
            written = _converse(connection, entry)
            if written == "done" and line is not None:
                self._append_audit(connection, line)
            return written

        outcome: Outcome = await self._writer.submit(job)
        return outcome

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
    """Remove what has expired, some at a time; letters that nobody came for are dead. Says how many, and if there is
    more."""
    old = connection.execute(f"SELECT {LETTER} FROM letters WHERE expires <= ? LIMIT ?", (now, limit)).fetchall()
    for row in (LetterRow(*values) for values in old):
        connection.execute("DELETE FROM letters WHERE number = ?", (row.number,))
        _bury(connection, DeadRow(row.box, row.body, EXPIRED, row.deliveries, now, row.member))
    swept = len(old)
    for table, key in (("dialogues", "rowid"), ("utterances", "seq")):
        spent = f"SELECT {key} FROM {table} WHERE expires <= ? LIMIT ?"
        swept += connection.execute(f"DELETE FROM {table} WHERE {key} IN ({spent})", (now, limit)).rowcount
    return swept, swept >= limit


def _put(connection: sqlite3.Connection, rows: tuple[LetterRow, ...]) -> None:
    connection.executemany(_PUT, [_values(row)[:9] for row in rows])


def _bury(connection: sqlite3.Connection, dead: DeadRow) -> None:
    connection.execute(
        "INSERT INTO dead_letters (box, body, reason, attempts, at, member) VALUES (?,?,?,?,?,?)", _values(dead)[:6]
    )


def _converse(connection: sqlite3.Connection, entry: DialogueEntry) -> Outcome:
    for said in entry.said[:1]:
        if connection.execute(_SAY, _values(said)).rowcount == 0:
            return "duplicate"
    row = entry.dialogue
    if row is not None and not _moved(connection, row, entry.expect):
        for said in entry.said[:1]:
            key = (said.id, said.sender, said.receiver)
            connection.execute("DELETE FROM utterances WHERE id = ? AND sender = ? AND receiver = ?", key)
        return "changed"
    if len(entry.said) > 1:
        connection.executemany(_SAY, [_values(said) for said in entry.said[1:]])
    _put(connection, entry.letters)
    return "done"


def _moved(connection: sqlite3.Connection, row: DialogueRow, expect: int) -> bool:
    """Write a dialogue over the version that is expected; says whether that was there."""
    values = _values(msgspec.structs.replace(row, version=expect + 1))
    if expect:
        return connection.execute(_MOVE, (*values, *row.key, expect)).rowcount == 1
    return connection.execute(_OPEN, values).rowcount == 1
