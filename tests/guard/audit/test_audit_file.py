"""An exported audit log is verified by itself, whole or in part, wherever it was taken."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sabir import Message, Turn
from sabir.cli import main
from sabir.errors import ConfigError
from sabir.guard.audit.log import AuditBuffer, export, retain
from sabir.guard.audit.verify import verify, verify_export
from sabir.guard.identity.api_keys import ApiKeys
from sabir.stores.base import AuditLine
from sabir.stores.memory import MemoryStore

Line = dict[str, Any]


async def logged(store: MemoryStore) -> None:
    """A log with lines of every shape: floats and letters of all kinds, turns of one moment, a removed front."""
    await store.audit(AuditLine(time.time() - 90 * 86400, "turn", "key:0"))
    for number in range(3):
        detail = {"bytes": number, "größe": "ß👋\u2028", "cost": 0.1 + number, "none": None, "list": [1, 2.0]}
        await store.audit(AuditLine(time.time(), "turn", f"key:{number}", "nlip-http", "echo", detail=detail))
    notes = AuditBuffer(store, limit=3)
    for number in range(5):
        turn = Turn(Message.text("x"), id=f"t{number}", agent="echo")
        turn.used.extend(["search"] * (number % 2))
        notes.add(turn, "mcp", number)
    await notes.close()
    await ApiKeys(store).add("alice", roles=("staff",))
    await retain(store, 30.0)
    await store.audit(AuditLine(1e9, "refused", "anonymous", outcome="Forbidden", conversation="c1"))


async def exported(store: MemoryStore, **options: Any) -> list[bytes]:
    return [line async for line in export(store, **options)]


@pytest.fixture
async def lines(store: MemoryStore) -> list[bytes]:
    await logged(store)
    assert (await verify(store)).whole
    return await exported(store)


async def test_an_export_is_whole_as_a_whole_and_in_part(store: MemoryStore, lines: list[bytes]) -> None:
    verdict = verify_export(lines)
    assert (verdict.broken, verdict.lines, verdict.first, verdict.last) == ((), 7, 2, 8)
    assert verdict.anchor == (await verify(store)).anchor
    assert verify_export(lines, anchor=verdict.anchor).whole
    part = verify_export(await exported(store, since=4))
    assert (part.broken, part.lines, part.first) == ((), 4, 5)
    assert verify_export([b"\n", *lines[:2], b"  \n", *lines[2:]]).whole


async def test_other_spaces_and_another_order_of_names_do_not_matter(lines: list[bytes]) -> None:
    spelt = [json.dumps(dict(reversed(json.loads(line).items())), indent=None).encode() for line in lines]
    assert [str(item) for item in verify_export(spelt).broken] == []


def changed(number: int, change: Callable[[Line], object], part: int | None = None) -> Callable[[list[Line]], object]:
    def on(lines: list[Line]) -> object:
        return [change(line) for line in lines if line["number"] == number and part in (None, line.get("part"))]

    return on


CASES: list[tuple[str, Callable[[list[Line]], object], list[str]]] = [
    ("the caller", changed(3, lambda line: line.update(caller="key:9")), ["line 3: was changed"]),
    ("the time", changed(3, lambda line: line.update(at=line["at"] + 0.001)), ["line 3: was changed"]),
    ("a detail", changed(3, lambda line: line["detail"].update(cost=1)), ["line 3: was changed"]),
    ("a new detail", changed(8, lambda line: line.update(detail={"x": 1})), ["line 8: was changed"]),
    ("a new field", changed(3, lambda line: line.update(note="x")), [
        "line 3: cannot be read; it was changed (line 2 of the file)",
    ]),
    ("a turn of many", changed(5, lambda line: line.update(caller="eve"), 2), ["line 5: was changed"]),
    ("what it used", changed(5, lambda line: line["detail"].update(tool="none"), 2), ["line 5: was changed"]),
    ("its outcome", changed(5, lambda line: line.update(outcome="failed"), 2), ["line 5: was changed"]),
    ("its conversation", changed(5, lambda line: line.update(conversation="c9"), 2), ["line 5: was changed"]),
    ("its kind", changed(5, lambda line: line.update(kind="refused"), 2), ["line 5: was changed"]),
    ("its part", changed(5, lambda line: line.update(part=9), 2), ["line 5: was changed"]),
    ("how many are left out", changed(5, lambda line: line["detail"].update(left_out=1), 4), ["line 5: was changed"]),
    ("a line removed", lambda lines: lines.pop(1), ["line 3: is gone"]),
    ("a turn of many removed", lambda lines: lines.pop(4), ["line 5: was changed"]),
    ("a line twice", lambda lines: lines.insert(1, lines[1]), ["line 3: was changed"]),
    ("two changed places", lambda lines: lines.insert(0, lines.pop(1)), [
        "line 2: is a duplicate, or was moved", "line 3: is gone",
    ]),
    ("another previous", changed(3, lambda line: line.update(previous="0" * 64)), [
        "line 3: does not follow the line before it; one of the two was moved or changed", "line 3: was changed",
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("change", "found"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
async def test_what_was_done_to_the_file_is_found(
    lines: list[bytes], change: Callable[[list[Line]], object], found: list[str]
) -> None:
    read = [json.loads(line) for line in lines]
    change(read)
    assert [str(item) for item in verify_export([json.dumps(line).encode() for line in read]).broken] == found


async def test_a_duplicate_name_is_a_change(lines: list[bytes]) -> None:
    twice = lines[1].replace(b'"caller":', b'"caller":"key:9","caller":', 1)
    [broken] = verify_export([lines[0], twice, *lines[2:]]).broken
    assert str(broken) == "line 3: cannot be read; it was changed (line 2 of the file)"


async def test_redacted_lines_are_checked_in_their_places_and_counted(store: MemoryStore, lines: list[bytes]) -> None:
    hidden = await exported(store, redact=("caller",), secret=b"s")
    verdict = verify_export(hidden)
    assert (verdict.whole, verdict.redacted, verdict.lines) == (True, 7, 7)
    assert [str(item) for item in verify_export(hidden[:1] + hidden[2:]).broken] == ["line 3: is gone"]


async def test_a_file_without_a_line_is_reported(lines: list[bytes]) -> None:
    with pytest.raises(ConfigError, match="has no audit entry"):
        verify_export([b"\n"])


def test_the_command_verifies_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in "abc":
        assert main(["keys", "add", name]) == 0
    capsysbinary.readouterr()
    assert main(["audit", "export", "--since", "1"]) == 0
    written = capsysbinary.readouterr().out
    file = tmp_path / "a log.jsonl"
    file.write_bytes(written)
    monkeypatch.chdir(tmp_path.parent)  # where no store is
    assert main(["audit", "verify", str(file)]) == 0
    assert capsysbinary.readouterr().out.startswith(b"2 lines (2 to 3), unbroken. Keep this anchor elsewhere")
    file.write_bytes(written.replace(b'"name":"c"', b'"name":"x"'))
    assert main(["audit", "verify", str(file)]) == 1
    assert capsysbinary.readouterr().err == b"sabir: audit: line 3: was changed\n"
    assert main(["audit", "verify", str(file), "--json"]) == 1
    assert json.loads(capsysbinary.readouterr().out)["broken"] == [{"number": 3, "how": "was changed"}]
    assert main(["audit", "verify", str(tmp_path / "none")]) == 2
    assert b"none: No such file" in capsysbinary.readouterr().err
