"""The audit log: verified line by line, exported, kept as long as policy says, and not to be flooded."""

from __future__ import annotations

import ast
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import sabir
from guard_clock import Clock
from sabir.agents.echo import echo
from sabir.errors import ConfigError, RateLimited
from sabir.exchange.request import EventSink, TurnRequest
from sabir.guard import Credentials, Quotas
from sabir.guard.audit.log import DETAILS, AuditThrottle, export, redacted, retain
from sabir.guard.audit.verify import verify
from sabir.message import Message
from sabir.stores.base import GENESIS, AuditLine, ChainedLine, chain
from sabir.stores.sqlite.schema import MIGRATIONS, statements
from sabir.stores.sqlite.store import SQLiteStore

DAY = 86400.0


async def written(path: Path, lines: int = 10, at: float = 1000.0) -> SQLiteStore:
    store = SQLiteStore(path)
    await store.open()
    for number in range(lines):
        await store.audit(
            AuditLine(at + number, "turn", f"key:{number % 3}", "nlip-http", "echo", detail={"bytes": number})
        )
    return store


def change(path: Path, *statements: str) -> None:
    with sqlite3.connect(path) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


async def problems(path: Path, **options: str) -> list[str]:
    store = SQLiteStore(path)
    await store.open()
    try:
        return [str(item) for item in (await verify(store, **options)).broken]  # type: ignore[arg-type]
    finally:
        await store.close()


async def test_an_untouched_log_is_whole_and_gives_an_anchor(tmp_path: Path) -> None:
    store = await written(tmp_path / "s.db")
    verdict = await verify(store)
    assert (verdict.whole, verdict.lines, verdict.first) == (True, 10, 1)
    assert verdict.anchor.startswith("10:")
    assert (await verify(store, anchor=verdict.anchor)).whole
    await store.close()


