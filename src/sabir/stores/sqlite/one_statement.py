"""Messages of a group, and the letters that were handled meanwhile, in one write statement with its own transaction.

Python's SQLite module gives up the GIL for each step of a statement, and then waits for it: up to a switch interval of
5 ms while the event loop is busy. A group of messages needs a dozen statements, and spent more time on these waits than
on writing. So the rows are first inserted into a temporary table, which no other connection sees; then one row goes
into another, and its trigger writes all tables while the event loop goes on.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from functools import lru_cache
from time import time as now
from typing import Any, Final, NamedTuple

import msgspec

from sabir.stores.letters import DIALOGUE, UTTERANCE, DialogueEntry

_LETTER: Final = "box, id, body, at, expires, sender, lane, priority, member"
_ROUNDED: Final = 16  # beyond this many rows their number is rounded up, so that few statements are prepared


def _with(prefix: str, names: str) -> tuple[str, ...]:
    return tuple(f"{prefix}_{name}" for name in names.split(", "))


_SAID, _PUT, _STATE = _with("said", UTTERANCE), _with("letter", _LETTER), _with("dialogue", DIALOGUE)
# What a row holds: the conversation over the version before (0: it stays as it is; -1: the row is empty), the message,
# its letter, and who takes it until when. ``holder`` is empty if nobody does.
_COLUMNS: Final = (*_STATE, *_SAID, *_PUT, "holder", "lease", "now")
_VERSION: Final = _COLUMNS.index("dialogue_version")
_BLOBS: Final = tuple(map(_COLUMNS.index, ("dialogue_detail", "said_body", "letter_body")))
_ROW: Final = f"({','.join('?' * len(_COLUMNS))})"

_TABLES: Final = (
    "PRAGMA temp_store = MEMORY",
    "PRAGMA page_size = 16384",  # of the temporary tables: one row in a page of 4 KiB costs more
    f"CREATE TEMP TABLE batch (n INTEGER PRIMARY KEY, {', '.join(_COLUMNS)})",
    "CREATE TEMP TABLE behind (n INTEGER PRIMARY KEY, least INTEGER, handed INTEGER)",
    "CREATE TEMP TABLE batches (handled TEXT, messages INTEGER, moves INTEGER)",
    f"""CREATE TEMP TRIGGER write_batch AFTER INSERT ON batches BEGIN
    DELETE FROM letters WHERE new.handled <> '' AND number IN (SELECT value FROM json_each(new.handled));
    INSERT INTO utterances ({UTTERANCE}) SELECT {", ".join(_SAID)} FROM batch WHERE dialogue_version >= 0;
    INSERT INTO dialogues ({DIALOGUE}) SELECT {", ".join(_STATE)} FROM batch WHERE dialogue_version = 1;
    UPDATE dialogues SET {", ".join(f"{name} = dialogue_{name}" for name in DIALOGUE.split(", ")[3:])} FROM batch
        WHERE new.moves AND dialogue_version > 1 AND conversation = dialogue_conversation
        AND initiator = dialogue_initiator AND participant = dialogue_participant AND version = dialogue_version - 1;
    SELECT raise(ABORT, 'changed') WHERE new.moves AND changes() <> new.moves;
    INSERT INTO behind SELECT n, min(priority), min(l.holder) = b.holder AND max(l.holder) = b.holder
            AND min(l.lease) > b.now
        FROM batch AS b CROSS JOIN letters AS l INDEXED BY letters_by_lane ON box = letter_box
        AND member = letter_member AND lane = letter_lane AND lane <> ''
        WHERE dialogue_version >= 0 GROUP BY n;
    INSERT INTO letters ({_LETTER}, deliveries, holder, lease)
        SELECT letter_box, letter_id, letter_body, letter_at, letter_expires, letter_sender, letter_lane,
            min(letter_priority, coalesce(least, letter_priority)), letter_member,
            holder <> '' AND coalesce(handed, 1), iif(coalesce(handed, 1), holder, ''),
            iif(holder <> '' AND coalesce(handed, 1), lease, 0.0)
        FROM batch LEFT JOIN behind USING (n) WHERE dialogue_version >= 0;
    SELECT report((SELECT max(number) FROM letters), (SELECT group_concat(n) FROM behind WHERE NOT handed))
        WHERE new.messages;
    DELETE FROM behind;
    DELETE FROM batch;
    DELETE FROM batches;
