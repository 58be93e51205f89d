"""Messages of a group, and the letters handled in the meantime, in one write statement with its own transaction.

Python's SQLite module gives up the GIL several times for each statement, and then waits for it: up to a switch interval
while the event loop is busy. A group of messages needs a dozen statements, and spent more time on these waits than on
writing. So the rows are first inserted into a temporary table, which no other connection sees; then one row goes into
another, and its trigger writes all tables while the event loop keeps running.

The row of a group says what it follows: the number of the last letter, and the last audit entry. If another process, or
another path of this one, has written since, the trigger writes nothing, and the group is repeated with what is there.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from functools import lru_cache
from time import time as now
from typing import Any, Final, NamedTuple

import msgspec

from sabir.stores.base import GENESIS, chain
from sabir.stores.letters import DIALOGUE, UTTERANCE, Entry, MessageEntry

_ROUNDED: Final = 16  # beyond this many rows their number is rounded up, so that few statements are prepared

# What a row holds: the message with all that it writes, and who takes its letter until when (``holder`` is empty if
# nobody does). The version of an empty row is expected to be -2.
_FIELDS: Final = MessageEntry.__struct_fields__
assert _FIELDS[-1] == "audit"  # its place is the holder's
_COLUMNS: Final = (*_FIELDS[:-1], "holder", "lease")
_BODY, _HEAD, _DETAIL = map(_COLUMNS.index, ("body", "head", "detail"))
# And for an audited message its entry in the audit log, with the hash of the one before it.
_LINE: Final = ("line_number", "line_at", "line", "line_previous", "line_hash")
_STALE: Final = "written since"
_LAST_LETTER: Final = "coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'letters'), 0)"
_ENDS: Final = f"SELECT {_LAST_LETTER}, (SELECT number FROM audit_head), (SELECT hash FROM audit_head)"
_WRITE: Final = "INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_TRIES: Final = 2
_LANE: Final = "b.sender || char(31) || b.conversation"  # as ``letters.LANE`` has it
# The conversation after a message; ``updated`` is when it was said.
_STATE: Final = {name: f"b.{name}" for name in DIALOGUE.split(", ")} | {
    "updated": "b.at",
    "expires": "b.dialogue_expires",
    "version": "b.expect + 1",
}
_MOVED: Final = ", ".join(f"{name} = {new}" for name, new in list(_STATE.items())[3:])

_TABLES: Final = (
    "PRAGMA temp_store = MEMORY",
    "PRAGMA temp.secure_delete = OFF",  # some builds overwrite what is deleted, in memory, too: 8 % of a group
    "PRAGMA page_size = 16384",  # of the temporary tables: one row in a page of 4 KiB costs more
    f"CREATE TEMP TABLE batch (n INTEGER PRIMARY KEY, {', '.join((*_COLUMNS, *_LINE))})",
    "CREATE TEMP TABLE behind (n INTEGER PRIMARY KEY, least INTEGER, handed INTEGER)",
    "CREATE TEMP TABLE batches (handled TEXT, handled_count INTEGER, messages INTEGER, moves INTEGER, lines INTEGER,"
    " now REAL, last_letter INTEGER, head_number INTEGER, head_hash TEXT)",
    f"""CREATE TEMP TRIGGER write_batch AFTER INSERT ON batches BEGIN
    SELECT raise(ABORT, '{_STALE}') WHERE new.messages AND new.last_letter <> {_LAST_LETTER};
    SELECT raise(ABORT, '{_STALE}') WHERE new.lines
        AND NOT EXISTS (SELECT 1 FROM audit_head WHERE number = new.head_number AND hash = new.head_hash);
    DELETE FROM behind;
    DELETE FROM letters WHERE new.handled <> '' AND number IN (SELECT value FROM json_each(new.handled));
    SELECT raise(ABORT, 'gone') WHERE new.handled <> '' AND changes() <> new.handled_count;
    INSERT INTO utterances ({UTTERANCE}) SELECT {UTTERANCE} FROM batch WHERE expect >= -1;
    INSERT INTO dialogues ({DIALOGUE}) SELECT {", ".join(_STATE.values())} FROM batch AS b WHERE expect = 0;
    UPDATE dialogues SET {_MOVED} FROM batch AS b
        WHERE new.moves AND expect > 0 AND dialogues.conversation = b.conversation
        AND dialogues.initiator = b.initiator AND dialogues.participant = b.participant AND version = expect;
    SELECT raise(ABORT, 'changed') WHERE new.moves AND changes() <> new.moves;
    INSERT INTO behind SELECT n, min(l.priority), min(l.holder) = b.holder AND max(l.holder) = b.holder
            AND min(l.lease) > new.now
        FROM batch AS b CROSS JOIN letters AS l INDEXED BY letters_by_lane ON box = b.receiver
        AND member = '' AND lane = {_LANE} AND lane <> ''
        WHERE expect >= -1 GROUP BY n;
    INSERT INTO letters (box, id, body, at, expires, sender, lane, priority, member, deliveries, holder, lease, said)
        SELECT receiver, sender || '/' || id, head, at, letter_expires, sender, {_LANE},
            min(priority, coalesce(least, priority)), '',
            holder <> '' AND coalesce(handed, 1), iif(coalesce(handed, 1), holder, ''),
            iif(holder <> '' AND coalesce(handed, 1), lease, 0.0), iif(shared, id, '')
        FROM batch AS b LEFT JOIN behind USING (n) WHERE expect >= -1;
    INSERT INTO audit SELECT line_number, line_at, line, line_previous, line_hash FROM batch
        WHERE new.lines AND line_number > 0;
    DELETE FROM batch;
    DELETE FROM batches;
