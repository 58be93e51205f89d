"""The gateway is killed at random moments (``scripts/durability.py``), and the check itself is checked."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

from sabir.message import Message
from sabir.stores.base import AuditLine, ConversationRow, TurnEntry
from sabir.stores.sqlite.store import SQLiteStore
from sabir.turn import PastTurn
from suites.durability.scripts import SCRIPTS, load_script


@pytest.fixture(scope="module")
def durability() -> ModuleType:
    return load_script("durability")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_ten_kills_lose_no_acknowledged_turn_and_double_none() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / "durability.py"), "--runs", "10"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "none lost, none doubled" in done.stdout


async def _talked(store: SQLiteStore, client: object, *, leave_out: int = -1, twice: int = -1) -> None:
    for n, question in enumerate(client.questions):  # type: ignore[attr-defined]
        client.answered.append(f"You said: {question}")  # type: ignore[attr-defined]
        for copy in range((n != leave_out) + (n == twice)):
            now = time.time()
            past = PastTurn(f"{n}.{copy}", now, "echo", Message.text(question), Message.text(f"You said: {question}"))
            line = AuditLine(now, "turn", "ada", turn=past.id)
            await store.record(TurnEntry(ConversationRow("c", "ada", now, now, now + 60), past, line))


@pytest.mark.parametrize(
    ("harm", "complaint"),
    [({}, None), ({"leave_out": 1}, "is recorded 0 times"), ({"twice": 2}, "is recorded 2 times")],
    ids=["whole", "lost", "doubled"],
)
async def test_the_check_finds_a_lost_and_a_doubled_turn(
    durability: ModuleType, tmp_path: Path, harm: dict[str, int], complaint: str | None
) -> None:
    store = SQLiteStore(tmp_path / "sabir.db")
    await store.open()
    client = durability.Client()
    await _talked(store, client, **harm)
    audited, _ = await durability.audit_of(store, None)
    if complaint is None:
        await durability.verify(store, [client], audited)
    else:
        with pytest.raises(AssertionError, match=complaint):
            await durability.verify(store, [client], audited)
    await store.close()


async def test_the_check_finds_a_changed_audit_line(durability: ModuleType, tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "sabir.db")
    await store.open()
    await _talked(store, durability.Client())
    await durability.audit_of(store, None)
    connection = store.connect()
    connection.execute("UPDATE audit SET line = replace(CAST(line AS TEXT), 'ada', 'eve') WHERE number = 2")
    connection.close()
    with pytest.raises(AssertionError, match="an audit line was changed"):
        await durability.audit_of(store, None)
    await store.close()
