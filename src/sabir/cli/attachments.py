"""Files of an answer: images, audio and other bytes, written to a folder."""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from sabir.message import Message, Part

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._ -]+")
_LONGEST: Final = 100  # characters of a name


def save(message: Message, folder: Path) -> Iterator[Path]:
    """Write the files of an answer and yield their paths; existing files are not overwritten."""
    for part in message.parts:
        if isinstance(part.content, bytes):
            folder.mkdir(parents=True, exist_ok=True)
            yield _write(folder, name_of(part), part.content)


def name_of(part: Part) -> str:
    """A file name for a part: its label, without path separators, or its type."""
    kind = part.subformat.replace("binary/", "")
    name = _UNSAFE.sub("_", (part.label or "").replace("\\", "/").rpartition("/")[2]).strip(". ")[-_LONGEST:]
    if not name:
        name = kind.partition("/")[0] or "file"
    return name if Path(name).suffix else f"{name}{_suffix(kind)}"


def _suffix(kind: str) -> str:
    return mimetypes.guess_extension(kind) or (
        f".{kind.rpartition('/')[2]}" if kind.rpartition("/")[2].isalnum() else ".bin"
    )


def _write(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    number = 1
    while True:
        try:
            with path.open("xb") as file:
                file.write(data)
            return path
        except FileExistsError:
            number += 1
            path = folder / f"{Path(name).stem}-{number}{Path(name).suffix}"
