"""Backs up a home while its gateway runs, and restores it.

SQLite databases are copied by SQLite's online backup, so that each is consistent; other files are copied as they are. A
store on PostgreSQL is backed up by PostgreSQL's tools, or by ``sabir store copy``.
"""

from __future__ import annotations

import os
import sqlite3
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import msgspec

from sabir.errors import ConfigError

DATABASES: Final = (".db", ".sqlite", ".sqlite3")
LEFT_OUT: Final = ("-wal", "-shm", "-journal", ".lock", ".sock")  # of a running gateway: included in the copies
NODES: Final = "nodes"  # the nodes that run here now


class BackupReport(msgspec.Struct, frozen=True):
    """What was written or restored."""

    files: int
    bytes: int


def backup(home: Path, target: Path, store: str | None = None, *, overwrite: bool = False) -> BackupReport:
    """Write a home into one file.

    Raises:
        ConfigError: nothing to back up, or the file exists or cannot be written.
    """
    if store is not None and store.startswith("postgres"):
        raise ConfigError("backup: this store is on PostgreSQL; use pg_dump for it, or sabir store copy")
    if not home.is_dir():
        raise ConfigError(f"backup: {home} does not exist; say where the home is with --config or --home")
    if target.exists() and not overwrite:
        raise ConfigError(f"backup: {target} exists; choose another file, or overwrite it with --force")
    files = size = 0
    try:
        with tempfile.TemporaryDirectory(dir=target.resolve().parent) as scratch:
            written = Path(scratch) / "backup"
            descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as stream, tarfile.open(fileobj=stream, mode="w:gz") as archive:
                for path in _files_of(home, target):
                    source = _copied(path, Path(scratch)) if path.suffix in DATABASES else path
                    archive.add(source, arcname=str(path.relative_to(home)), recursive=False)
                    files, size = files + 1, size + source.stat().st_size
            written.replace(target)
    except OSError as exc:
        raise ConfigError(f"backup: {exc.filename or target}: {exc.strerror}") from exc
    return BackupReport(files, size)


def restore(source: Path, home: Path) -> BackupReport:
    """Restore a backup into a home that is empty or missing.

    Raises:
        ConfigError: the home is not empty, or the file is not a backup.
    """
    if home.exists() and any(home.iterdir()):
        raise ConfigError(f"restore: {home} is not empty; move it, or choose another folder with --home")
    try:
        with tarfile.open(source, mode="r:gz") as archive:
            members = archive.getmembers()
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
            archive.extractall(home, filter="data")
    except (tarfile.TarError, EOFError) as exc:
        raise ConfigError(f"restore: {source} is not a backup: {exc}") from None
    except OSError as exc:
        raise ConfigError(f"restore: {exc.filename or source}: {exc.strerror or exc}") from exc
    for path in home.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    files = [member for member in members if member.isfile()]
    return BackupReport(len(files), sum(member.size for member in files))


def _files_of(home: Path, target: Path) -> Iterator[Path]:
    for path in sorted(home.rglob("*")):
        if not path.is_file() or path.is_symlink() or path.resolve() == target.resolve():
            continue
        if path.relative_to(home).parts[0] != NODES and not path.name.endswith(LEFT_OUT):
            yield path


def _copied(path: Path, scratch: Path) -> Path:
    """A consistent copy of a database that may be in use."""
    copy = scratch / "database"
    copy.unlink(missing_ok=True)
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as old, closing(sqlite3.connect(copy)) as new:
        try:
            old.backup(new)
        except sqlite3.Error as exc:
            raise ConfigError(f"backup: {path}: {exc}") from None
    return copy
