"""The audit log: verified line by line, exported, kept as long as policy says, and not to be flooded."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from guard_clock import Clock
from sabir.errors import BadSetup
from sabir.guard.audit import Trail, export, redacted, retain, verify
from sabir.stores.base import AuditLine, chain
from sabir.stores.sqlite import SQLiteStore

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


async def told(path: Path, **options: str) -> list[str]:
    store = SQLiteStore(path)
    await store.open()
    try:
        return [str(each) for each in (await verify(store, **options)).broken]  # type: ignore[arg-type]
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
        ["line 5: does not follow the line before it; one of the two was moved or changed"],
    ),
    (
        "the first removed",
        ["DELETE FROM audit WHERE number < 3"],
        ["line 3: the 2 lines before it are gone, and no policy did it"],
    ),
    ("unreadable", ["UPDATE audit SET line = 'x' WHERE number = 5"], ["line 5: cannot be read; it was changed"]),
    ("another beginning", ["UPDATE audit SET previous = hash WHERE number = 1"], [
        "line 1: does not begin the chain; it was changed", "line 1: was changed",
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("statements", "found"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
async def test_what_was_done_to_it_is_found_and_named(tmp_path: Path, statements: list[str], found: list[str]) -> None:
    await (await written(tmp_path / "s.db")).close()
    change(tmp_path / "s.db", *statements)
    assert await told(tmp_path / "s.db") == found


async def test_an_end_that_was_cut_off_and_a_chain_made_anew_are_found_by_the_anchor(tmp_path: Path) -> None:
    store = await written(tmp_path / "s.db")
    anchor = (await verify(store)).anchor
    await store.close()
    change(tmp_path / "s.db", "DELETE FROM audit WHERE number > 7")
    assert await told(tmp_path / "s.db") == []  # the chain alone cannot show it
    assert await told(tmp_path / "s.db", anchor=anchor) == ["line 10: is gone; the anchor says that it was there"]
    forged = await written(tmp_path / "f.db", at=2000.0)
    assert [str(b) for b in (await verify(forged, anchor=anchor)).broken] == [
        "line 10: is not the line that the anchor was taken of"
    ]
    await forged.close()


async def test_a_line_rehashed_in_place_breaks_the_one_behind_it(tmp_path: Path) -> None:
    await (await written(tmp_path / "s.db")).close()
    with sqlite3.connect(tmp_path / "s.db") as connection:
        line, previous = connection.execute("SELECT line, previous FROM audit WHERE number = 5").fetchone()
        forged = bytes(line).replace(b"key:1", b"key:9")
        connection.execute("UPDATE audit SET line = ?, hash = ? WHERE number = 5", (forged, chain(previous, forged)))
    connection.close()
    assert await told(tmp_path / "s.db") == [
        "line 6: does not follow the line before it; one of the two was moved or changed"
    ]


@pytest.mark.parametrize("wrong", ["", "7", "x:abc", "7:abc", f"-1:{'0' * 64}"])
async def test_an_anchor_that_is_none_is_said(tmp_path: Path, wrong: str) -> None:
    store = await written(tmp_path / "s.db", 1)
    with pytest.raises(BadSetup):
        await verify(store, anchor=wrong)
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
    assert [each.partition(":")[2] for each in await told(tmp_path / "s.db")] == [
        " the 13 lines before it are gone, and no policy did it"
    ]


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


def test_a_flood_of_refusals_is_counted_and_not_written(clock: Clock) -> None:
    trail = Trail(3, clock=clock)

    def refused(caller: str = "unknown", address: str = "192.0.2.1") -> AuditLine | None:
        return trail.admit(AuditLine(0.0, "refused", caller, "nlip-http", outcome="TooMany"), address)

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
    trail = Trail(1, most=10, clock=clock)
    for number in range(1000):
        trail.admit(AuditLine(0.0, "refused", "unknown"), f"10.0.{number // 250}.{number % 250}")
    assert len(trail._seen) == 10
