"""The embedded store: one SQLite file in WAL mode, one writer thread with group commit.

``durability="process"`` survives the death of this process at any point (the operating system has the bytes);
``"power"`` waits for the disk with each group. Reads run on the event loop: they are lookups by key in a file that is
in memory, and cheaper than a thread switch.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from pathlib import Path
from time import time as now
from typing import Any

import msgspec

from sabir.errors import ConfigError, StoreUnavailable
from sabir.private_files import own_file, own_folder
from sabir.stores.base import (
    LONGEST_LEASE,
    AuditLine,
    ChainedLine,
    ConversationRow,
    Record,
    TaskEvent,
    TaskRow,
    TurnEntry,
)
from sabir.stores.rows import CONVERSATION, TASK, task_of
from sabir.stores.sql import ENDED_STATES, RECORD, RUNNABLE_STATES, SWEPT_AT_ONCE, SqlReads

from .bulk import append_audit, insert
from .checkpoints import Checkpointer
from .group_commit import GroupCommit
from .letters import LETTER_BULKS, SQLiteLetters, sweep_letters
from .one_statement import OneStatement
from .schema import MIGRATIONS, statements

DURABILITY = {"process": "NORMAL", "power": "FULL"}

_line_bytes = msgspec.json.Encoder().encode

PROBE_SECONDS = 5.0  # after which the last write proves nothing


class SQLiteStore(SqlReads, SQLiteLetters):
    """Conversations, tasks, audit and records in one file."""

    def __init__(self, path: Path | str, *, durability: str = "process") -> None:
        if durability not in DURABILITY:
            raise ConfigError(f"durability: expected process or power, not {durability!r}")
        self.path = Path(path)
        self._synchronous = DURABILITY[durability]
        self.schema = (0, 0)
        self._checkpoints = Checkpointer(self.connect)
        self._messages = OneStatement()
        self._writer = GroupCommit(
            {tuple: _record_many, **LETTER_BULKS}, self._checkpoints.committed, at_once=self._messages.write
        )
        self._reader: sqlite3.Connection | None = None

    def connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, cached_statements=256)
        connection.execute("PRAGMA busy_timeout = 15000")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA cache_size = -32768")  # KiB; the indexes of a few million turns
        connection.execute("PRAGMA wal_autocheckpoint = 16000")  # pages, 64 MB; each checkpoint waits for the disk
        return connection

    async def open(self) -> None:
        try:
            own_folder(self.path.parent)
            own_file(self.path)  # SQLite's other files inherit its mode
            self._reader = self.connect()
            self.schema = _migrate(self._reader)
            writer = self.connect()
            self._messages.prepare(writer)
        except OSError as exc:
            raise ConfigError(f"store: {self.path}: {exc.strerror or exc}") from None
        except sqlite3.Error as exc:
            raise StoreUnavailable(f"{self.path.name}: {exc}") from exc
        self._writer.start(writer)
        self._checkpoints.start()

    async def close(self) -> None:
        if self._reader is not None:
            await self._writer.stop()
            await asyncio.get_running_loop().run_in_executor(None, self._checkpoints.stop)
            self._reader.close()
            self._reader = None

    def writing(self) -> tuple[int, int, int]:
        """Commits so far, the writes in them, and pending writes; for metrics."""
        return self._writer.groups, self._writer.jobs, self._writer.waiting

    async def ping(self) -> None:
        # A read-only store is of no use: every turn writes.
        if time.monotonic() - self._writer.wrote_at < PROBE_SECONDS and self._writer.failed_at is None:
            self._row("SELECT 1")
            return
        await self._writer.submit(_probe)

    @property
    def group_size(self) -> float:
        """Writes per commit so far, on average."""
        return self._writer.jobs / self._writer.groups if self._writer.groups else 0.0

    def _rows(self, sql: str, *values: Any) -> list[Any]:
        if self._reader is None:
            raise StoreUnavailable("the store is closed")
        try:
            return self._reader.execute(sql, values).fetchall()
        except sqlite3.Error as exc:
            raise StoreUnavailable(f"the store cannot read now ({exc})") from exc
        except (UnicodeEncodeError, OverflowError):
            return []  # no row has a value that SQLite cannot store

    async def _fetch(self, sql: str, *values: Any) -> list[Any]:
        return self._rows(sql.replace("$", "?"), *values)

    def _row(self, sql: str, *values: Any) -> Any:
        rows = self._rows(sql, *values)
        return rows[0] if rows else None

    # -- conversations and turns ---------------------------------------------------------------

    async def record(self, entry: TurnEntry) -> bool:
        turn, row = entry.turn, entry.conversation
        agreed = self._pack(row.agreed) if row.agreed else None
        asked, answered = self._pack(turn.asked), self._pack(turn.answered)
        new: bool = await self._writer.submit(
            (
                (turn.id, row.id, turn.at, turn.agent, turn.speaker, asked, answered),
                (row.id, row.owner, row.created, row.touched, row.expires, 1, entry.size, agreed, row.peer_token, 0),
                (entry.audit.at, _line_bytes(entry.audit)) if entry.audit is not None else None,
            ),
            len(asked) + len(answered),
        )
        return new

    async def agree(self, conversation: ConversationRow) -> None:
        row = conversation
        await self._write(
            f"INSERT INTO conversations ({CONVERSATION}) VALUES (?,?,?,?,?,0,0,?,?,?) ON CONFLICT (id) DO UPDATE"
            " SET agreed = excluded.agreed, ended = excluded.ended, expires = excluded.expires",
            row.id, row.owner, row.created, row.touched, row.expires, self._pack(row.agreed), row.peer_token, row.ended,
        )  # fmt: skip

    async def forget(self, conversation: str) -> None:
        def job(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM turns WHERE conversation = ?", (conversation,))
            connection.execute("DELETE FROM conversations WHERE id = ?", (conversation,))

        await self._writer.submit(job)

    async def sweep(self, now: float) -> int:
        def job(connection: sqlite3.Connection) -> tuple[int, bool]:
            limit = SWEPT_AT_ONCE
            old = connection.execute("SELECT id FROM conversations WHERE expires <= ? LIMIT ?", (now, limit)).fetchall()
            connection.executemany("DELETE FROM turns WHERE conversation = ?", old)
            connection.executemany("DELETE FROM conversations WHERE id = ?", old)
            tasks = connection.execute(
                f"SELECT id FROM tasks WHERE expires <= ? AND state IN ({ENDED_STATES}) LIMIT ?", (now, limit)
            ).fetchall()
            connection.executemany("DELETE FROM task_events WHERE task = ?", tasks)
            connection.executemany("DELETE FROM tasks WHERE id = ?", tasks)
            spent = connection.execute("DELETE FROM records WHERE expires > 0 AND expires <= ?", (now,)).rowcount
            letters, more = sweep_letters(connection, now, limit)
            return len(old) + len(tasks) + spent + letters, more or limit in (len(old), len(tasks))

        swept, more = 0, True
        while more:
            count, more = await self._writer.submit(job)
            swept += count
        return swept

    # -- tasks -----------------------------------------------------------------------------------

    async def put_task(self, task: TaskRow, *, expect: int | None = None, lease: float | None = None) -> bool:
        body = self._pack(task)
        values = (
            task.owner, task.agent, task.state, task.conversation, task.created, task.updated, task.expires,
            body, task.priority,
        )  # fmt: skip

        def job(connection: sqlite3.Connection) -> bool:
            row = connection.execute("SELECT version FROM tasks WHERE id = ?", (task.id,)).fetchone()
            if expect is not None and expect != (row[0] if row else 0):
                return False
            if row is None:
                held = (task.node, now() + lease, 1) if lease is not None else ("", 0.0, 0)
                connection.execute(
                    "INSERT INTO tasks (id, owner, agent, state, conversation, created, updated, expires, body,"
                    " priority, node, lease, attempts, version) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,1)",
                    (task.id, *values, *held),
                )
            else:
                connection.execute(
                    "UPDATE tasks SET owner = ?, agent = ?, state = ?, conversation = ?, created = ?, updated = ?,"
                    " expires = ?, body = ?, priority = ?, version = version + 1 WHERE id = ?",
                    (*values, task.id),
                )
            return True

        return bool(await self._writer.submit(job, len(body)))

    async def claim_task(self, node: str, lease: float, agents: tuple[str, ...]) -> TaskRow | None:
        free = (
            f"SELECT id FROM tasks WHERE state IN ({RUNNABLE_STATES}) AND (lease <= ? OR lease > ?)"
            f" AND agent IN ({','.join('?' * len(agents))}) ORDER BY priority DESC, created, id LIMIT 1"
        )

        def job(connection: sqlite3.Connection) -> TaskRow | None:
            at = now()
            rows = connection.execute(
                "UPDATE tasks SET node = ?, lease = ?, attempts = attempts + 1, version = version + 1"
                f" WHERE id = ({free}) RETURNING {TASK}",
                (node, at + lease, at, at + LONGEST_LEASE, *agents),
            ).fetchall()
            return task_of(rows[0], self._open) if rows else None

        # Most polls find nothing; they are reads, and cost no write transaction.
        at = now()
        if self._row(free, at, at + LONGEST_LEASE, *agents) is None:
            return None
        claimed: TaskRow | None = await self._writer.submit(job)
        return claimed

    async def renew_tasks(self, node: str, ids: tuple[str, ...], lease: float) -> dict[str, int]:
        def job(connection: sqlite3.Connection) -> dict[str, int]:
            held: dict[str, int] = {}
            for row_id in ids:
                rows = connection.execute(
                    f"UPDATE tasks SET node = ?, lease = ? WHERE id = ? AND node = ? AND state NOT IN ({ENDED_STATES})"
                    " RETURNING version",
                    (*_holder(node, lease), row_id, node),
                ).fetchall()
                held.update((row_id, row[0]) for row in rows)
            return held

        renewed: dict[str, int] = await self._writer.submit(job)
        return renewed

    async def add_task_event(self, task: str, event: TaskEvent) -> int:
        body = self._pack(event)

        def job(connection: sqlite3.Connection) -> int:
            rows = connection.execute(
                "INSERT INTO task_events SELECT ?1, coalesce(max(number), 0) + 1, ?2 FROM task_events WHERE task = ?1"
                " RETURNING number",
                (task, body),
            ).fetchall()
            return int(rows[0][0])

        return int(await self._writer.submit(job, len(body), in_order=True))

    # -- audit -----------------------------------------------------------------------------------

    async def audit(self, line: AuditLine) -> None:
        body = _line_bytes(line)
        await self._writer.submit(lambda connection: append_audit(connection, [(line.at, body)]))

    async def audit_lines(self, since: int = 0, limit: int = 1000) -> list[ChainedLine]:
        rows = self._rows(
            "SELECT number, CAST(line AS BLOB), CAST(previous AS TEXT), CAST(hash AS TEXT), CAST(at AS REAL) FROM audit"
            " WHERE number > ? ORDER BY number LIMIT ?",
            since,
            limit,
        )
        return [ChainedLine(*row) for row in rows]

    async def audit_head(self) -> tuple[int, str] | None:
        row: tuple[int, str] | None = self._row("SELECT number, CAST(hash AS TEXT) FROM audit_head")
        return row

    async def audit_prune(self, through: int) -> int:
        # The newest entry always stays, so that the chain continues from it.
        return await self._write(
            "DELETE FROM audit WHERE number <= ? AND number < (SELECT max(number) FROM audit)", through
        )

    # -- records ---------------------------------------------------------------------------------

    async def put(self, record: Record, *, expect: int | None = None) -> bool:
        def job(connection: sqlite3.Connection) -> bool:
            row = connection.execute(
                "SELECT version FROM records WHERE space = ? AND key = ? AND (expires = 0 OR expires > ?)",
                (record.space, record.key, now()),
            ).fetchone()
            version = int(row[0]) if row else 0
            if expect is not None and expect != version:
                return False
            connection.execute(
                "INSERT OR REPLACE INTO records VALUES (?,?,?,?,?,?)",
                (record.space, record.key, record.value, record.owner, record.expires, version + 1),
            )
            return True

        return bool(await self._writer.submit(job, len(record.value), in_order=True))

    async def list(self, space: str, *, prefix: str = "", owner: str | None = None, limit: int = 1000) -> list[Record]:
        rows = self._rows(
            f"SELECT {RECORD} FROM records WHERE space = ? AND key >= ?"
            " AND substr(key, 1, ?) = ? AND (? IS NULL OR owner = ?) AND (expires = 0 OR expires > ?)"
            " ORDER BY key LIMIT ?",
            space,
            prefix,
            len(prefix),
            prefix,
            owner,
            owner,
            now(),
            limit,
        )
        return [Record(*row) for row in rows]

    async def delete(self, space: str, key: str) -> bool:
        try:
            return await self._write("DELETE FROM records WHERE space = ? AND key = ?", space, key) > 0
        except UnicodeEncodeError:
            return False  # no row has a key that SQLite cannot store

    async def count(self, space: str, key: str, delta: float, *, expires: float = 0.0) -> float:
        def job(connection: sqlite3.Connection) -> float:
            row = connection.execute(
                "SELECT value, expires, version FROM records WHERE space = ? AND key = ?"
                " AND (expires = 0 OR expires > ?)",
                (space, key, now()),
            ).fetchone()
            value = (float(row[0]) if row else 0.0) + delta
            connection.execute(
                "INSERT OR REPLACE INTO records VALUES (?,?,?,'',?,?)",
                (space, key, repr(value).encode(), row[1] if row else expires, row[2] + 1 if row else 1),
            )
            return value

        return float(await self._writer.submit(job))

    async def _write(self, sql: str, *values: Any) -> int:
        return int(await self._writer.submit(lambda connection: connection.execute(sql, values).rowcount))


def _migrate(connection: sqlite3.Connection) -> tuple[int, int]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        done = connection.execute("PRAGMA user_version").fetchone()[0]
        if done > len(MIGRATIONS):
            raise ConfigError(f"the store was written by a newer version (schema {done}, known {len(MIGRATIONS)})")
        for number, script in enumerate(MIGRATIONS[done:], done + 1):
            for statement in statements(script):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")
        connection.execute("COMMIT")
        return done, len(MIGRATIONS)
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _record_many(connection: sqlite3.Connection, rows: list[Any]) -> list[bool]:
    """Write the turns of a group in few statements; returns which were new.

    If one of many was recorded before, the group is rejected and repeated one by one.
    """
    turns, conversations, lines = zip(*rows, strict=True)
    new = insert(connection, _INSERT_TURNS, 7, turns, " ON CONFLICT (id) DO NOTHING")
    if new != len(rows):
        if len(rows) == 1:
            return [False]
        raise sqlite3.IntegrityError("a turn of this group was recorded before")
    insert(connection, _INSERT_CONVERSATIONS, 10, conversations, _TOUCH)
    append_audit(connection, [line for line in lines if line is not None])
    return [True] * len(rows)


_INSERT_TURNS = "INSERT INTO turns (id, conversation, at, agent, speaker, asked, answered) VALUES "
_INSERT_CONVERSATIONS = f"INSERT INTO conversations ({CONVERSATION}) VALUES "
_TOUCH = (
    " ON CONFLICT (id) DO UPDATE SET touched = excluded.touched, expires = excluded.expires, turns = turns + 1,"
    " bytes = bytes + excluded.bytes"
)


def _probe(connection: sqlite3.Connection) -> None:
    """Write something and remove it."""
    connection.execute(
        f"INSERT OR REPLACE INTO records ({RECORD}) VALUES (?, ?, ?, ?, ?, ?)", ("probe", "", b"", "", 0.0, 1)
    )
    connection.execute("DELETE FROM records WHERE space = ? AND key = ?", ("probe", ""))


def _holder(node: str, lease: float) -> tuple[str, float]:
    """The holder of a task and the end of its lease; nobody once it was released."""
    return (node, now() + lease) if lease > 0 else ("", 0.0)