CHANGED = "UPDATE audit SET line = replace(CAST(line AS TEXT), 'key:1', 'key:2') WHERE number = 5"
CASES: list[tuple[str, list[str], list[str]]] = [
    ("changed", [CHANGED], ["line 5: was changed"]),
    ("removed", ["DELETE FROM audit WHERE number = 5"], ["line 5: is gone"]),
    ("three removed", ["DELETE FROM audit WHERE number BETWEEN 4 AND 6"], ["line 4: is gone (lines 4 to 6)"]),
    (
        "swapped",
        [
            "UPDATE audit SET number = 100 WHERE number = 4",
            "UPDATE audit SET number = 4 WHERE number = 5",
            "UPDATE audit SET number = 5 WHERE number = 100",
        ],
        [
            "line 4: does not follow the line before it; one of the two was moved or changed",
            "line 5: does not follow the line before it; one of the two was moved or changed",
            "line 6: does not follow the line before it; one of the two was moved or changed",
        ],
    ),
    (
        "removed and renumbered",
        [
            "DELETE FROM audit WHERE number = 5",
            *[f"UPDATE audit SET number = {n - 1} WHERE number = {n}" for n in range(6, 11)],
        ],
        [
            "line 5: does not follow the line before it; one of the two was moved or changed",
            "line 10: is gone",
        ],
    ),
    (
        "the first removed",
        ["DELETE FROM audit WHERE number < 3"],
        ["line 3: the 2 lines before it are gone, and no policy did it"],
    ),
    ("unreadable", ["UPDATE audit SET line = 'x' WHERE number = 5"], ["line 5: cannot be read; it was changed"]),
    ("the end cut off", ["DELETE FROM audit WHERE number > 7"], ["line 8: is gone (lines 8 to 10)"]),
    ("the last removed", ["DELETE FROM audit WHERE number = 10"], ["line 10: is gone"]),
    ("all removed", ["DELETE FROM audit"], ["line 1: is gone (lines 1 to 10)"]),
    ("the time beside it", ["UPDATE audit SET at = at + 5 WHERE number = 5"], [
        "line 5: has another time beside it than the one it was written with",
    ]),
    ("no time beside it", ["UPDATE audit SET at = 'x' WHERE number = 5"], [
        "line 5: has another time beside it than the one it was written with",
    ]),
    ("a name that no line has", [
        """UPDATE audit SET line = replace(CAST(line AS TEXT), '"kind"', '"x":1,"kind"') WHERE number = 5""",
    ], ["line 5: was changed"]),
    ("the head", ["UPDATE audit_head SET number = 12"], ["line 11: is gone (lines 11 to 12)"]),
    ("another head", ["UPDATE audit_head SET hash = 'x'"], ["line 10: is not the line that the store wrote last"]),
    ("no head", ["DELETE FROM audit_head"], [
        "the store no longer knows which line it wrote last; somebody removed that",
    ]),
    ("a head that is behind", [
        "UPDATE audit_head SET (number, hash) = (SELECT number, hash FROM audit WHERE number = 8)",
    ], ["line 9: was not written by a gateway; the store knows of no entry after the one before"]),
    ("all moved up", ["UPDATE audit SET number = number + 100", "UPDATE audit_head SET number = 110"], [
        "line 101: the 100 lines before it are gone, and no policy did it",
        "line 101: starts the chain, but has another number; it was changed",
    ]),
    ("the hash of one", ["UPDATE audit SET hash = 7 WHERE number = 5"], [
        "line 5: was changed", "line 6: does not follow the line before it; one of the two was moved or changed",
    ]),
    ("another beginning", ["UPDATE audit SET previous = hash WHERE number = 1"], [
        "line 1: does not start the chain; it was changed", "line 1: was changed",
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("statements", "found"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
async def test_what_was_done_to_it_is_found_and_named(tmp_path: Path, statements: list[str], found: list[str]) -> None:
    await (await written(tmp_path / "s.db")).close()
    change(tmp_path / "s.db", *statements)
    assert await problems(tmp_path / "s.db") == found


async def test_the_anchor_reveals_a_missing_end_and_a_rewritten_chain(tmp_path: Path) -> None:
    store = await written(tmp_path / "s.db")
    anchor = (await verify(store)).anchor
    await store.close()
    cut = "UPDATE audit_head SET (number, hash) = (SELECT number, hash FROM audit WHERE number = 7)"
    change(tmp_path / "s.db", "DELETE FROM audit WHERE number > 7", cut)
    assert await problems(tmp_path / "s.db") == []  # the store alone cannot show it
    assert await problems(tmp_path / "s.db", anchor=anchor) == ["line 10: is gone; the anchor says that it was there"]
    forged = await written(tmp_path / "f.db", at=2000.0)
    assert [str(b) for b in (await verify(forged, anchor=anchor)).broken] == [
        "line 10: is not the line that the anchor was taken of"
    ]
    await forged.close()


async def test_a_log_with_a_missing_end_continues_and_still_shows_it(tmp_path: Path) -> None:
    await (await written(tmp_path / "s.db")).close()
    change(tmp_path / "s.db", "DELETE FROM audit WHERE number > 7")
    store = SQLiteStore(tmp_path / "s.db")
    await store.open()
    await store.audit(AuditLine(5000.0, "turn", "key:1"))
    assert [str(item) for item in (await verify(store)).broken] == ["line 8: is gone (lines 8 to 10)"]
    await store.close()


async def test_a_store_without_its_head_takes_lines_all_the_same(tmp_path: Path) -> None:
    await (await written(tmp_path / "s.db")).close()
    change(tmp_path / "s.db", "DELETE FROM audit_head")
    store = SQLiteStore(tmp_path / "s.db")
    await store.open()
    await store.audit(AuditLine(5000.0, "turn", "key:1"))
    assert [line.number for line in await store.audit_lines(9)] == [10, 11]
    await store.close()


async def test_a_log_of_an_older_version_is_whole_and_its_end_is_kept_from_now_on(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "s.db") as old:
        for script in MIGRATIONS[:5]:
            for statement in statements(script):
                old.execute(statement)
        line = b'{"at":1000.5,"kind":"turn","caller":"key:1"}'
        old.execute("INSERT INTO audit VALUES (1, 1000.4, ?, ?, ?)", (line, GENESIS, chain(GENESIS, line)))
        old.execute("PRAGMA user_version = 5")
    old.close()
    assert await problems(tmp_path / "s.db") == []
    change(tmp_path / "s.db", "DELETE FROM audit")
    assert await problems(tmp_path / "s.db") == ["line 1: is gone"]


async def test_entries_written_during_verification_do_not_break_the_chain(tmp_path: Path) -> None:
    store = await written(tmp_path / "s.db")

    class Busy:
        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        async def audit_lines(self, since: int, limit: int) -> list[ChainedLine]:
            lines = await store.audit_lines(since, limit)
            if since < 12:
                await store.audit(AuditLine(2000.0, "turn", "key:1"))
            return lines

    busy: Any = Busy()
    assert (await verify(busy)).broken == ()
    await store.close()


async def test_a_line_rehashed_in_place_breaks_the_one_behind_it(tmp_path: Path) -> None:
    await (await written(tmp_path / "s.db")).close()
    with sqlite3.connect(tmp_path / "s.db") as connection:
        line, previous = connection.execute("SELECT line, previous FROM audit WHERE number = 5").fetchone()
        forged = bytes(line).replace(b"key:1", b"key:9")
        connection.execute("UPDATE audit SET line = ?, hash = ? WHERE number = 5", (forged, chain(previous, forged)))
    connection.close()
    assert await problems(tmp_path / "s.db") == [
        "line 6: does not follow the line before it; one of the two was moved or changed"
    ]


@pytest.mark.parametrize("invalid", ["", "7", "x:abc", "7:abc", f"-1:{'0' * 64}"])
async def test_an_invalid_anchor_is_reported(tmp_path: Path, invalid: str) -> None:
    store = await written(tmp_path / "s.db", 1)
    with pytest.raises(ConfigError):
        await verify(store, anchor=invalid)
    await store.close()


async def test_retention_removes_from_the_front_and_says_so(tmp_path: Path) -> None:
    store = await written(tmp_path / "s.db", at=0.0)
    await store.audit(AuditLine(50 * DAY, "turn", "key:1"))
    assert await retain(store, 30.0, now=60 * DAY) == 10
    verdict = await verify(store)
    assert (verdict.whole, verdict.first, verdict.lines) == (True, 11, 2)
    assert await retain(store, 30.0, now=60 * DAY) == 0
    await store.audit(AuditLine(70 * DAY, "turn", "key:1"))
    assert await retain(store, 5.0, now=72 * DAY) == 2
    assert (await verify(store)).whole
    await store.close()
    change(tmp_path / "s.db", "DELETE FROM audit WHERE number = (SELECT min(number) FROM audit)")
    assert [problem.partition(":")[2] for problem in await problems(tmp_path / "s.db")] == [
        " the 13 lines before it are gone, and no policy did it"
    ]


def test_every_detail_that_is_written_can_be_hidden_and_is_in_the_docs() -> None:
    written: set[str] = set()
    for path in Path(sabir.__file__).parent.rglob("*.py"):
        if "AuditLine(" not in (text := path.read_text(encoding="utf-8")):
            continue
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Assign(targets=[ast.Name(id="detail")], value=value) | ast.keyword(arg="detail", value=value):
                    found = [item.keys for item in ast.walk(value) if isinstance(item, ast.Dict)]
                case ast.AnnAssign(target=ast.Name(id="detail"), value=ast.Dict(keys=keys)):
                    found = [keys]
                case _:
                    continue
            written |= {key.value for keys in found for key in keys if isinstance(key, ast.Constant)}
    assert {"bytes", "roles", "method", "through"} <= written
    assert written - {"turns"} <= set(DETAILS)  # which are spread, and hidden one by one
    docs = (Path(__file__).parents[3] / "docs" / "security.md").read_text(encoding="utf-8")
    for name in (*DETAILS, *AuditLine.__struct_fields__, "number", "previous", "part", "redacted"):
        assert f"`{name}`" in docs


async def test_the_export_is_json_lines_and_redacted_by_policy(tmp_path: Path) -> None:
    store = await written(tmp_path / "s.db", 4)
    plain = [json.loads(line) async for line in export(store)]
    assert [line["number"] for line in plain] == [1, 2, 3, 4]
    assert plain[0]["caller"] == "key:0" and "redacted" not in plain[0]
    assert plain[1]["previous"] == plain[0]["hash"]
    hidden = [json.loads(line) async for line in export(store, redact=("caller", "bytes"), secret=b"s", since=1)]
    assert [line["number"] for line in hidden] == [2, 3, 4]
    assert "key:" not in json.dumps(hidden) and all(line["redacted"] and "detail" not in line for line in hidden)
    again = redacted(AuditLine(0.0, "turn", "key:1"), ("caller",), b"s").caller
    assert hidden[0]["caller"] == again  # the same caller is the same pseudonym
    assert redacted(AuditLine(0.0, "turn", "key:1"), ("caller",), b"other").caller != again
    await store.close()


async def test_a_caller_over_the_daily_quota_is_recorded_as_refused_and_not_as_failed(tmp_path: Path) -> None:
    gateway = sabir.Gateway(echo, home=tmp_path, quotas=Quotas(daily_turns=1))
    await gateway.start()
    ask = TurnRequest(Message.text("hello"), "nlip-http", None, Credentials("192.0.2.1"))

    async def nowhere(_: object) -> None: ...

    await gateway.exchange.ask(ask, EventSink(nowhere))
    with pytest.raises(RateLimited):
        await gateway.exchange.ask(ask, EventSink(nowhere))
    await gateway.guard.notes.close()
    lines = [line.line for line in await gateway.store.audit_lines()]
    assert ("refused", "RateLimited") in [(line.kind, line.outcome) for line in lines]
    assert "failed" not in [line.kind for line in lines]
    await gateway.stop()


def test_a_flood_of_refusals_is_counted_and_not_written(clock: Clock) -> None:
    trail = AuditThrottle(3, clock=clock)

    def refused(caller: str = "unknown", address: str = "192.0.2.1") -> AuditLine | None:
        return trail.admit(AuditLine(0.0, "refused", caller, "nlip-http", outcome="RateLimited"), address)

    assert sum(refused() is not None for _ in range(1000)) == 3
    assert refused("key:1") is not None  # others are still seen
    assert refused(address="192.0.2.2") is not None
    clock.now += 60
    line = refused()
    assert line is not None and line.detail == {"address": "192.0.2.1", "left_out": 997}
    for _ in range(10):
        refused()
    [rest] = trail.left_out()
    assert rest.detail == {"address": "192.0.2.1", "left_out": 8} and rest.kind == "refused"
    assert trail.left_out() == []


def test_the_trail_itself_does_not_grow_without_end(clock: Clock) -> None:
    trail = AuditThrottle(1, limit=10, clock=clock)
    for number in range(1000):
        trail.admit(AuditLine(0.0, "refused", "unknown"), f"10.0.{number // 250}.{number % 250}")
    assert len(trail._seen) == 10
