"""The file tools of a workspace work in it, and nothing leads out of it (MW-34)."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sabir import Message, Turn
from sabir.errors import TurnFailed
from sabir.tools import Toolbox, ToolCall, workspace
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
    os.link(outside / "secret.txt", root / "hard.txt")
    (root / "deep").mkdir()
    (root / "deep" / "up").symlink_to("../..")
    (root / "self").symlink_to("/proc/self")
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
    "hard.txt",  # another name of the file outside
    "deep/up",  # a link to a parent folder
    "deep/up/outside/secret.txt",
    "self/cwd",  # a link into /proc
    "self/root/etc/passwd",
    "LINK.TXT/../link.txt",
    "link.txt/",
    "folder/./secret.txt",
    "folder//secret.txt",
    ".. /outside/secret.txt",
    "..\u200b/outside/secret.txt",
    "\uff0e\uff0e/outside/secret.txt",  # full-width dots
    "%2e%2e/outside/secret.txt",
    "file:///etc/passwd",
    "n" * 300,
    "n/" * 3000,
    "\ud800.txt",
]
# What may be written inside the workspace, under a name that only looks like a way out.
HARMLESS = {".. /outside/secret.txt", "..\u200b/outside/secret.txt", "\uff0e\uff0e/outside/secret.txt"}
HARMLESS |= {"%2e%2e/outside/secret.txt", "file:///etc/passwd", "hard.txt"}


@pytest.mark.parametrize("path", ESCAPES)
@pytest.mark.parametrize("name", ["read_file", "write_file", "edit_file", "list_directory"])
async def test_no_path_leads_outside(space: Workspace, outside: Path, name: str, path: str) -> None:
    given = {"write_file": {"content": "hacked"}, "edit_file": {"old": "sword", "new": "hack"}}.get(name, {})
    said = await run(space, name, path=path, **given)
    assert said.startswith("Error: ") or (name == "write_file" and path in HARMLESS)
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


async def test_edits_at_the_same_time_are_all_kept(space: Workspace) -> None:
    """Several workspaces on one folder, as agents and processes have them."""
    (space.root / "n.txt").write_text("".join(f"<{number}>\n" for number in range(20)))
    boxes = [Toolbox(Workspace(space.root).tools()) for _ in range(2)]
    calls = [
        ToolCall(str(number), "edit_file", {"path": "n.txt", "old": f"<{number}>", "new": f"[{number}]"})
        for number in range(20)
    ]
    halves = [box.call(Turn(Message.text("")), calls[place::2]) for place, box in enumerate(boxes)]
    results = [result for half in await asyncio.gather(*halves) for result in half]
    assert {result.status for result in results} == {"success"}
    assert (space.root / "n.txt").read_text() == "".join(f"[{number}]\n" for number in range(20))


@pytest.mark.parametrize("name", ["write_file", "edit_file"])
async def test_a_file_that_is_replaced_keeps_its_mode(space: Workspace, name: str) -> None:
    file = space.root / "private.txt"
    for mode in (0o600, 0o755):
        file.write_text("one")
        file.chmod(mode)
        given = {"content": "two"} if name == "write_file" else {"old": "one", "new": "two"}
        assert "Error" not in await run(space, name, path="private.txt", **given)
        assert (file.read_text(), file.stat().st_mode & 0o777) == ("two", mode)
    assert "Error" not in await run(space, "write_file", path="hard.txt", content="mine")  # the other name stays


async def test_a_hard_link_is_replaced_and_its_other_name_keeps_its_content(space: Workspace, outside: Path) -> None:
    await run(space, "write_file", path="hard.txt", content="mine")
    assert (space.root / "hard.txt").read_text() == "mine"
    assert (outside / "secret.txt").read_text() == "swordfish"


async def test_names_that_no_message_can_carry_do_not_break_a_listing(space: Workspace) -> None:
    odd = space.root / "odd"
    odd.mkdir()
    with open(os.path.join(bytes(odd), b"\xff.txt"), "w") as file:
        file.write("two")
    (odd / "a\nb.txt:1: forged").write_text("two")
    listed = space.list_directory("odd")
    assert sorted(str(entry["name"]) for entry in listed) == ["a\ufffdb.txt:1: forged", "\ufffd.txt"]
    assert msgspec.json.encode(listed)
    assert space.search_files("two", files="*forged*") == []


async def test_text_that_is_not_unicode_is_an_error_that_says_so(space: Workspace) -> None:
    assert "content: expected valid Unicode" in await run(space, "write_file", path="x.txt", content="\ud800")
    assert "path: expected valid Unicode" in await run(space, "write_file", path="\udfff", content="x")
    assert not (space.root / "x.txt").exists()


def test_a_search_is_bounded(space: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace, "SEARCHED_FILES", 1)
    assert space.search_files("two") == ["a.txt:2: two", "[only the first 1 files were searched]"]


async def test_a_failure_of_the_system_is_an_error_with_its_reason(space: Workspace) -> None:
    (space.root / "a.txt").unlink()
    (space.root / "a.txt").mkdir()
    assert "Not a directory" in await run(space, "write_file", path="notes/b.txt/c.txt", content="x")
    assert "not a regular file" in await run(space, "write_file", path="a.txt", content="x")
    assert "File name too long" in await run(space, "write_file", path="n" * 300, content="x")
    assert [name for name in os.listdir(space.root) if name.endswith(".tmp")] == []


def test_a_workspace_that_another_program_locks_is_said(space: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace, "LOCK_SECONDS", 0.02)
    root = os.open(space.root, os.O_RDONLY)
    try:
        fcntl.flock(root, fcntl.LOCK_EX)
        with pytest.raises(TurnFailed, match="locked by another program"):
            space.write_file("x.txt", "x")
    finally:
        os.close(root)
    space.write_file("x.txt", "x")
