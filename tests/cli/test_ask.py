"""``sabir ask`` and its exit codes, against a running gateway."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from conftest import Serve
from sabir import Gateway, Turn, agent
from sabir.agents.echo import echo
from sabir.events import Field, Question
from sabir.guard.build import GuardSettings, IdentitySettings


@agent
async def memory(turn: Turn) -> str:
    return f"{turn.conversation.count} before; {len(turn.parts)} parts"


def sabir(cwd: Path, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sabir", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=600, input=stdin)


def test_an_answer_is_printed_and_the_conversation_continues(serve: Serve, home: Path, tmp_path: Path) -> None:
    url = serve(Gateway(memory, home=home)).url
    assert sabir(tmp_path, "ask", url, "one").stdout == "0 before; 1 parts\n"
    assert sabir(tmp_path, "ask", url, "two").stdout == "1 before; 1 parts\n"
    assert sabir(tmp_path, "ask", url, "anew", "--new").stdout == "0 before; 1 parts\n"


def test_json_is_one_nlip_message(serve: Serve, home: Path, tmp_path: Path) -> None:
    url = serve(Gateway(echo, home=home)).url
    done = sabir(tmp_path, "ask", url, "hi", "--json")
    assert json.loads(done.stdout) == {"format": "text", "subformat": "english", "content": "You said: hi"}


def test_trace_shows_the_wire_on_standard_error(serve: Serve, home: Path, tmp_path: Path) -> None:
    url = serve(Gateway(echo, home=home)).url
    done = sabir(tmp_path, "ask", url, "hi", "--trace")
    assert done.stdout == "You said: hi\n"
    assert "> POST /nlip HTTP/1.1" in done.stderr
    assert '> {"format":"text","subformat":"english","content":"hi"' in done.stderr
    assert "< HTTP/1.1 200 OK" in done.stderr
    assert '"content":"You said: hi"' in done.stderr


def test_files_are_sent_as_what_they_are(serve: Serve, home: Path, tmp_path: Path) -> None:
    seen: list[tuple[str, str, str | None]] = []

    @agent
    async def spy(turn: Turn) -> str:
        seen.extend((part.format, part.subformat, part.label) for part in turn.parts)
        return "ok"

    (tmp_path / "a.json").write_text('{"a": 1}')
    (tmp_path / "b.txt").write_text("words")
    (tmp_path / "c.png").write_bytes(b"\x89PNG")
    url = serve(Gateway(spy, home=home)).url
    sabir(tmp_path, "ask", url, "look", "--file", "a.json", "--file", "b.txt", "--file", "c.png")
    assert seen == [
        ("text", "english", None),
        ("structured", "json", "a.json"),
        ("text", "english", "b.txt"),
        ("binary", "image/png", "c.png"),
    ]


def test_text_may_come_from_standard_input(serve: Serve, home: Path, tmp_path: Path) -> None:
    url = serve(Gateway(echo, home=home)).url
    assert sabir(tmp_path, "ask", url, "-", stdin="from a pipe").stdout == "You said: from a pipe\n"


def test_what_was_not_understood_is_said_once(serve: Serve, home: Path, tmp_path: Path) -> None:
    url = serve(Gateway(echo, home=home)).url
    done = sabir(tmp_path, "ask", url, "--control", "blorb fnord")
    assert done.stdout.count("I did not understand this control message") == 1


def test_an_unreachable_agent_is_exit_3_and_one_line(tmp_path: Path) -> None:
    done = sabir(tmp_path, "ask", "http://127.0.0.1:9", "hi")
    assert done.returncode == 3
    assert done.stderr.startswith("sabir: http://127.0.0.1:9")
    assert "connection refused" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_refusal_is_exit_4_and_says_why(serve: Serve, home: Path, tmp_path: Path) -> None:
    url = serve(Gateway(echo, home=home)).url
    done = sabir(tmp_path, "ask", url, "hi", "--agent", "nobody")
    assert done.returncode == 4
    assert "there is no agent 'nobody' here" in done.stderr


def test_a_caller_who_must_log_in_learns_how(serve: Serve, home: Path, tmp_path: Path) -> None:
    url = serve(Gateway(echo, home=home, guard=GuardSettings(IdentitySettings(anonymous=False)))).url
    done = sabir(tmp_path, "ask", url, "hi")
    assert done.returncode == 4
    assert "SABIR_TOKEN" in done.stderr


def test_nothing_to_say_is_exit_2(tmp_path: Path) -> None:
    assert sabir(tmp_path, "ask", "http://127.0.0.1:9").returncode == 2
    assert sabir(tmp_path, "ask", "http://127.0.0.1:9", "--file", "absent.txt").returncode == 2
    assert sabir(tmp_path, "ask", "ftp://x", "hi").returncode == 2
    assert sabir(tmp_path, "nonsense").returncode == 2


def test_flags_may_come_between_the_address_and_the_text(serve: Serve, home: Path, tmp_path: Path) -> None:
    url = serve(Gateway(memory, echo, home=home)).url
    assert sabir(tmp_path, "ask", url, "--agent", "echo", "hi").stdout == "You said: hi\n"
    assert sabir(tmp_path, "ask", "--agent", "echo", url, "--stream", "hi").stdout == "You said: hi\n"


def test_a_wrong_flag_shows_the_usage_of_its_command(tmp_path: Path) -> None:
    for arguments in (("ask", "http://127.0.0.1:9", "hi", "--frob"), ("keys", "list", "--frob")):
        done = sabir(tmp_path, *arguments)
        assert done.returncode == 2
        assert "unrecognized arguments: --frob" in done.stderr
        assert done.stderr.startswith(f"usage: sabir {arguments[0]} ")


def test_a_wrong_binding_is_not_a_check_that_passes(tmp_path: Path) -> None:
    done = sabir(tmp_path, "check", "http://127.0.0.1:9", "--binding", "gopher")
    assert done.returncode == 2
    assert "'http', 'websocket', 'amqp'" in done.stderr


def test_a_question_is_shown_once_with_its_options_by_every_protocol(serve: Serve, home: Path, tmp_path: Path) -> None:
    @agent(name="barista")
    async def barista(turn: Turn) -> str:
        size = await turn.ask(
            Question("Which size?", (Field("size", "Which size?", "single_select", ("small", "large")),))
        )
        return f"One {size.text} {turn.text}"

    url = serve(Gateway(barista, home=home)).url
    asked = "Which size?\n  (small or large)\n"
    assert sabir(tmp_path, "ask", url, "latte").stdout == asked
    assert sabir(tmp_path, "ask", url, "large").stdout == "One large latte\n"
    assert sabir(tmp_path, "ask", url, "latte", "--stream").stdout == asked
    done = sabir(tmp_path, "ask", f"{url}/a2a/barista", "latte")
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "Which size?")


def test_the_version_is_said(tmp_path: Path) -> None:
    assert sabir(tmp_path, "--version").stdout.startswith("sabir 0.")


def test_a_large_file_is_uploaded_separately(serve: Serve, home: Path, tmp_path: Path) -> None:  # CORE-6.4
    @agent(name="reader")
    async def reader(turn: Turn) -> str:
        (held,) = await turn.attachments.all(turn.message)
        return f"{held.size} {held.subformat} {held.name}"

    film = tmp_path / "film.mp4"
    film.write_bytes(bytes(3_000_000))
    url = serve(Gateway(reader, home=home)).url
    for words in (["look"], []):
        done = sabir(tmp_path, "ask", url, *words, "--file", str(film))
        assert done.stdout == "3000000 video/mp4 film.mp4\n", done.stderr
