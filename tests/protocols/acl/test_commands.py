"""``sabir send``, ``sabir inbox``, ``sabir ide``, and the delegation of Eddy and Jules in one command."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from conftest import Served, serving
from deadline import DEADLINE
from openai_server import scripted
from sabir.gateway.gateway import Gateway
from tcp_proxy import tcp_proxy

EXAMPLE = Path(__file__).parents[3] / "examples" / "eddy_and_jules"
sys.path.append(str(EXAMPLE))

from eddy import FAILING, delegate_coding_task_to_jules  # noqa: E402
from jules import jules  # noqa: E402
from refactor import suggestions  # noqa: E402
from repair import repair  # noqa: E402
from sandbox import run as run_sandboxed  # noqa: E402

from sabir.protocols.acl.peer.messenger import Messenger  # noqa: E402


async def sabir(*arguments: str, stdin: str = "", url: str = "") -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "sabir", *arguments,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "USER": "ada", "SABIR_URL": url},
    )  # fmt: skip
    out, err = await process.communicate(stdin.encode())
    return process.returncode or 0, out.decode(), err.decode()


MESSAGE = """{
  "performative": "TASK_REQUEST", // the act
  "sender": {"agent_id": "NAME"},
  "receiver": {"agent_id": "jules"}, /* whom */
  "payload": {"task_type": "ask", "task_description": "hello"},
}"""


@pytest.fixture
def name() -> str:
    return f"ada-{uuid4().hex[:8]}"


async def test_send_reads_comments_and_shows_the_reply(served: Served, name: str) -> None:  # ACL-6, C-12
    code, out, err = await sabir("send", f"{served.url}/acl", "--wait", "20", stdin=MESSAGE.replace("NAME", name))
    assert (code, err) == (0, "")
    assert re.search(rf"jules → {name} +TASK_ACCEPT", out)


async def test_send_says_what_is_wrong_and_where(served: Served, name: str) -> None:
    code, _, err = await sabir("send", f"{served.url}/acl", stdin='{"performative": "HELLO"}')
    assert (code, "at $.performative: expected a known act, not 'HELLO'" in err) == (2, True)
    code, _, err = await sabir(
        "send", f"{served.url}/acl", stdin=MESSAGE.replace("NAME", name).replace("jules", "nobody")
    )
    assert (code, "there is no agent 'nobody' here" in err) == (4, True)


async def test_inbox_shows_what_waits_and_a_conversation(served: Served, name: str) -> None:  # ACL-29
    _, out, _ = await sabir("send", f"{served.url}/acl", "--json", stdin=MESSAGE.replace("NAME", name))
    conversation = json.loads(out)["conversation_id"]
    async with asyncio.timeout(DEADLINE):
        while True:
            _, answer, _ = await sabir("inbox", f"{served.url}/acl", "--conversation", conversation, "--json")
            if json.loads(answer)["dialogues"][0]["state"] == "done":
                break
    _, shown, _ = await sabir("inbox", f"{served.url}/acl", "--conversation", conversation)
    assert f"{name} and jules (request): done" in shown
    assert re.search(rf"{name} → jules +TASK_REQUEST +hello", shown)
    _, waiting, _ = await sabir("inbox", f"{served.url}/acl", name)
    assert re.search("INFORM_RESULT +You said: hello", waiting)
    number = waiting.strip().splitlines()[-1].split()[0]
    listed = len(waiting.splitlines())
    acknowledged = await sabir("inbox", name, "--through", number, url=served.url)
    assert acknowledged[1] == f"Acknowledged {listed} messages.\n"
    assert (await sabir("inbox", name, url=served.url))[1] == f"Nothing waits for {name}.\n"


async def test_the_address_may_be_in_a_variable_and_a_duplicate_message_is_reported(
    served: Served, name: str, tmp_path: Path
) -> None:
    file = tmp_path / "message.json"
    file.write_text(MESSAGE.replace("NAME", name).replace("{\n", f'{{\n  "message_id": "{name}",\n', 1))
    said = [(await sabir("send", str(file), url=served.url))[1] for _ in range(2)]
    assert said == [
        f"Accepted: message {name} of conversation {name}\n",
        f"Message {name} was accepted before; nothing was sent again.\n",
    ]


@pytest.mark.parametrize("given", [("ada", "--conversation", "c1"), ()], ids=["both", "neither"])
async def test_inbox_shows_either_an_agent_or_a_conversation(given: tuple[str, ...]) -> None:
    code, _, errors = await sabir("inbox", "http://127.0.0.1:1/acl", *given)
    assert (code, errors) == (2, "sabir: inbox: expected either an AGENT or --conversation ID\n")


async def test_following_an_inbox_that_cannot_be_reached_says_so(name: str) -> None:
    code, out, err = await sabir("inbox", "http://127.0.0.1:9/acl", name, "--follow")
    assert (code, out) == (3, "")
    assert "127.0.0.1:9" in err


async def test_following_waits_for_a_gateway_that_is_restarted(served: Served, name: str) -> None:
    """What came while the stream was broken is printed when it is open again.

    It breaks twice: a request that is lost on a reused connection is first sent again without a word.
    """
    broken = 0

    def break_streams(data: bytes, connection: int) -> bytes | None:
        nonlocal broken
        if b"text/event-stream" in data and broken < 2:
            broken += 1
            return None
        return data

    async with tcp_proxy((served.host, served.port), to_server=break_streams, to_client=break_streams) as proxy:
        following = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "sabir", "inbox", f"{proxy.url}/acl", name, "--follow",
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            assert following.stdout is not None and following.stderr is not None
            async with asyncio.timeout(60):
                assert b"the stream was lost" in await following.stderr.readline()
                assert b"retrying" in await following.stderr.readline()
                await sabir("send", f"{served.url}/acl", stdin=MESSAGE.replace("NAME", name))
                assert b"TASK_ACCEPT" in await following.stdout.readline()
        finally:
            following.kill()
            await following.wait()


# -- Eddy and Jules -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def coding(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(Gateway(jules, home=tmp_path_factory.mktemp("coding"))) as served:
        yield served


def messages(log: str, prefix: str) -> list[dict[str, Any]]:
    return [json.loads(line.removeprefix(prefix)) for line in log.splitlines() if line.startswith(prefix)]


def test_the_delegation_in_one_command_logs_the_three_messages_of_the_draft() -> None:  # ACL-49, ACL-51, C-9
    done = subprocess.run([sys.executable, str(EXAMPLE / "run.py")], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    log = done.stderr + done.stdout
    sent, received = messages(log, "MCP_MESSAGE_SENT: "), messages(log, "MCP_MESSAGE_RECEIVED: ")
    acts = ["TASK_REQUEST", "TASK_ACCEPT", "INFORM_RESULT"]
    assert [item["performative"] for item in sent] == [item["performative"] for item in received] == acts
    request, accepted, result = sent
    assert [item["ontology"] for item in sent] == [
        "elizaos:ontology:code/python/debug_request",
        "elizaos:ontology:general/task_acceptance",
        "elizaos:ontology:code/python/solution_provided",
    ]
    assert accepted["in_reply_to"] == result["in_reply_to"] == request["message_id"]
    details = result["payload"]["result_details"]
    assert set(details) >= {"original_code", "fixed_code", "diff", "explanation", "tests_passed"}
    item_id = request["message_id"]
    assert f"Received TASK_ACCEPT from Jules for message_id {item_id}. Now awaiting INFORM_RESULT." in done.stdout
    assert f"Received INFORM_RESULT from Jules for message_id {item_id}. Forwarding result to user." in done.stdout


async def delegated(coding: Served, code: str) -> dict[str, Any]:
    async with Messenger(f"{coding.url}/acl", "Eddy") as eddy:
        return await delegate_coding_task_to_jules(eddy, code, think=lambda thought: None)


async def test_a_bug_that_is_not_found_is_an_analysis(coding: Served) -> None:  # ACL-12, ACL-49
    ended = await delegated(coding, "numbers = []\nprint(numbers[0])\n")
    assert (ended["performative"], ended["task_status"]) == ("INFORM_RESULT", "failure")
    assert ended["ontology"] == "elizaos:ontology:code/python/debug_analysis"
    assert ended["result_details"]["error_encountered"] == "IndexError: list index out of range"
    assert "line 2" in ended["result_details"]["analysis"]


BROKEN = "names = {}\nprint(names['ada'])\n"
MENDED = "names = {}\nprint(names.get('ada'))\n"


@pytest.mark.parametrize(
    ("fixed", "status"),
    [(MENDED, "success"), (BROKEN, "failure")],
    ids=["a suggestion that runs", "one that does not"],
)
async def test_a_configured_model_is_asked(
    coding: Served, monkeypatch: pytest.MonkeyPatch, fixed: str, status: str
) -> None:  # ACL-49
    assert (await delegated(coding, BROKEN))["task_status"] == "failure"  # without a model
    with scripted(lambda body: f"```python\n{fixed}```\nThe key was missing.") as service:
        monkeypatch.setenv("JULES_MODEL", "openai:coder-1")
        monkeypatch.setenv("JULES_MODEL_URL", service.url)
        ended = await delegated(coding, BROKEN)
    assert ended["task_status"] == status
    assert "KeyError" in str(service.chats[0]["messages"])
    if status == "success":
        assert ended["result_details"]["fixed_code"] == MENDED
        assert "The key was missing." in ended["result_details"]["explanation"]


async def test_a_sandbox_that_ends_the_program_is_a_failure(coding: Served) -> None:  # ACL-12
    ended = await delegated(coding, "while True: pass\n")
    assert ended["performative"] == "FAILURE"
    assert "the sandbox ended the program" in ended["error_text"]


@pytest.mark.parametrize(
    "code",
    [
        FAILING,
        "a = [1, 2]\nprint(a[len(a)])\n",
        "a = [1, 2]\ni = 0\nwhile i <= len(a):\n    print(a[i])\n    i += 1\n",
        "a = [1, 2, 3]\nfor i in range(len(a)):\n    print(a[i + 1] - a[i])\n",
    ],
)
def test_off_by_one_errors_are_fixed(code: str) -> None:  # ACL-49
    found = repair(code)
    assert found.outcome.error == "IndexError: list index out of range"
    assert found.fixed is not None and run_sandboxed(found.fixed).ok
    assert found.diff(code).count("\n-") == 1  # one line


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import socket\nsocket.create_connection(('127.0.0.1', 80))", "the sandbox allows no socket"),
        ("open('/tmp/escaped', 'w')", "no writing outside its folder"),
        ("import os\nos.system('true')", "the sandbox allows no os.system"),
        ("import subprocess\nsubprocess.run(['true'])", "the sandbox allows no"),
        ("x = 'x' * 10**9", "MemoryError"),
        ("open('big', 'w').write('x' * 10**7)", "File too large"),
    ],
)
def test_the_sandbox_keeps_a_program_in(code: str, why: str) -> None:  # ACL-49
    outcome = run_sandboxed(code)
    assert not outcome.ok
    assert why in outcome.error or outcome.crashed


SOURCE = '''\
def shipping(prices, weight):
    """The price of a parcel."""
    t = 0
    for p in prices:
        t += p
    base = t * 2
    extra = weight * 3
    total_price = base + extra
    return total_price


def test_shipping():
    assert shipping([1, 2], 3) == 15
    assert shipping([], 0) == 0
'''


async def test_an_editor_asks_for_refactorings(coding: Served, tmp_path: Path) -> None:  # ACL-50, C-7
    file = tmp_path / "parcel.py"
    file.write_text(SOURCE)
    code, out, err = await sabir("ide", str(file), "refactor", "--select", "1:9", "--url", f"{coding.url}/acl")
    assert (code, err) == (0, "")
    assert "TASK_ACCEPT from Jules" in out
    assert "Refactoring suggestions provided." in out
    assert "Rename variable 't' to 'total' for clarity. (confidence 90%)" in out
    assert "Extract the selected block into a new method" in out
    _, answer, _ = await sabir("ide", str(file), "refactor", "--url", f"{coding.url}/acl", "--json")
    assert json.loads(answer)["ontology"] == "elizaos:ontology:code/general/refactor_suggestion"


def test_each_suggestion_applies_and_leaves_the_tests_green(tmp_path: Path) -> None:  # ACL-50, C-7
    found = suggestions(SOURCE)
    assert {item["change_type"] for item in found} == {"rename_variable", "extract_method"}
    for number, entry in enumerate(found):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "snippet.py").write_text(SOURCE)
        applied = subprocess.run(["patch", "-p0"], input=entry["suggested_code_diff"], text=True, cwd=folder)
        assert applied.returncode == 0, entry
        check = "import snippet; snippet.test_shipping()"
        assert subprocess.run([sys.executable, "-c", check], cwd=folder).returncode == 0, entry
        assert (folder / "snippet.py").read_text() != SOURCE


async def test_an_invalid_selection_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("x = 1\n")
    code, _, err = await sabir("ide", str(file), "refactor", "--select", "3:1")
    assert (code, "--select: expected two lines from 1:1 to 1:1, not '3:1'" in err) == (2, True)
