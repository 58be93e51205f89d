"""File tools confined to a folder (MW-34).

A path is opened one component at a time, relative to the folder's descriptor, without following symbolic links. So
neither ``..`` nor an absolute path nor a link leads outside, and there is no race between check and use. A file with
more than one hard link is not read, because its other name may be outside.
"""

from __future__ import annotations

import errno
import fcntl
import fnmatch
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sabir.errors import TurnFailed
from sabir.ids import new_id

from .tool import Tool, tool

READ_BYTES: Final = 1024 * 1024
LINES: Final = 2000  # returned by one call
MATCHES: Final = 200
ENTRIES: Final = 1000
DEPTH: Final = 32
LOCK_SECONDS: Final = 10.0  # how long a writer waits for others
SEARCHED_FILES: Final = 10_000  # read by one search at most
SEARCHED_BYTES: Final = 64 * 1024 * 1024
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK, so that opening a pipe in the workspace does not hang.
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MAKE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Workspace:
    """A folder, and the tools that work in it."""

    root: Path
    read_bytes: int = READ_BYTES
    writable: bool = True

    def tools(self) -> list[Tool]:
        """The tools that read; if the workspace is writable, also those that write."""
        reading = [self.read_file, self.list_directory, self.search_files]
        writing = [self.write_file, self.edit_file] if self.writable else []
        return [_builtin(function) for function in (*reading, *writing)]

    def read_file(self, path: str, start: int = 1, lines: int = LINES) -> str:
        """Reads a text file, with line numbers.

        Args:
            path: relative to the workspace
            start: the first line to return
            lines: how many lines to return
        """
        text = self._text(path).splitlines()
        chosen = text[max(0, start - 1) : max(0, start - 1) + min(max(lines, 0), LINES)]
        numbered = [f"{number:>6}\t{line}" for number, line in enumerate(chosen, max(1, start))]
        rest = len(text) - (max(0, start - 1) + len(chosen))
        if rest > 0:
            numbered.append(f"[{rest} more lines]")
        return "\n".join(numbered)

    def list_directory(self, path: str = ".") -> list[dict[str, str | int]]:
        """Lists a folder: the name, kind and size of each entry.

        Args:
            path: relative to the workspace
        """
        with self._folder(_steps(path)) as folder:
            names = sorted(os.listdir(folder))[:ENTRIES]
            return [_entry(folder, name) for name in names]

    def search_files(self, pattern: str, files: str = "*") -> list[str]:
        """Finds lines that contain a text, in any case.

        Args:
            pattern: the text to find (plain text; a regular expression from a model could run forever)
            files: which files to search, such as *.py
        """
        wanted = pattern.casefold()
        found: list[str] = []
        files_left, bytes_left = SEARCHED_FILES, SEARCHED_BYTES
        for path in self._walk():
            if not fnmatch.fnmatch(path, files) and not fnmatch.fnmatch(path.rpartition("/")[2], files):
                continue
            if not files_left or bytes_left <= 0:
                return [*found, f"[only the first {SEARCHED_FILES - files_left} files were searched]"]
            try:
                text = self._text(path)
            except TurnFailed:
                continue  # binary, too large, or gone since
            files_left -= 1
            bytes_left -= len(text)
            for number, line in enumerate(text.splitlines(), 1):
                if wanted in line.casefold():
                    found.append(f"{path}:{number}: {line[:300]}")
                if len(found) == MATCHES:
                    return [*found, f"[only the first {MATCHES} matches]"]
        return found

    def write_file(self, path: str, content: str) -> str:
        """Writes a text file, which is made or replaced as a whole.

        Args:
            path: relative to the workspace
            content: the whole text
        """
        *folders, name = _steps(path, file=True)
        data = _encoded(content, "content")
        with self._writing():
            self._replace(folders, name, data)
        return f"wrote {len(data)} bytes to {path}"

    def edit_file(self, path: str, old: str, new: str) -> str:
        """Replaces a passage of a text file; the passage must occur exactly once.

        Args:
            path: relative to the workspace
            old: the passage as it is
            new: the passage as it should be
        """
        *folders, name = _steps(path, file=True)
        with self._writing():
            text = self._text(path)
            count = text.count(old) if old else 0
            if count != 1:
                raise TurnFailed(f"{path}: the passage occurs {count} times; give one that occurs exactly once")
            self._replace(folders, name, _encoded(text.replace(old, new), "new"))
        return f"replaced one passage of {path}"

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """One writer at a time, in all processes: two edits of a file must not both start from the same text."""
        root = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        end = time.monotonic() + LOCK_SECONDS
        try:
            while True:
                try:
                    fcntl.flock(root, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > end:
                        raise TurnFailed("the workspace is locked by another program") from None
                    time.sleep(0.005)
            yield
        finally:
            os.close(root)  # which ends the lock

    # -- the way in -------------------------------------------------------------------------------

    @contextmanager
    def _folder(self, steps: list[str], *, make: bool = False) -> Iterator[int]:
        """A descriptor of a folder below the root, reached without following a link."""
        current = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for step in steps:
                if make:
                    _make_folder(current, step)
                following = _opened(step, _FOLDER, current)
                os.close(current)
                current = following
            yield current
        finally:
            os.close(current)

    def _text(self, path: str) -> str:
        *folders, name = _steps(path, file=True)
        with self._folder(folders) as folder:
            descriptor = _opened(name, _READ, folder)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise TurnFailed(f"{path}: not a regular file")
        if status.st_nlink > 1:
            os.close(descriptor)
            raise TurnFailed(f"{path}: a hard link, whose other name may be outside the workspace")
        with open(descriptor, "rb") as file:
            if status.st_size > self.read_bytes:
                raise TurnFailed(f"{path}: {status.st_size} bytes; at most {self.read_bytes} are read")
            data = file.read(self.read_bytes + 1)
        if b"\x00" in data:
            raise TurnFailed(f"{path}: a binary file")
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise TurnFailed(f"{path}: not UTF-8 text") from None

    def _replace(self, folders: list[str], name: str, content: bytes) -> None:
        """Write beside the file and rename, so that nobody reads half of it. A file that is replaced keeps its mode."""
        if len(content) > self.read_bytes:
            raise TurnFailed(f"{name}: at most {self.read_bytes} bytes are written")
        with self._folder(folders, make=True) as folder:
            mode = _mode_to_keep(folder, name)
            temporary = f".{new_id()}.tmp"
            try:
                descriptor = os.open(temporary, _MAKE, 0o644 if mode is None else mode, dir_fd=folder)
                try:
                    with open(descriptor, "wb") as file:
                        if mode is not None:
                            os.fchmod(descriptor, mode)  # the umask may have taken from it
                        file.write(content)
                    os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
                except BaseException:
                    os.unlink(temporary, dir_fd=folder)
                    raise
            except OSError as exc:  # a full disk, a folder that cannot be written to
                raise TurnFailed(f"{name}: {exc.strerror}") from None

    def _walk(self) -> Iterator[str]:
        """The regular files of the workspace, links left out."""
        waiting: list[list[str]] = [[]]
        while waiting:
            steps = waiting.pop()
            try:
                with self._folder(steps) as folder:
                    entries = [(name, _entry(folder, name)["kind"]) for name in sorted(os.listdir(folder))]
            except TurnFailed:
                continue  # gone since
            for name, kind in entries:
                if _shown(name) != name:
                    continue  # no path can name it
                if kind == "file":
                    yield "/".join([*steps, name])
                elif kind == "folder" and len(steps) < DEPTH:
                    waiting.append([*steps, name])


def _steps(path: str, *, file: bool = False) -> list[str]:
    """The steps of a relative path.

    Raises:
        TurnFailed: it leads outside, or names no file.
    """
    _encoded(path, "path")
    if "\x00" in path or path.startswith(("/", "~")) or "\\" in path:
        raise TurnFailed(f"{path[:200]!r}: expected a path relative to the workspace")
    steps = [step for step in path.split("/") if step not in ("", ".")]
    if ".." in steps:
        raise TurnFailed(f"{path[:200]!r}: leads outside the workspace")
    if len(steps) > DEPTH:
        raise TurnFailed(f"{path[:200]!r}: more than {DEPTH} folders deep")
    if file and not steps:
        raise TurnFailed("expected the path of a file")
    return steps


def _encoded(text: str, what: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise TurnFailed(f"{what}: expected valid Unicode") from None


def _opened(name: str, flags: int, folder: int) -> int:
    try:
        return os.open(name, flags, dir_fd=folder)
    except OSError as exc:
        if exc.errno in (errno.ELOOP, errno.EMLINK) or _is_link(name, folder):
            raise TurnFailed(f"{name}: symbolic links are not followed") from None
        raise TurnFailed(f"{name}: {exc.strerror}") from None


def _is_link(name: str, folder: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _make_folder(folder: int, name: str) -> None:
    try:
        os.mkdir(name, 0o755, dir_fd=folder)
    except FileExistsError:
        return
    except OSError as exc:
        raise TurnFailed(f"{name}: {exc.strerror}") from None


def _mode_to_keep(folder: int, name: str) -> int | None:
    """The mode of the file that is replaced; None for a new file.

    Raises:
        TurnFailed: it is a link or a special file, and something else may rely on what it is.
    """
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise TurnFailed(f"{name}: {exc.strerror}") from None
    if not stat.S_ISREG(status.st_mode):
        raise TurnFailed(f"{name}: not a regular file")
    return stat.S_IMODE(status.st_mode) & 0o777


def _shown(name: str) -> str:
    """A name that a message can carry: control characters, and bytes that are not Unicode, are replaced."""
    text = name.encode(errors="surrogateescape").decode(errors="replace")
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


def _entry(folder: int, name: str) -> dict[str, str | int]:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return {"name": _shown(name), "kind": "gone"}
    kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}
    kind = kinds.get(stat.S_IFMT(status.st_mode), "special")
    return {"name": _shown(name), "kind": kind, **({"size": status.st_size} if kind == "file" else {})}


def _builtin(function: object) -> Tool:
    made = tool(function)  # type: ignore[call-overload]
    return Tool(made.name, made.description, made.schema, made.run, kind="builtin")
