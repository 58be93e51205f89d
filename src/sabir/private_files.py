"""What is kept on the disk is for nobody but whoever runs the gateway: folders 0700, files 0600."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_OTHERS: Final = 0o077


def own_folder(path: Path) -> None:
    """The folder is there; those that had to be made are ours alone, one that was there stays as it is.

    Raises:
        OSError: it cannot be made.
    """
    for item in reversed((path, *path.parents)):
        if not item.exists():
            item.mkdir(mode=0o700, exist_ok=True)  # somebody else may make it at the same time
    path.mkdir(exist_ok=True)  # says what is wrong, if a file is in the way


def own_file(path: Path) -> None:
    """The file is there, and if it had to be made, it is ours alone; for libraries that would make it as they like.

    Raises:
        OSError: it cannot be made.
    """
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        pass


def open_to_others(home: Path, files: Iterable[Path] = ()) -> str:
    """What others on this machine can read of it, and what to do about that, in one line; empty if they cannot."""
    if sys.platform == "win32":  # which has no such modes
        return ""
    wide = [home] if _wide(home) else []
    wide += [file for file in files if _wide(file) and _wide(file.parent)]
    if not wide:
        return ""
    text = ", ".join(f"{item} (mode {item.stat().st_mode & 0o777:04o})" for item in wide)
    return f"readable by other users of this machine: {text}; chmod go-rwx keeps it from them"


def _wide(path: Path) -> bool:
    try:
        return bool(path.stat().st_mode & _OTHERS)
    except OSError:  # it is not there, or not for us to see
        return False
