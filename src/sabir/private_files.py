"""Files on disk are readable only by the user who runs the gateway: folders 0700, files 0600."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_OTHERS: Final = 0o077


def own_folder(path: Path) -> None:
    """Create a folder; new ones are private, an existing one stays as it is.

    Raises:
        OSError: it cannot be created.
    """
    for item in reversed((path, *path.parents)):
        if not item.exists():
            item.mkdir(mode=0o700, exist_ok=True)  # somebody else may create it at the same time
    path.mkdir(exist_ok=True)  # raises if a file is in the way


def own_file(path: Path) -> None:
    """Create a file privately, if it does not exist; for libraries that would create it with other permissions.

    Raises:
        OSError: it cannot be created.
    """
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        pass


def open_to_others(home: Path, files: Iterable[Path] = ()) -> str:
    """A warning about what other users of this machine can read, and the remedy; empty if they cannot."""
    if sys.platform == "win32":  # no such modes
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
    except OSError:  # it does not exist, or we may not see it
        return False
