"""Sheets of a workbook (XLSX) as tables of text. Pure."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from datetime import date, datetime, time
from typing import Final

import msgspec

from sabir.errors import MissingExtra
from sabir.search.items.item import Problem

from .xml_safety import begins_safely

MAX_UNPACKED: Final = 512 * 1024 * 1024
MAX_COLUMNS: Final = 500
_HEAD: Final = 65_536  # bytes of a part that contain its first element


class Sheet(msgspec.Struct, frozen=True):
    """One sheet: its name, and its rows with their numbers."""

    name: str
    rows: Iterator[tuple[int, list[str]]]


def sheets(body: bytes, place: str) -> Iterator[Sheet | Problem]:
    """The non-empty sheets of a workbook."""
    try:  # imported late: it is slow, and few sites have workbooks
        from openpyxl import load_workbook  # noqa: PLC0415
    except ImportError as missing:
        raise MissingExtra("reading workbooks", "search") from missing
    problem = _refused(body)
    if problem:
        yield Problem(place, problem)
        return
    try:
        book = load_workbook(io.BytesIO(body), read_only=True, data_only=True, keep_links=False)
    except (ValueError, KeyError, TypeError, OSError, SyntaxError) as exc:  # SyntaxError: invalid XML
        yield Problem(place, f"not a workbook that can be read: {exc}")
        return
    for sheet in book.worksheets:
        if sheet.sheet_state == "visible":
            sheet.reset_dimensions()  # the declared size may be wrong
            yield Sheet(sheet.title, _rows(sheet.iter_rows(values_only=True, max_col=MAX_COLUMNS)))


def _refused(body: bytes) -> str:
    """Why a workbook is rejected; empty if it is accepted."""
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as packed:
            if sum(part.file_size for part in packed.infolist()) > MAX_UNPACKED:
                return f"unpacked it is larger than {MAX_UNPACKED // 1_048_576} MiB"
            for part in packed.infolist():
                if part.filename.endswith((".xml", ".rels")):
                    with packed.open(part) as opened:
                        if not begins_safely(opened.read(_HEAD)):
                            return f"{part.filename} is not XML, or has a DTD, which is not read"
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError) as exc:
        return f"not a workbook that can be read: {exc}"
    return ""


def _rows(rows: Iterator[tuple[object, ...]]) -> Iterator[tuple[int, list[str]]]:
    for number, row in enumerate(rows, 1):
        words = [_words(cell) for cell in row]
        while words and not words[-1]:
            words.pop()
        yield number, words


def _words(cell: object) -> str:
    if cell is None:
        return ""
    if isinstance(cell, datetime):
        return cell.date().isoformat() if cell.time() == time() else cell.isoformat()
    if isinstance(cell, date | time):
        return cell.isoformat()
    if isinstance(cell, float):
        return f"{cell:.10g}"
    return str(cell).strip()
