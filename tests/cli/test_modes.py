"""Stored content is private on the machine: folders 0700, files 0600, whoever creates them."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from cli.conftest import Sabir
from conftest import Serve
from sabir import Gateway
from sabir.agents.echo import echo
from sabir.cli.ask import LARGE
from sabir.cli.main import BAD_USAGE, OK

PAGE = "<html><head><title>Bread</title></head><body><h1>Bread</h1><p>Rye bread of the day.</p></body></html>"


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    """As a shell has it, so that what is not asked for is not got."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def modes(home: Path) -> dict[str, str]:
    return {
        str(item.relative_to(home.parent)): f"{item.stat().st_mode & 0o777:03o}" for item in (home, *home.glob("*"))
    }


def test_what_a_gateway_keeps_is_its_own(serve: Serve, tmp_path: Path) -> None:
    home = tmp_path / "a folder" / ".sabir"
    url = serve(Gateway(echo, home=home)).url
    assert (
        httpx2.post(f"{url}/nlip", json={"format": "text", "subformat": "english", "content": "hi"}).status_code == 200
    )
    kept = modes(home)
    assert {
        name: kept[name] for name in (".sabir", ".sabir/sabir.db", ".sabir/sabir.db-wal", ".sabir/sabir.db-shm")
    } == {
        ".sabir": "700",
        ".sabir/sabir.db": "600",
        ".sabir/sabir.db-wal": "600",
        ".sabir/sabir.db-shm": "600",
    }
    assert kept[".sabir/nodes"] == "700"


@pytest.mark.parametrize(
    ("command", "there"),
    [
        (["keys", "add", "bob"], "sabir.db"),
        (["store", "migrate"], "sabir.db"),
        (["ingest", "page.html", "--site", "bakery", "--no-vectors"], "index"),
    ],
    ids=lambda words: words[0] if isinstance(words, list) else "",
)
def test_what_a_command_makes_is_for_nobody_else(command: list[str], there: str, sabir: Sabir, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(PAGE)
    assert sabir(*command).code == OK
    kept = modes(tmp_path / ".sabir")
    assert kept[".sabir"] == "700"
    assert kept[f".sabir/{there}"] == ("600" if there.endswith(".db") else "700")


def test_a_copy_is_for_nobody_else_either(sabir: Sabir, tmp_path: Path) -> None:
    assert sabir("store", "migrate").code == OK
    assert sabir("store", "copy", "sqlite:///.sabir/sabir.db", "sqlite:///new/copy.db").code == OK
    assert modes(tmp_path / "new") == {"new": "700", "new/copy.db": "600"}


def test_a_home_that_others_can_read_is_reported_in_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    (home / "sabir.db").touch(mode=0o644)
    with caplog.at_level(logging.WARNING, "sabir"):
        Gateway(echo, home=home)
    assert [record.getMessage() for record in caplog.records] == [
        f"home: readable by other users of this machine: {home} (mode 0755), "
        f"{home / 'sabir.db'} (mode 0644); chmod go-rwx keeps it from them"
    ]
    assert modes(home) == {"home": "755", "home/sabir.db": "644", "home/secret.key": "600"}, "and left as it is"


def test_a_file_in_a_folder_of_our_own_is_nobody_elses_whatever_its_mode(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "sabir.db").touch(mode=0o644)
    Gateway(echo, home=home)
    assert not caplog.records


def test_a_store_that_cannot_be_made_is_reported(sabir: Sabir, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    said = sabir("store", "migrate", "sqlite:///file/there/sabir.db")
    assert (said.code, said.err) == (BAD_USAGE, "sabir: store: file/there/sabir.db: Not a directory\n")


def test_what_is_uploaded_is_for_nobody_else(serve: Serve, tmp_path: Path, sabir: Sabir) -> None:
    home = tmp_path / "state"
    secrets = ("a secret that is long enough to be one",)  # so that nothing else makes the home
    url = serve(Gateway(echo, home=home, store="memory:", secrets=secrets)).url
    (tmp_path / "large.bin").write_bytes(b"x" * (LARGE + 1))
    assert sabir("ask", f"{url}/nlip", "hi", "--file", "large.bin").code == OK
    kept = modes(home) | modes(home / "uploads")
    assert (kept["state"], kept["state/uploads"]) == ("700", "700")
    assert {mode for name, mode in kept.items() if name.startswith("uploads/")} == {"600"}
