"""``sabir store backup`` of a running gateway, and ``restore``."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import httpx2
import pytest

from conftest import serving
from sabir import Gateway, agent
from sabir.cli import main
from sabir.cli.main import BAD_USAGE
from sabir.errors import ConfigError
from sabir.stores.backup import backup, restore
from sabir.turn import Turn


@agent
async def counter(turn: Turn) -> str:
    return f"turn {len(turn.conversation.turns) + 1}"


def say(url: str, tokens: list[dict[str, str]]) -> tuple[str, list[dict[str, str]]]:
    message = {"format": "text", "subformat": "english", "content": "hi", "submessages": tokens}
    reply = httpx2.post(f"{url}/nlip", json=message if tokens else {**message, "submessages": None}).json()
    return reply["content"], [part for part in reply["submessages"] if part["format"] == "token"]


def test_a_conversation_continues_in_a_gateway_that_was_restored_from_a_backup(tmp_path: Path) -> None:
    with serving(Gateway(counter, home=tmp_path / "home")) as served:
        assert say(served.url, [])[0] == "turn 1"
        _, tokens = say(served.url, [])
        assert say(served.url, tokens)[0] == "turn 2"
        backup(tmp_path / "home", tmp_path / "saved.tar.gz")  # while it runs
        assert say(served.url, tokens)[0] == "turn 3"  # and after
    assert (tmp_path / "saved.tar.gz").stat().st_mode & 0o077 == 0
    report = restore(tmp_path / "saved.tar.gz", tmp_path / "again")
    assert report.files >= 2
    with serving(Gateway(counter, home=tmp_path / "again")) as served:
        assert say(served.url, tokens)[0] == "turn 3"  # the backup ends with turn 2
    assert main(["audit", "verify", "--home", str(tmp_path / "again")]) == 0


def test_a_backup_says_whose_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "secret.key").write_text("x")
    assert main(["store", "backup", str(tmp_path / "b.tar.gz"), "--home", str(home)]) == 0
    assert f"1 files of {home}," in capsys.readouterr().out


def test_a_backup_overwrites_a_file_only_on_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home, file = tmp_path / "home", tmp_path / "b.tar.gz"
    home.mkdir()
    (home / "secret.key").write_text("x")
    file.write_text("yesterday's")
    command = ["store", "backup", str(file), "--home", str(home)]
    assert main(command) == BAD_USAGE
    assert f"{file} exists; choose another file, or overwrite it with --force" in capsys.readouterr().err
    assert file.read_text() == "yesterday's"
    assert main([*command, "--force"]) == 0
    assert restore(file, tmp_path / "again").files == 1


def test_rows_that_cannot_be_saved_or_restored_are_reported(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "secret.key").write_text("x")
    with pytest.raises(ConfigError, match="is not empty"):
        restore(tmp_path / "x.tar.gz", home)
    with pytest.raises(ConfigError, match="does not exist"):
        backup(tmp_path / "nowhere", tmp_path / "x.tar.gz")
    with pytest.raises(ConfigError, match="PostgreSQL"):
        backup(home, tmp_path / "x.tar.gz", "postgresql:///test")
    with pytest.raises(ConfigError, match="No such file"):
        restore(tmp_path / "x.tar.gz", tmp_path / "new")
    (tmp_path / "x.tar.gz").write_bytes(b"nonsense")
    with pytest.raises(ConfigError, match="not a backup"):
        restore(tmp_path / "x.tar.gz", tmp_path / "new2")


def test_a_backup_that_was_tampered_with_writes_nothing_outside_the_home(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "evil.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("../outside")
        member.size = 1
        archive.addfile(member, io.BytesIO(b"x"))
    with pytest.raises(ConfigError, match="not a backup"):
        restore(tmp_path / "evil.tar.gz", tmp_path / "home")
    assert not (tmp_path / "outside").exists()
