"""The file tools of a workspace work in it, and nothing leads out of it (MW-34)."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from sabir import Message, Turn
from sabir.errors import TurnFailed
from sabir.tools import Toolbox, ToolCall
from sabir.tools.workspace import Workspace


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text("swordfish")
    return folder


@pytest.fixture
def space(tmp_path: Path, outside: Path) -> Workspace:
    root = tmp_path / "space"
    (root / "notes").mkdir(parents=True)
    (root / "a.txt").write_text("one\ntwo\nthree\n")
    (root / "notes" / "b.txt").write_text("two birds\n")
    (root / "picture.png").write_bytes(b"\x89PNG\x00\x00")
    (root / "link.txt").symlink_to(outside / "secret.txt")
    (root / "folder").symlink_to(outside)
    (root / "inside.txt").symlink_to("a.txt")
    os.mkfifo(root / "pipe")
    return Workspace(root, read_bytes=1000)


async def run(space: Workspace, name: str, /, **arguments: Any) -> str:
    (result,) = await Toolbox(space.tools()).call(Turn(Message.text("")), [ToolCall("1", name, arguments)])
    return result.text


async def test_a_file_is_read_with_line_numbers(space: Workspace) -> None:
    assert await run(space, "read_file", path="a.txt", start=2, lines=1) == "     2\ttwo\n[1 more lines]"


async def test_a_file_is_written_edited_and_listed(space: Workspace) -> None:
    assert await run(space, "write_file", path="new/deep/c.txt", content="x = 1\n") == "wrote 6 bytes to new/deep/c.txt"
    assert await run(space, "edit_file", path="new/deep/c.txt", old="1", new="2")
    assert (space.root / "new/deep/c.txt").read_text() == "x = 2\n"
    assert space.list_directory("new/deep") == [{"name": "c.txt", "kind": "file", "size": 6}]


async def test_an_edit_needs_a_passage_that_occurs_once(space: Workspace) -> None:
    assert "occurs 0 times" in await run(space, "edit_file", path="a.txt", old="zebra", new="")
    assert "occurs 2 times" in await run(space, "edit_file", path="a.txt", old="t", new="T")
    assert (space.root / "a.txt").read_text() == "one\ntwo\nthree\n"


def test_files_are_searched_by_line_and_links_are_not(space: Workspace) -> None:
    assert space.search_files("two") == ["a.txt:2: two", "notes/b.txt:1: two birds"]
    assert space.search_files("two", files="b.*") == ["notes/b.txt:1: two birds"]
    assert space.search_files("swordfish") == []


ESCAPES = [
    "../outside/secret.txt",
    "notes/../../outside/secret.txt",
    "/etc/passwd",
    "~/secret.txt",
    "link.txt",
    "folder/secret.txt",
    "folder",
    "inside.txt",
    "./notes/.././../outside/secret.txt",
    "notes\\..\\..\\outside",
    "a.txt\x00.png",
    "a.txt/../../outside/secret.txt",
    "/proc/self/cwd/secret.txt",
]


@pytest.mark.parametrize("path", ESCAPES)
@pytest.mark.parametrize("name", ["read_file", "write_file", "edit_file", "list_directory"])
async def test_no_path_leads_outside(space: Workspace, outside: Path, name: str, path: str) -> None:
    given = {"write_file": {"content": "hacked"}, "edit_file": {"old": "sword", "new": "hack"}}.get(name, {})
    said = await run(space, name, path=path, **given)
    assert said.startswith("Error: ")
    assert "swordfish" not in said
    assert (outside / "secret.txt").read_text() == "swordfish"
    assert sorted(os.listdir(outside)) == ["secret.txt"]


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("pipe", "not a regular file"),
        ("picture.png", "a binary file"),
        ("huge.txt", "1001 bytes; at most 1000"),
        ("latin.txt", "not UTF-8"),
        ("absent.txt", "No such file"),
        ("notes", "not a regular file"),
        ("", "expected the path of a file"),
        ("x/" * 40 + "y", "folders deep"),
    ],
)
async def test_what_is_not_a_text_file_is_an_error_and_never_hangs(space: Workspace, path: str, reason: str) -> None:
    (space.root / "huge.txt").write_text("x" * 1001)
    (space.root / "latin.txt").write_bytes(b"caf\xe9")
    assert reason in await run(space, "read_file", path=path)


async def test_links_and_special_files_are_not_replaced(space: Workspace) -> None:
    for name in ("link.txt", "pipe"):
        assert "not a regular file" in await run(space, "write_file", path=name, content="x")
    assert (space.root / "link.txt").is_symlink()


def test_a_folder_that_becomes_a_link_between_two_steps_leads_nowhere(space: Workspace, outside: Path) -> None:
    """Swaps a folder for a link to the outside, again and again, while files are read and written through it."""
    going = True
    swapped, real = space.root / "swap", space.root / "real"
    real.mkdir()
    (real / "secret.txt").write_text("harmless")

    def swap() -> None:
        while going:
            for target in (outside, real):
                new = space.root / "swap.new"
                new.symlink_to(target)
                try:
                    new.rename(swapped)
                except IsADirectoryError:  # the workspace has made the folder again between two steps
                    shutil.rmtree(swapped)
                    new.rename(swapped)
            swapped.unlink()
            real.rename(space.root / "moved")
            (space.root / "moved").rename(real)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(2000):
            try:
                assert "swordfish" not in space.read_file("swap/secret.txt")
                space.write_file("swap/made.txt", "x")
            except TurnFailed:
                continue
    finally:
        going = False
        thread.join()
    assert sorted(os.listdir(outside)) == ["secret.txt"]


def test_a_workspace_may_be_read_only(space: Workspace) -> None:
    tools = [tool.name for tool in Workspace(space.root, writable=False).tools()]
    assert tools == ["read_file", "list_directory", "search_files"]
