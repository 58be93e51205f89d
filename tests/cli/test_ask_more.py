"""``sabir ask``: tools with data, files of an answer, progress, and long lines."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Sabir
from conftest import Serve
from sabir import Gateway, agent
from sabir.cli.attachments import name_of
from sabir.cli.main import BAD_USAGE, OK
from sabir.cli.wrapping import wrapped
from sabir.events import Progress
from sabir.message import Message, binary_part
from sabir.turn import Turn

PIXEL = b"\x89PNG\r\n\x1a\n"


@agent(description="The weather of a town")
async def weather(turn: Turn, town: str, days: int = 1) -> str:
    return f"{town}: sun for {days} days"


@agent(description="Paints")
async def painter(turn: Turn) -> AsyncIterator[Any]:
    yield Progress(0.5, "painting")
    yield Message.text("Here it is.", parts=(binary_part(PIXEL, "image/png", label="../sea.png"),))


@pytest.fixture
def url(serve: Serve, home: Path) -> str:
    return serve(Gateway(painter, weather, home=home)).url


@pytest.mark.parametrize("protocol", ["nlip", "a2a", "mcp", "acl", None])
def test_a_tool_is_called_with_data_by_every_protocol(protocol: str | None, url: str, sabir: Sabir) -> None:
    flags = ["--protocol", protocol] if protocol else []
    said = sabir("ask", url, "--tool", "weather", "--data", '{"town": "Oslo", "days": 3}', "--new", *flags)
    assert (said.code, said.out) == (OK, "Oslo: sun for 3 days\n"), said.err


def test_data_comes_from_a_file(url: str, sabir: Sabir, tmp_path: Path) -> None:
    (tmp_path / "data.json").write_text('{"town": "Bergen"}')
    assert sabir("ask", url, "--tool", "weather", "--data", "@data.json").out == "Bergen: sun for 1 days\n"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--tool", "wether", "--data", "{}"], "there is no tool 'wether'; did you mean weather?"),
        (["--tool", "weather", "--data", "[1]"], "--data: expected a JSON object"),
        (["--tool", "weather", "--data", "@absent.json"], "--data: absent.json: No such file"),
        (["--tool", "weather", "--protocol", "nlweb"], "NLWeb carries questions and no data; use --protocol mcp"),
        (["hi", "--data", "{}"], "--data: requires --tool NAME"),
        ([], "nothing to send"),
    ],
)
def test_a_tool_that_cannot_be_called_is_invalid_usage(flags: list[str], words: str, url: str, sabir: Sabir) -> None:
    said = sabir("ask", url, *flags)
    assert (said.code, said.out) == (BAD_USAGE, "")
    assert words in said.err


@pytest.mark.parametrize("protocol", ["nlip", "a2a", "mcp"])
def test_images_are_saved_as_files_and_nothing_is_overwritten(
    protocol: str, url: str, sabir: Sabir, tmp_path: Path
) -> None:
    for _ in range(2):
        said = sabir("ask", url, "the sea", "--save", "out", "--agent", "painter", "--protocol", protocol, "--new")
        assert said.code == OK, said.err
    saved = sorted((tmp_path / "out").iterdir())
    assert len(saved) == 2 and all(path.read_bytes() == PIXEL and path.suffix == ".png" for path in saved)
    assert said.out.splitlines()[-1] in {f"Saved out/{path.name}" for path in saved}
    assert not (tmp_path / "sea.png").exists()


def test_without_a_folder_the_answer_says_how_to_keep_an_image(url: str, sabir: Sabir) -> None:
    assert "[../sea.png: image/png, 8 bytes; --save DIR keeps it]" in sabir("ask", url, "the sea").out


@pytest.mark.parametrize(
    ("label", "kind", "name"),
    [
        ("photo.jpg", "image/jpeg", "photo.jpg"),
        ("../../etc/passwd", "image/png", "passwd.png"),
        ("..", "image/png", "image.png"),
        ("a\\b\\c.png", "image/png", "c.png"),
        ("\x1b[31m.png", "image/png", "_31m.png"),
        (None, "audio/wav", "audio.wav"),
        (None, "application/x-unheard.of", "application.bin"),
    ],
)
def test_a_label_cannot_lead_out_of_the_folder(label: str | None, kind: str, name: str) -> None:
    assert name_of(binary_part(b"x", kind, label=label)) == name


def test_progress_is_shown_on_a_terminal_only(url: str, sabir: Sabir, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "painting" not in sabir("ask", url, "the sea", "--new").err
    monkeypatch.setattr("sabir.cli.receiving.sys.stderr.isatty", lambda: True, raising=False)
    said = sabir("ask", url, "the sea", "--new")
    assert "painting [##########          ]" in said.err and said.err.endswith("\r\x1b[K")


def test_long_lines_are_wrapped_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    line = "  " + "word " * 20 + "https://example.com/" + "x" * 80
    assert wrapped(line) == line
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: type("Size", (), {"columns": 50})())
    lines = wrapped(f"short\n{line}").split("\n")
    assert lines[0] == "short" and all(item.startswith("  word") for item in lines[1:3])
    assert [item for item in lines if len(item) > 50] == ["  https://example.com/" + "x" * 80]


def test_the_address_from_the_environment_leaves_a_given_one_alone(
    url: str, sabir: Sabir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SABIR_URL", "http://127.0.0.1:9")
    said = sabir("ask", url, "--tool", "weather", "--data", '{"town": "Oslo"}')
    assert said.out == "Oslo: sun for 1 days\n", said.err
    monkeypatch.setenv("SABIR_URL", url)
    assert sabir("ask", "Hello", "--agent", "painter", "--new").out.startswith("Here it is.")


def test_the_variable_of_the_address_is_not_a_setting(sabir: Sabir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SABIR_URL", "http://127.0.0.1:9")
    said = sabir("config", "check", "--json")
    assert said.code == OK, said.err
    assert json.loads(said.out)["file"] is None
