"""Receiver, sender and gateway of ACL are killed (``scripts/acl_durability.py``), and the check itself is checked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

from bus.on_nats import need_nats
from sabir.stores.letters import DialogueEntry, DialogueRow, UtteranceRow
from sabir.stores.memory import MemoryStore
from suites.durability.scripts import SCRIPTS, load_script

FAR = 4_000_000_000.0


@pytest.fixture(scope="module")
def durability() -> ModuleType:
    return load_script("acl_durability")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("where", ["sqlite", "cluster"])
def test_ten_kills_lose_no_acknowledged_message_and_none_is_done_twice(where: str) -> None:  # ACL-30
    if where == "cluster":
        need_nats()
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / "acl_durability.py"), "--runs", "10", "--on", where],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "none lost, none done twice" in done.stdout


async def _spoken(store: MemoryStore, name: str, acts: list[str], state: str = "done") -> None:
    for version, act in enumerate(acts):
        row = DialogueRow(name, "sender", "worker", "request", state, name, 0.0, 0.0, FAR)
        sender, receiver = ("sender", "worker") if act == "TASK_REQUEST" else ("worker", "sender")
        said = UtteranceRow(f"{name}-{version}", sender, receiver, name, "sender", "worker", act, 0.0, FAR, b"{}")
        entry = DialogueEntry(row, version, (msgspec.structs.replace(said),))
        assert await store.converse(entry) == "done"


WHOLE = ["TASK_REQUEST", "TASK_ACCEPT", "INFORM_RESULT"]


@pytest.mark.parametrize(
    ("acts", "results", "state", "complaint"),
    [
        (WHOLE, 1, "done", None),
        (WHOLE, 0, "done", "has 0 results"),
        (WHOLE, 2, "done", "has 2 results"),
        ([*WHOLE, "INFORM_RESULT"], 1, "done", "INFORM_RESULT"),
        (WHOLE[:1], 1, "sent", "TASK_REQUEST"),
    ],
    ids=["whole", "lost result", "two results", "done twice", "never accepted"],
)
async def test_the_check_finds_what_is_lost_or_done_twice(
    durability: ModuleType, tmp_path: Path, acts: list[str], results: int, state: str, complaint: str | None
) -> None:
    store, name = MemoryStore(), "worker-1"
    await store.open()
    await _spoken(store, name, acts, state)
    (tmp_path / name).touch()
    lines = [{"kind": "acknowledged", "id": name}]
    lines += [{"kind": "result", "id": name, "message": f"m{n}", "text": f"did {name}"} for n in range(results)]
    (tmp_path / "journal").write_text("".join(json.dumps(line) + "\n" for line in lines))
    setting = durability.Setting([durability.GatewayProcess(tmp_path / "x.yaml")], store, tmp_path)
    if complaint is None:
        await setting.verify([name])
    else:
        with pytest.raises(AssertionError, match=complaint):
            await setting.verify([name])
