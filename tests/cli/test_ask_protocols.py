"""``sabir ask`` over every protocol that a gateway speaks: what holds for one holds for all."""

from __future__ import annotations

import io
import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from cli.conftest import PROTOCOLS, Sabir, ServeEverywhere
from conftest import Serve
from sabir import Gateway, Turn, agent
from sabir.agents.echo import echo
from sabir.cli import main
from sabir.cli.printing import shown
from sabir.events import Field, Question
from sabir.guard.build import GuardSettings, IdentitySettings
from sabir.protocols.connect import place_of_agent


@agent(name="barista")
async def barista(turn: Turn) -> str:
    size = await turn.ask(Question("Which size?", (Field("size", "Which size?", "single_select", ("small", "large")),)))
    return f"One {size.text} {turn.text}"


@agent(name="memory")
async def memory(turn: Turn) -> str:
    return f"{turn.conversation.count} before"


def run(cwd: Path, *arguments: str, token: str = "") -> subprocess.CompletedProcess[str]:
    """The command in this process, which has imported already what it needs."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, chdir(cwd), redirect_stdout(out), redirect_stderr(err):
        patch.setenv("SABIR_TOKEN", token)
        code = main(list(arguments))
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_question_is_answered_by_the_next_call(protocol: str, everywhere: ServeEverywhere, sabir: Sabir) -> None:
    url = everywhere(barista, amqp=protocol == "amqp").of(protocol, "barista")
    for more in ([], ["--stream"]):
        asked = sabir("ask", url, "espresso", *more)
        assert asked.out.startswith("Which size?"), asked.err
        assert sabir("ask", url, "large", *more).out == "One large espresso\n"


@pytest.mark.parametrize("protocol", ["nlip", "a2a", "nlweb", "mcp", "acl"])
def test_a_conversation_continues_until_a_new_one_is_wanted(
    protocol: str, serve: Serve, home: Path, tmp_path: Path
) -> None:
    url = serve(Gateway(memory, home=home)).url
    ask = ("ask", url, "--protocol", protocol)
    assert [run(tmp_path, *ask, word).stdout for word in ("one", "two")] == ["0 before\n", "1 before\n"]
    assert run(tmp_path, *ask, "anew", "--new").stdout == "0 before\n"


def test_what_one_protocol_left_is_nothing_to_another(serve: Serve, home: Path, tmp_path: Path) -> None:
    url = serve(Gateway(memory, home=home)).url
    for protocol in ("nlip", "a2a", "nlweb", "mcp", "acl"):
        assert run(tmp_path, "ask", url, "hi", "--protocol", protocol).stdout == "0 before\n"


def test_over_acl_a_name_that_is_another_callers_by_now_starts_a_new_conversation(
    serve: Serve, home: Path, tmp_path: Path
) -> None:
    key = run(tmp_path, "keys", "add", "ann", "--home", str(home)).stdout.split()[0]
    ask = ("ask", serve(Gateway(memory, home=home)).url, "--protocol", "acl")
    assert run(tmp_path, *ask, "one", token=key).stdout == "0 before\n"
    assert run(tmp_path, *ask, "two").stdout == "0 before\n"  # nobody knows who this is
    assert run(tmp_path, *ask, "three").stdout == "1 before\n"


def test_a_task_that_is_gone_is_refused_once_and_then_left(serve: Serve, home: Path, tmp_path: Path) -> None:
    url = serve(Gateway(barista, home=home)).url + "/a2a/barista"
    assert run(tmp_path, "ask", url, "espresso").stdout.startswith("Which size?")
    (kept,) = (tmp_path / ".sabir" / "asked").iterdir()
    body = json.loads(kept.read_text())
    body["left"]["task"] = "gone"
    kept.write_text(json.dumps(body))
    assert run(tmp_path, "ask", url, "large").returncode == 4
    assert run(tmp_path, "ask", url, "large").stdout == "One large espresso\n"  # the context still knows


@pytest.mark.parametrize(
    ("place", "protocol"),
    [
        ("", None),
        ("/nlip", None),
        ("/nlip/memory", None),
        ("/mcp", None),
        ("/a2a", None),
        ("/a2a/memory/.well-known/agent-card.json", None),
        ("/ask", None),
        ("", "nlip"),
        ("", "mcp"),
        ("", "a2a"),
        ("", "nlweb"),
    ],
)
def test_an_agent_is_named_in_the_way_of_each_protocol(
    place: str, protocol: str | None, serve: Serve, home: Path, tmp_path: Path
) -> None:
    url = serve(Gateway(memory, echo, home=home)).url + place
    spoken = ("--protocol", protocol) if protocol is not None else ()
    done = run(tmp_path, "ask", url, "hi", "--agent", "echo", *spoken)
    assert done.stdout == "You said: hi\n", done.stderr


@pytest.mark.parametrize("place", ["", "/nlip", "/nlip/ws", "/nlip/ws/text", "/nlip/memory/ws"])
def test_an_agent_is_named_over_websocket(place: str, serve: Serve, home: Path, tmp_path: Path) -> None:
    url = serve(Gateway(memory, echo, home=home)).url.replace("http", "ws", 1) + place
    assert run(tmp_path, "ask", url, "hi", "--agent", "echo").stdout == "You said: hi\n"


def test_a_path_prefix_before_a_door_is_kept() -> None:
    assert place_of_agent("http://x/team/mcp", "echo") == "http://x/team/mcp/echo"
    assert place_of_agent("http://x/team", "echo", "a2a") == "http://x/team/a2a/echo"
    assert place_of_agent("ws://x/team/nlip/ws/text", "echo") == "ws://x/team/nlip/echo/ws/text"
    assert place_of_agent("amqp://x/letters", "echo") == "amqp://x/letters/echo"


def test_a_program_has_no_agents_to_choose_from(tmp_path: Path) -> None:
    done = run(tmp_path, "ask", "stdio://server", "hi", "--agent", "echo")
    assert done.returncode == 2
    assert "no agent can be chosen" in done.stderr


def test_where_no_mcp_is_both_places_are_named(tmp_path: Path) -> None:
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:  # answers 501 to everything
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        done = run(tmp_path, "ask", url, "hi", "--protocol", "mcp")
        server.shutdown()
    assert done.returncode == 3
    assert f"sabir: {url}: " in done.stderr
    assert "/mcp below it was tried too" in done.stderr


@pytest.mark.parametrize("place", ["/nlip/ws", "/nlip/ws/text"])
def test_over_websocket_too_a_token_is_shown_and_a_refusal_is_one(
    place: str, serve: Serve, home: Path, tmp_path: Path
) -> None:
    made = run(tmp_path, "keys", "add", "ann", "--home", str(home))
    key = made.stdout.split()[0]
    served = serve(Gateway(echo, home=home, guard=GuardSettings(IdentitySettings(anonymous=False))))
    url = served.ws_url + place
    assert run(tmp_path, "ask", url, "hi", token=key).stdout == "You said: hi\n"
    for more in ((), ("--stream",)):
        for token in ("", "wrong"):
            refused = run(tmp_path, "ask", url, "hi", *more, token=token)
            assert (refused.returncode, refused.stdout) == (4, "")
            assert refused.stderr.startswith(f"sabir: {url}: ")


@pytest.mark.parametrize("place", ["/nlip/counter", "/a2a/counter", "/ask/counter", "/mcp/counter"])
def test_a_streamed_answer_is_printed_once(place: str, serve: Serve, home: Path, tmp_path: Path) -> None:
    @agent(name="counter")
    async def counter(turn: Turn) -> AsyncIterator[str]:
        for number in range(3):
            yield f"{number} "

    url = serve(Gateway(counter, home=home)).url + place
    assert run(tmp_path, "ask", url, "go", "--stream").stdout.split() == ["0", "1", "2"]


@pytest.mark.parametrize("place", ["/a2a/memory", "/ask", "/mcp"])
def test_control_is_refused_if_the_protocol_has_none(place: str, tmp_path: Path) -> None:
    done = run(tmp_path, "ask", f"http://127.0.0.1:9{place}", "what are your limits?", "--control")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--control is for NLIP" in done.stderr


def test_control_is_refused_where_another_protocol_is_found(tmp_path: Path) -> None:
    class OnlyNlweb(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(405 if self.path == "/ask" else 404)

        do_POST = do_GET

    with HTTPServer(("127.0.0.1", 0), OnlyNlweb) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        done = run(tmp_path, "ask", f"http://127.0.0.1:{server.server_port}", "limits?", "--control")
        server.shutdown()
    assert (done.returncode, done.stdout) == (4, "")
    assert "it speaks nlweb, which has no control messages" in done.stderr


def test_the_trace_of_binary_frames_can_be_read(serve: Serve, home: Path, tmp_path: Path) -> None:
    url = serve(Gateway(echo, home=home)).ws_url
    done = run(tmp_path, "ask", url, "hi", "--trace")
    assert done.stdout == "You said: hi\n"
    sent, received = done.stderr.splitlines()
    assert sent.startswith("> CBOR, ") and '"content":"hi"' in sent
    assert received.startswith("< CBOR, ") and '"content":"You said: hi"' in received


def test_a_trace_does_nothing_to_the_terminal() -> None:
    assert shown(b"\x1b[2Jhi\r\nthere\n") == "\\x1b[2Jhi\nthere"
    assert shown(b"\xa1\x00\x01") == "3 bytes: a10001"
    assert shown(b"") == ""
