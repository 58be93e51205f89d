"""The pages on ACL: an example of every act that can be sent, and patterns that run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from acl_messages import message
from conftest import Served
from sabir.dialogues.states import PROTOCOLS
from sabir.protocols.acl.door.settings import AclSettings
from sabir.protocols.acl.wire.acts import ACTS
from sabir.protocols.acl.wire.envelope import envelope_of, plain

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "acl.md").read_text(encoding="utf-8")
PATTERNS = (DOCS / "acl-patterns.md").read_text(encoding="utf-8")
PRINTED = {
    "An agent": "INFORM_RESULT HELLO",
    "Whispering Wind": "jules 1.0",
    "Delegation": "You said: Explain this",
    "Contract net": "2 ",
    "Subscription": "registered carver",
    "Saga": "done ['flight', 'hotel']",
}


@pytest.mark.parametrize("act", ACTS)
def test_every_act_has_an_example_that_can_be_sent(act: str) -> None:  # ACL-17
    found = re.search(rf"### {act}\n\n.+?\n\n```json\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    given = message(act, in_reply_to="msg_1", **json.loads(found.group(1)))
    assert plain(envelope_of(given))["payload"] == given["payload"]


def test_every_protocol_is_in_the_table() -> None:  # ACL-17
    table = PAGE.partition("## Conversations")[2].partition("## ")[0]
    assert [name for name in PROTOCOLS if name.replace("-", " ") not in table] == []


def test_whole_messages_and_settings_of_the_page_can_be_read() -> None:
    whole = [text for text in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL) if '"mcp_version"' in text]
    for text in whole:
        assert plain(envelope_of(json.loads(text))) == json.loads(text)
    keys = re.findall(r"^    (\w+):", PAGE.rpartition("```yaml")[2], re.MULTILINE)
    assert set(keys) <= set(AclSettings.__struct_fields__)
    assert whole and keys


@pytest.mark.parametrize("pattern", PRINTED)
def test_every_pattern_runs(pattern: str, served: Served, tmp_path: Path) -> None:  # ACL-52
    section = PATTERNS.partition(f"## {pattern}\n")[2].partition("\n## ")[0]
    code = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert code is not None
    script = tmp_path / "pattern.py"
    script.write_text(code.group(1).replace("http://127.0.0.1:8080", served.url))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=600, cwd=tmp_path)
    assert PRINTED[pattern] in done.stdout, done.stdout + done.stderr