END""",
)


class Write(NamedTuple):
    """A message to write, and the holder that takes its letter at once, if it is next."""

    entry: DialogueEntry
    line: tuple[float, bytes] | None = None
    holder: str = ""
    lease: float = 0.0


class Finish(NamedTuple):
    """Letters that were handled."""

    numbers: tuple[int, ...]


_values = msgspec.structs.astuple
_json = msgspec.json.Encoder().encode
_SAME: Final = ("", "", "", "", "", "", 0.0, 0.0, 0.0, "", "", 0.0, 0, b"")
_EMPTY: Final = [0] * _VERSION + [-1] + [0] * (len(_COLUMNS) - _VERSION - 1)


class OneStatement:
    """Writes groups that consist of messages and of handled letters."""

    def __init__(self) -> None:
        self._last = 0
        self._behind: str | None = None

    def prepare(self, connection: sqlite3.Connection) -> None:
        """Create the tables of this connection."""
        connection.create_function("report", 2, self._report)
        for statement in _TABLES:
            connection.execute(statement)

    def _report(self, last: int, behind: str | None) -> None:
        self._last, self._behind = last, behind

    def write(self, connection: sqlite3.Connection, jobs: Sequence[Any]) -> list[Any] | None:
        """Write a group and commit it. None if it is of another kind, or if one of its messages cannot be written;
        then nothing was."""
        writes = [job for job in jobs if type(job) is Write]
        handled = [job for job in jobs if type(job) is Finish]
        if len(writes) + len(handled) != len(jobs) or not are_simple(writes):
            return None
        if any(job.line is not None for job in writes):  # an audit entry is chained to the one before it
            return None
        numbers = [number for job in handled for number in job.numbers]
        moves = sum(job.entry.expect > 0 for job in writes if job.entry.dialogue is not None)
        if writes:
            connection.execute(*_rows_of(writes))
        try:
            values = (_json(numbers).decode() if numbers else "", len(writes), moves)
            connection.execute("INSERT INTO batches VALUES (?, ?, ?)", values)
        except sqlite3.Error as exc:
            connection.execute("DELETE FROM batch")
            if isinstance(exc, sqlite3.IntegrityError):  # a duplicate, or a conversation that has changed
                return None
            raise
        return self._results(jobs, len(writes))

    def _results(self, jobs: Iterable[Any], count: int) -> list[Any]:
        before = self._last - count
        behind = set(map(int, self._behind.split(","))) if self._behind else ()
        results: list[Any] = []
        n = 0
        for job in jobs:
            if type(job) is Write:
                n += 1
                results.append(("done", before + n if job.holder and n not in behind else 0))
            else:
                results.append(None)
        return results


def are_simple(writes: Iterable[Write]) -> bool:
    """Whether each message has exactly one letter, each in a different lane."""
    lanes: set[tuple[str, str, str]] = set()
    ordered = 0
    for write in writes:
        entry = write.entry
        if len(entry.said) != 1 or len(entry.letters) != 1:
            return False
        letter = entry.letters[0]
        if letter.lane:
            ordered += 1
            lanes.add((letter.lane, letter.box, letter.member))
    return len(lanes) == ordered


def _rows_of(writes: Sequence[Write]) -> tuple[str, list[Any]]:
    """The statement that puts messages into the table, and its values."""
    values: list[Any] = []
    at = now()
    for entry, _, holder, lease in writes:
        begin, row = len(values), entry.dialogue
        values += _SAME if row is None else _values(row)
        values += _values(entry.said[0])
        values += _values(entry.letters[0])[:9]
        values += (holder, at + lease, at)
        if row is not None:
            values[begin + _VERSION] = entry.expect + 1
        for place in _BLOBS:  # bound five times as fast as bytes, for which the module looks for an adapter
            values[begin + place] = bytearray(values[begin + place])
    count = len(writes)
    size = count if count <= _ROUNDED else -(-count // _ROUNDED) * _ROUNDED
    values += _EMPTY * (size - count)
    return _insert(size), values


@lru_cache(maxsize=64)
def _insert(rows: int) -> str:
    return f"INSERT INTO batch ({', '.join(_COLUMNS)}) VALUES {','.join([_ROW] * rows)}"
