"""Boxes and dialogues in PostgreSQL."""

from __future__ import annotations

from typing import Any, Final

import asyncpg
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
    LetterRow,
    Outcome,
    UtteranceRow,
)

_line_bytes = msgspec.json.Encoder().encode
_values = msgspec.structs.astuple
_CLOCK: Final = "extract(epoch from clock_timestamp())::float8"
_NO_DIALOGUE: Final = DialogueRow("", "", "", "", "", "", 0.0, 0.0, 0.0)
_SWEPT_AT_ONCE: Final = 1000
_CONVERSE: Final = f"SELECT converse({', '.join(f'${n}' for n in range(1, 38))})"


class PostgresLetters:
    """The PostgreSQL implementation of ``stores.letters``."""

    async def _rows(self, sql: str, *values: Any) -> list[asyncpg.Record]:
        raise NotImplementedError

    async def _fetch(self, sql: str, *values: Any) -> list[asyncpg.Record]:
        raise NotImplementedError

    async def _row(self, sql: str, *values: Any) -> asyncpg.Record | None:
        raise NotImplementedError

    async def _execute(self, sql: str, *values: Any, seconds: float | None = None) -> tuple[int, bool]:
        raise NotImplementedError

    async def put_letters(self, rows: tuple[LetterRow, ...]) -> None:
        await self._rows("SELECT put_letters($1,$2,$3,$4,$5,$6,$7,$8,$9)", *_columns(rows, 9))

    async def take_letters(self, box: str, member: str, holder: str, lease: float, limit: int) -> list[LetterRow]:
        sql = f"SELECT {LETTER} FROM take_letters($1, $2, $3, $4, $5)"
        taken = [LetterRow(*row) for row in await self._rows(sql, box, member, holder, lease, limit)]
        return sorted(taken, key=lambda row: (-row.priority, row.number))

    async def hold_letters(self, holder: str, numbers: tuple[int, ...], lease: float) -> int:
        sql = f"UPDATE letters SET lease = {_CLOCK} + $1 WHERE number = ANY($2) AND holder = $3"
        return (await self._execute(sql, lease, list(numbers), holder))[0]

    async def release_letter(self, holder: str, box: str, letter_id: str) -> int:
        sql = "UPDATE letters SET lease = 0 WHERE box = $1 AND member = '' AND id = $2 AND holder = $3"
        return (await self._execute(sql, box, letter_id, holder))[0]

    async def finish_letters(self, numbers: tuple[int, ...]) -> None:
        await self._execute("DELETE FROM letters WHERE number = ANY($1)", list(numbers))

    async def drop_letters(self, numbers: tuple[int, ...], box: str) -> int:
        sql = "DELETE FROM letters WHERE number = ANY($1) AND box = $2 AND member = ''"
        return (await self._execute(sql, list(numbers), box))[0]

    async def drop_letter(self, box: str, letter_id: str) -> int:
        sql = "DELETE FROM letters WHERE box = $1 AND member = '' AND id = $2"
        return (await self._execute(sql, box, letter_id))[0]

    async def acknowledge_letters(self, box: str, through: int) -> int:
        sql = (
            "DELETE FROM letters WHERE box = $1 AND member = '' AND number <= $2 AND deliveries > 0 AND priority >="
            " coalesce((SELECT priority FROM letters WHERE number = $2 AND box = $1 AND member = ''), $3)"
        )
        return (await self._execute(sql, box, through, HIGH))[0]

    async def waiting_letters(self, box: str, member: str = "", after: int = 0, limit: int = 100) -> list[LetterRow]:
        sql = f"SELECT {LETTER} FROM letters WHERE box = $1 AND member = $2 AND number > $3 ORDER BY number LIMIT $4"
        return [LetterRow(*row) for row in await self._fetch(sql, box, member, after, limit)]

    async def count_letters(self, box: str, member: str = "") -> dict[str, int]:
        sql = "SELECT sender, count(*) FROM letters WHERE box = $1 AND member = $2 GROUP BY sender"
        return {row[0]: row[1] for row in await self._fetch(sql, box, member)}

    async def clear_letters(self, box: str, member: str = "") -> int:
        return (await self._execute("DELETE FROM letters WHERE box = $1 AND member = $2", box, member))[0]

    async def last_letter(self) -> int:
        row = await self._row("SELECT coalesce(max(number), 0) FROM letters")
        return int(row[0]) if row else 0

    async def move_to_dead(self, number: int, dead: DeadRow) -> None:
        # Repeated after a lost connection, it moves nothing: the letter is gone.
        await self._execute(
            "WITH gone AS (DELETE FROM letters WHERE number = $1 RETURNING 1)"
            " INSERT INTO dead_letters (box, body, reason, attempts, at, member) SELECT $2,$3,$4,$5,$6,$7 FROM gone",
            number,
            *_values(dead)[:6],
        )

    async def dead_letters(self, box: str, limit: int = 100) -> list[DeadRow]:
        sql = f"SELECT {DEAD} FROM dead_letters WHERE box = $1 ORDER BY number LIMIT $2"
        return [DeadRow(*row) for row in await self._fetch(sql, box, limit)]

    async def count_dead(self) -> dict[str, int]:
        rows = await self._rows("SELECT box, count(*) FROM dead_letters GROUP BY box ORDER BY box")
        return {row[0]: row[1] for row in rows}

    async def take_dead(self, box: str, numbers: tuple[int, ...] = ()) -> list[DeadRow]:
        sql = f"DELETE FROM dead_letters WHERE box = $1 AND ($2::bigint[] IS NULL OR number = ANY($2)) RETURNING {DEAD}"
        rows = await self._rows(sql, box, list(numbers) or None)
        return sorted((DeadRow(*row) for row in rows), key=lambda row: row.number)

    # -- dialogues ---------------------------------------------------------------------------------

    async def converse(self, entry: Entry) -> Outcome:
        return await self._write_entry(entry)

    async def converse_and_hand(self, entry: Entry, holder: str, lease: float) -> tuple[Outcome, int]:
        return await self._write_entry(
            entry
        ), 0  # several nodes share the boxes: whichever wakes first takes the letter

    async def _write_entry(self, entry: Entry) -> Outcome:
        entry = entry.whole
        row = entry.dialogue or _NO_DIALOGUE
        line = (None, None) if entry.audit is None else (entry.audit.at, _line_bytes(entry.audit))
        given = (
            entry.dialogue is not None,
            entry.expect,
            *_values(row)[:12],
            row.detail,
            *_columns(entry.said, 11),
            *_columns(entry.whole_letters, 9),
            *line,
        )
        written = await self._row(_CONVERSE, *given)
        outcome: Outcome = written[0] if written else "changed"
        return outcome

    async def dialogue(self, conversation: str, initiator: str, participant: str) -> DialogueRow | None:
        rows = await self._fetch(
            f"SELECT {DIALOGUE} FROM dialogues WHERE conversation = $1 AND initiator = $2 AND participant = $3",
            conversation,
            initiator,
            participant,
        )
        return DialogueRow(*rows[0]) if rows else None

    async def dialogues(
        self, *, conversation: str | None = None, agent: str | None = None, limit: int = 100
    ) -> list[DialogueRow]:
        rows = await self._fetch(
            f"SELECT {DIALOGUE} FROM dialogues WHERE ($1::text IS NULL OR conversation = $1)"
            " AND ($2::text IS NULL OR initiator = $2 OR participant = $2) ORDER BY updated DESC LIMIT $3",
            conversation,
            agent,
            limit,
        )
        return [DialogueRow(*row) for row in rows]

    async def due_dialogues(self, now: float, limit: int = 100) -> list[DialogueRow]:
        sql = f"SELECT {DIALOGUE} FROM dialogues WHERE due > 0 AND due <= $1 ORDER BY due LIMIT $2"
        return [DialogueRow(*row) for row in await self._rows(sql, now, limit)]

    async def count_open(self, agent: str) -> int:
        row = await self._row("SELECT count(*) FROM dialogues WHERE participant = $1 AND timer <> ''", agent)
        return int(row[0]) if row else 0

    async def utterance(self, reference: str, sender: str, receiver: str) -> UtteranceRow | None:
        rows = await self._fetch(
            f"SELECT {UTTERANCE} FROM utterances WHERE (id = $1 OR (reply_with = $1 AND reply_with <> ''))"
            " AND sender = $2 AND receiver = $3 ORDER BY (id = $1) DESC, seq DESC LIMIT 1",
            reference,
            sender,
            receiver,
        )
        return UtteranceRow(*rows[0]) if rows else None

    async def utterances(self, conversation: str, limit: int = 1000) -> list[UtteranceRow]:
        sql = f"SELECT {UTTERANCE} FROM utterances WHERE conversation = $1 ORDER BY seq LIMIT $2"
        return [UtteranceRow(*row) for row in await self._fetch(sql, conversation, limit)]

    async def _sweep_letters(self, now: float) -> int:
        """Remove what has expired; expired letters become dead letters."""
        add_dead = (
            "WITH old AS (SELECT number FROM letters WHERE expires <= $1 LIMIT $2 FOR UPDATE SKIP LOCKED), gone AS ("
            "DELETE FROM letters USING old WHERE letters.number = old.number RETURNING letters.*)"
            " INSERT INTO dead_letters (box, body, reason, attempts, at, member)"
            f" SELECT box, body, '{EXPIRED}', deliveries, $1, member FROM gone ORDER BY number"
        )
        removals = [add_dead] + [
            f"DELETE FROM {table} WHERE ctid IN (SELECT ctid FROM {table} WHERE expires <= $1 LIMIT $2)"
            for table in ("dialogues", "utterances")
        ]
        swept = 0
        for sql in removals:
            removed = _SWEPT_AT_ONCE
            while removed == _SWEPT_AT_ONCE:
                removed, _ = await self._execute(sql, now, _SWEPT_AT_ONCE, seconds=30.0)
                swept += removed
        return swept


def _columns(rows: tuple[Any, ...], width: int) -> list[list[Any]]:
    """Rows as arrays, one for each of the first columns."""
    taken = [_values(row)[:width] for row in rows]
    return [[row[n] for row in taken] for n in range(width)]