END""",
)


class Write(msgspec.Struct, frozen=True, gc=False):
    """A message to write, and the holder that takes its letter at once, if it is next."""

    entry: Entry
    line: tuple[float, bytes] | None = None
    holder: str = ""
    lease: float = 0.0


class Finish(NamedTuple):
    """Letters that were handled."""

    numbers: tuple[int, ...]


_values = msgspec.structs.astuple
_json = msgspec.json.Encoder().encode
_EMPTY: Final = [-2 if name == "expect" else 0 for name in _COLUMNS]
_NO_LINE: Final = (0, 0, 0, 0, 0)
_NO_DETAIL: Final = bytearray()


class OneStatement:
    """Writes groups that consist of messages and of handled letters."""

    def __init__(self) -> None:
        self._last = 0  # number of the last letter
        self._head = (0, GENESIS)  # number and hash of the last audit entry
        self._changes = -1  # of the connection, after the last group
        self._left = 0  # rows that the last group left in ``behind``

    def prepare(self, connection: sqlite3.Connection) -> None:
        """Create the tables of this connection."""
        for statement in _TABLES:
            connection.execute(statement)

    def write(self, connection: sqlite3.Connection, jobs: Sequence[Any]) -> list[Any] | None:
        """Write a group and commit it. None if it is of another kind, or if one of its messages cannot be written;
        then nothing was."""
        writes = [job for job in jobs if type(job) is Write]
        handled = [job for job in jobs if type(job) is Finish]
        entries = [entry for write in writes if type(entry := write.entry) is MessageEntry]
        if len(entries) + len(handled) != len(jobs) or not _in_different_lanes(entries):
            return None
        numbers = [number for job in handled for number in job.numbers]
        for _ in range(_TRIES):
            if connection.total_changes != self._changes:
                self._refresh(connection)
            try:
                behind = self._write(connection, writes, entries, numbers)
            except sqlite3.Error as exc:
                self._changes = -1
                connection.execute("DELETE FROM batch")
                if not isinstance(exc, sqlite3.IntegrityError):
                    raise
                if str(exc) != _STALE:  # a duplicate, or a conversation that has changed
                    return None
            else:
                return self._results(jobs, len(writes), behind)
        return None

    def _refresh(self, connection: sqlite3.Connection) -> None:
        self._last, number, digest = connection.execute(_ENDS).fetchone()
        self._head = (number or 0, digest or GENESIS)

    def _write(
        self,
        connection: sqlite3.Connection,
        writes: Sequence[Write],
        entries: Sequence[MessageEntry],
        numbers: list[int],
    ) -> set[int]:
        """Returns which letters, counted from 1, stay behind others of their lanes.

        Raises:
            sqlite3.IntegrityError: the group cannot be written, or something was written since.
        """
        lines = [job.line for job in writes if job.line is not None]
        states = [expect for entry in entries if (expect := entry.expect) >= 0]
        moves = len(states) - states.count(0)
        audited = bool(lines)
        at, size, head = now(), 0, self._head
        if writes:
            size, values, head = _rows_of(writes, entries, at, head, audited=audited)
            # Unlike execute, executemany does not give up the GIL to ask for the number of the last row.
            connection.executemany(_insert(size, audited=audited), (values,))
        before = connection.total_changes
        group = (_json(numbers).decode() if numbers else "", len(numbers), len(writes), moves, len(lines), at)
        connection.executemany(_WRITE, ((*group, self._last, *self._head),))
        # All changes are known except the ones of ``behind``, so the count is only read if there are any.
        known = 2 + size + self._left + len(numbers) + 2 * len(writes) + len(states) + 2 * len(lines)
        self._changes, self._left = connection.total_changes, 0
        self._last += len(writes)
        self._head = head
        if self._changes == before + known:
            return set()
        found = connection.execute("SELECT n, handed FROM behind").fetchall()
        self._left = len(found)
        return {n for n, handed in found if not handed}

    def _results(self, jobs: Iterable[Any], count: int, behind: set[int]) -> list[Any]:
        number, n = self._last - count, 0
        results: list[Any] = []
        for job in jobs:
            if type(job) is Write:
                n += 1
                results.append(("done", number + n if job.holder and n not in behind else 0))
            else:
                results.append(None)
        return results


def _in_different_lanes(entries: Sequence[MessageEntry]) -> bool:
    lanes = {(entry.conversation, entry.sender, entry.receiver) for entry in entries}
    return len(lanes) == len(entries)


def _rows_of(
    writes: Sequence[Write],
    entries: Sequence[MessageEntry],
    at: float,
    head: tuple[int, str],
    *,
    audited: bool,
) -> tuple[int, list[Any], tuple[int, str]]:
    """How many rows messages take in the table, their values, and the last audit entry after them."""
    values: list[Any] = []
    for write, entry in zip(writes, entries, strict=True):
        begin = len(values)
        values += _values(entry)
        values[-1] = write.holder
        values.append(at + write.lease)
        # These are bound five times as fast as bytes, for which the module looks for an adapter.
        values[begin + _BODY] = bytearray(entry.body)
        values[begin + _HEAD] = bytearray(entry.head)
        values[begin + _DETAIL] = bytearray(entry.detail) if entry.detail else _NO_DETAIL
        line = write.line
        if line is not None:
            number, previous = head
            head = (number + 1, chain(previous, line[1]))
            values += (head[0], line[0], bytearray(line[1]), previous, head[1])
        elif audited:
            values += _NO_LINE
    count = len(writes)
    size = count if count <= _ROUNDED else -(-count // _ROUNDED) * _ROUNDED
    values += ([*_EMPTY, *_NO_LINE] if audited else _EMPTY) * (size - count)
    return size, values, head


@lru_cache(maxsize=128)
def _insert(rows: int, *, audited: bool) -> str:
    columns = (*_COLUMNS, *_LINE) if audited else _COLUMNS
    row = f"({','.join('?' * len(columns))})"
    return f"INSERT INTO batch ({', '.join(columns)}) VALUES {','.join([row] * rows)}"
