"""``--json`` is everywhere, and a failure has one form: one line of JSON on standard error."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Sabir
from sabir.cli import failures
from sabir.cli.main import BAD_USAGE, COMMANDS, FAILED, REFUSED, UNREACHABLE, leaves, main, parser
from sabir.errors import PeerRefused, PeerUnavailable, SabirError, tree


def error_of(err: str) -> dict[str, Any]:
    [line] = err.splitlines()
    found: dict[str, Any] = json.loads(line)["error"]
    assert set(found) == {"code", "message", "hint"}
    return found


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_takes_json(name: str) -> None:
    top = parser()
    subcommands = next(action for action in top._actions if isinstance(action, argparse._SubParsersAction))
    command = subcommands.choices[name]
    command.format_help()
    assert all("--json" in leaf._option_string_actions for leaf in leaves(command))


@pytest.mark.parametrize(
    ("command", "exit_code", "code", "words"),
    [
        ("ask http://127.0.0.1:9/nlip hi", UNREACHABLE, "peer_unavailable", "connection refused"),
        ("agents http://127.0.0.1:9/nlip", UNREACHABLE, "peer_unavailable", "connection refused"),
        ("tools http://127.0.0.1:9/mcp", UNREACHABLE, "peer_unavailable", "connection refused"),
        ("chat http://127.0.0.1:9/nlip", UNREACHABLE, "peer_unavailable", "connection refused"),
        ("bench http://127.0.0.1:9/nlip", UNREACHABLE, "peer_unavailable", "connection refused"),
        ("check", BAD_USAGE, "config_error", "set SABIR_URL"),
        ("check http://127.0.0.1:9", UNREACHABLE, "peer_unavailable", "connection refused"),
        ("check http://127.0.0.1:9 --protocol acl", UNREACHABLE, "peer_unavailable", "connection refused"),
        ("check http://127.0.0.1:9 --protocol nlweb", UNREACHABLE, "peer_unavailable", "connection refused"),
        (
            "send http://127.0.0.1:9/acl absent.json",
            BAD_USAGE,
            "config_error",
            "expected a file with the message",
        ),
        ("serve absent.yaml", BAD_USAGE, "config_error", "absent.yaml: No such file or directory; `sabir init`"),
        ("mcp absent.yaml", BAD_USAGE, "config_error", "absent.yaml"),
        ("run absent.yaml hi", BAD_USAGE, "config_error", "absent.yaml"),
        ("config check absent.yaml", BAD_USAGE, "config_error", "absent.yaml"),
        ("dev absent.py", BAD_USAGE, "config_error", "absent.py: no such file; `sabir init`"),
        ("init . --name a --kind site --port 99999", BAD_USAGE, "config_error", "port"),
        ("keys list --store postgresql://127.0.0.1:9/x", UNREACHABLE, "store_unavailable", "127.0.0.1:9"),
        ("audit verify --store postgresql://127.0.0.1:9/x", UNREACHABLE, "store_unavailable", "127.0.0.1:9"),
        ("store migrate postgresql://127.0.0.1:9/x", UNREACHABLE, "store_unavailable", "127.0.0.1:9"),
        ("bus waiting clerk --bus nats://127.0.0.1:9", UNREACHABLE, "bus_unavailable", "127.0.0.1:9"),
        ("ingest absent.csv --site a.example", FAILED, "not_found", "absent.csv"),
        ("ingest", BAD_USAGE, "config_error", "SOURCE"),
        ("sites --home absent", BAD_USAGE, "config_error", "--home: absent does not exist"),
        ("store backup x.tar.gz --home absent", BAD_USAGE, "config_error", "--config or --home"),
        ("sites --config absent.yaml", BAD_USAGE, "config_error", "absent.yaml"),
        ("inbox http://127.0.0.1:9/acl ada", UNREACHABLE, "peer_unavailable", "connection refused"),
        ("inbox http://127.0.0.1:9/acl ada --follow", UNREACHABLE, "peer_unavailable", "connection refused"),
        ("ide absent.py refactor", BAD_USAGE, "config_error", "absent.py"),
    ],
)
def test_a_failure_is_one_line_of_json(command: str, exit_code: int, code: str, words: str, sabir: Sabir) -> None:
    said = sabir(*command.split(), "--json")
    assert (said.code, said.out) == (exit_code, ""), said.err
    error = error_of(said.err)
    assert error["code"] == code
    assert words in error["message"]


@pytest.mark.parametrize(("address", "words"), [("gopher://a", "unsupported URL scheme 'gopher'"), ("a:99999", "port")])
@pytest.mark.parametrize(
    "command",
    [
        "ask ADDRESS hi", "agents ADDRESS", "tools ADDRESS", "chat ADDRESS", "bench ADDRESS --remote", "bench ADDRESS",
        "check ADDRESS", "check ADDRESS --protocol acl", "send ADDRESS -", "inbox ADDRESS ada",
        "ide FILE refactor --url ADDRESS",
    ],
)  # fmt: skip
def test_an_invalid_address_is_invalid_usage_of_every_command(
    command: str, address: str, words: str, sabir: Sabir
) -> None:
    given = [{"ADDRESS": address, "FILE": __file__}.get(word, word) for word in command.split()]
    said = sabir(*given, "--json")
    assert (said.code, said.out) == (BAD_USAGE, ""), said.err
    error = error_of(said.err)
    assert error["code"] == "config_error"
    assert words in error["message"]


TIMES = ["ask --timeout", "agents --timeout", "tools --timeout", "chat --timeout", "run --timeout", "check --timeout",
         "bench --timeout", "bench --seconds", "ide --seconds", "check --slow", "ingest --delay"]  # fmt: skip


@pytest.mark.parametrize("flag", TIMES)
@pytest.mark.parametrize("value", ["-1", "soon", "nan", "inf"])
def test_a_duration_is_a_number_of_seconds(flag: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    name, option = flag.split()
    assert main([name, f"{option}={value}", "--json"]) == BAD_USAGE
    assert "expected a number of seconds" in error_of(capsys.readouterr().err)["message"]


def test_every_duration_is_tried() -> None:
    top = parser()
    subcommands = next(action for action in top._actions if isinstance(action, argparse._SubParsersAction))
    found = set()
    for name, command in subcommands.choices.items():
        command.format_help()
        for action in command._actions:
            flag = action.option_strings[-1] if action.option_strings else ""
            if flag in ("--timeout", "--seconds", "--slow", "--delay") or action.type is float:
                found.add(f"{name} {flag}")
    assert found == set(TIMES)


def test_init_asks_nothing_with_json(sabir: Sabir, tmp_path: Path) -> None:
    said = sabir("init", str(tmp_path / "new"), "--json")
    assert (said.code, said.err) == (0, "")
    made = json.loads(said.out)
    assert made["port"] == 8080 and str(tmp_path / "new" / "app.py") in made["files"]


def test_a_file_that_an_editor_names_is_reported_without_numbers(sabir: Sabir, tmp_path: Path) -> None:
    (tmp_path / "bytes.py").write_bytes(b"\xff\xfe")
    assert error_of(sabir("ide", "absent.py", "refactor", "--json").err)["message"] == (
        "absent.py: No such file or directory"
    )
    assert "UTF-8" in error_of(sabir("ide", str(tmp_path / "bytes.py"), "refactor", "--json").err)["message"]


def test_a_failure_of_every_command_is_tried() -> None:
    """So that a new command gets a row above, too."""
    [rows] = [mark.args[1] for mark in test_a_failure_is_one_line_of_json.pytestmark]  # type: ignore[attr-defined]
    assert set(COMMANDS) - {row[0].split()[0] for row in rows} == {"completion"}  # it can only be misused: see below


def test_what_is_worth_knowing_is_json_too(sabir: Sabir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sabir.yaml").write_text(
        "agents: [{id: echo, use: echo}]\nrights: [{roles: [friend], agents: [echo]}]\n"
    )
    (tmp_path / "things.csv").write_text("name,url\nRed mug,https://a.example/mug\n")
    said = sabir("ingest", "things.csv", "absent.csv", "--site", "a.example", "--no-vectors", "--json")
    assert said.code == FAILED and json.loads(said.out)["added"] == 1
    error, note = (json.loads(line) for line in said.err.splitlines())
    assert "absent.csv" in error["error"]["message"] and "serves no sites" in note["note"]
    said = sabir("keys", "add", "ada", "--role", "fiend", "--json")
    assert json.loads(said.out) and "fiend" in json.loads(said.err)["note"]


@pytest.mark.parametrize("command", ["ask --wrong", "run", "keys frobnicate", "frobnicate", "completion tcsh"])
def test_invalid_usage_is_json_too(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command.split(), "--json"]) == BAD_USAGE
    error = error_of(capsys.readouterr().err)
    assert error["code"] == "bad_usage" and "--help" in error["hint"]


def test_json_behind_two_dashes_is_a_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ask", "http://127.0.0.1:9/nlip", "--", "--json"]) == UNREACHABLE
    assert capsys.readouterr().err.startswith("sabir: ")


def test_a_file_that_cannot_be_written_is_one_line(sabir: Sabir, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("sabir.cli.init.files_of", lambda *_: {"folder/that/is/absent": ""})
    said = sabir("init", str(tmp_path), "--name", "a", "--kind", "site", "--port", "1")
    assert said.code == FAILED
    assert said.err.startswith("sabir: ") and said.err.endswith(": No such file or directory\n")
    said = sabir("init", str(tmp_path), "--name", "a", "--kind", "site", "--port", "1", "--json")
    assert error_of(said.err)["code"] == "os_error"


def test_a_defect_is_json_where_json_is_wanted(monkeypatch: pytest.MonkeyPatch, sabir: Sabir) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("sabir.cli.init.files_of", broken)
    said = sabir("init", "--name", "a", "--kind", "site", "--port", "1", "--json")
    assert said.code == FAILED
    assert error_of(said.err) | {"hint": ""} == {
        "code": "internal_error",
        "message": "ZeroDivisionError: division by zero",
        "hint": "",
    }


def test_every_error_has_a_code_of_its_own() -> None:
    codes = [failures.code_of(kind) for kind in tree(SabirError)]
    assert len(set(codes)) == len(codes)
    assert {"bad_input", "peer_unavailable", "missing_extra"} <= set(codes)


@pytest.mark.parametrize(
    ("exc", "words"),
    [
        (PeerUnavailable("http://127.0.0.1:8080/nlip", "connection refused"), "sabir serve"),
        (PeerUnavailable("http://agents.example/nlip", "no answer in time"), "--timeout"),
        (PeerUnavailable("https://127.0.0.1/nlip", "its certificate is not accepted"), "--ca FILE"),
        (PeerRefused("http://127.0.0.1/nlip/x", "no such agent", 404), "sabir agents"),
        (PeerRefused("http://127.0.0.1/nlip", "who are you?", 401), "SABIR_TOKEN"),
    ],
)
def test_an_error_names_the_next_step(exc: SabirError, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SABIR_TOKEN", raising=False)
    assert words in failures.hint_of(exc)


def test_a_long_error_is_wrapped_below_its_first_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr("shutil.get_terminal_size", lambda: type("Size", (), {"columns": 60})())
    monkeypatch.setenv("NO_COLOR", "1")
    failures.report(failures.CommandFailure("x", "many " * 20, "hints " * 20), as_json=False)
    first, *rest = capsys.readouterr().err.splitlines()
    assert first.startswith("sabir: many") and len(first) <= 60
    assert rest and all(line.startswith("       ") and len(line) <= 60 for line in rest)


def test_a_refusal_has_its_exit_code_and_no_output(sabir: Sabir, serve: Any, home: Path) -> None:
    from sabir import Gateway
    from sabir.agents.echo import echo

    url = serve(Gateway(echo, home=home)).url
    said = sabir("ask", f"{url}/nlip/nobody", "hi", "--json")
    assert (said.code, said.out) == (REFUSED, "")
    assert error_of(said.err)["hint"] == "`sabir agents URL` lists the agents at an address"
    said = sabir("ask", f"{url}/nlip/ws", "hi", "--json")
    assert error_of(said.err)["hint"] == "Is it a WebSocket? Its address starts with ws:// or wss://"
