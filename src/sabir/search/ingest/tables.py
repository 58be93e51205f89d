"""Tables (CSV, TSV, XLSX), JSON and JSON lines to items. Pure."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

import msgspec

from sabir.misfits import NOT_JSON
from sabir.search.items.item import JSON, Item, Problem
from sabir.search.items.schema_org import items

from .columns import TableColumns, column_places, is_known, stock_state
from .dates import at_clock, day_first, iso_date
from .json_feed import articles, is_json_feed
from .merchant import attribute, is_merchant_table, product
from .numbering import numbered
from .report import Columns
from .sheets import Sheet, sheets
from .shops import is_shopify, is_woocommerce, shopify, woocommerce

_Row: TypeAlias = tuple[str, list[str]]  # its place, its cells


def json_items(text: str, *, site: str, url: str, source: str, place: str) -> Iterator[Item | Problem]:
    """One JSON document."""
    try:
        data = msgspec.json.decode(text)
    except NOT_JSON as exc:
        yield Problem(place, f"not JSON: {exc}")
        return
    if is_shopify(data):
        data = list(shopify(data, url, site))
    elif is_woocommerce(data):
        data = list(woocommerce(data))
    elif is_json_feed(data):
        data = list(articles(data, url))
    elif data in ([], {"products": []}):  # the page after a shop's last one
        return
    yield from items(data, site=site, base=url, source=source, place=place)


def line_items(text: str, *, site: str, url: str, source: str, place: str) -> Iterator[Item | Problem]:
    """One JSON document per line, or an address, a tab and a JSON document."""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        base = url
        address = re.match(r"(https?://\S+)\t(?=[\[{])", line)
        if address:
            base, line = address[1], line[address.end() :]
        yield from json_items(line, site=site, url=base, source=source, place=f"{place}:{number}")


def csv_items(
    text: str, *, site: str, url: str, source: str, place: str, mapping: Mapping[str, str] | None = None
) -> Iterator[Item | Problem | Columns]:
    """One item per row. The meaning of columns comes from their names.

    ``mapping`` adds to that: from properties (dotted for nested ones) to columns, or ``=`` and a constant.
    """
    text = text.removeprefix("\ufeff")
    stated = re.match(r"sep=(.)\r?\n", text)  # as Excel writes it
    delimiter = stated[1] if stated else _delimiter(text[:8192])
    rows = _csv_rows(text, delimiter, place)
    if stated:
        next(rows, None)
    yield from _table(rows, site=site, url=url, source=source, place=place, mapping=mapping)


def sheet_items(
    body: bytes, *, site: str, url: str, source: str, place: str, mapping: Mapping[str, str] | None = None
) -> Iterator[Item | Problem | Columns]:
    """One item per row of each sheet of a workbook, as in ``csv_items``."""
    found = 0
    for sheet in sheets(body, place):
        if isinstance(sheet, Problem):
            yield sheet
            return
        at = f"{place}#{sheet.name}"
        rows = _sheet_rows(sheet, at)
        first = next(rows, None)
        if first is not None:
            found += 1
            rows = itertools.chain([first], rows)
            yield from _table(rows, site=site, url=url, source=source, place=at, mapping=mapping)
    if not found:
        yield Problem(place, "a workbook without rows")


def _sheet_rows(sheet: Sheet, place: str) -> Iterator[_Row]:
    return ((f"{place}:{number}", cells) for number, cells in sheet.rows if any(cells))


def _delimiter(start: str) -> str:
    """The character between cells: the one that splits most of the first rows into the same number of cells."""

    def parted(delimiter: str) -> tuple[int, int]:
        rows = csv.reader(io.StringIO(start, newline=""), delimiter=delimiter)
        try:
            sizes = [len(row) for row in itertools.islice(rows, _FIRST_ROWS) if any(row)]
        except csv.Error:
            return 0, 0
        widths = Counter(size for size in sizes if size > 1)
        return max(((count, size) for size, count in widths.items()), default=(0, 0))

    return max(",;\t|", key=parted)


_FIRST_ROWS: Final = 20


def _csv_rows(text: str, delimiter: str, place: str) -> Iterator[_Row | Problem]:
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    lines = text.count("\n")
    unbalanced = text.count('"') % 2 == 1
    while True:
        began = rows.line_num + 1
        try:
            row = next(rows, None)
        except csv.Error as exc:
            yield Problem(f"{place}:{began}", f"the table is not read further: {exc}")
            return
        if row is None:
            return
        if unbalanced and rows.line_num > began and rows.line_num >= lines:
            yield Problem(f"{place}:{began}", "a quote is not closed, and the rest of the table is inside it")
            return
        if any(cell.strip() for cell in row):
            yield f"{place}:{rows.line_num}", row


def _table(
    rows: Iterator[_Row | Problem], *, site: str, url: str, source: str, place: str, mapping: Mapping[str, str] | None
) -> Iterator[Item | Problem | Columns]:
    rows, above = _header(rows)
    first = next(rows, None)
    if first is None or isinstance(first, Problem):
        yield first or Problem(place, "a table without a header")
        return
    header = [column.strip() for column in first[1]]
    known = list(itertools.islice(rows, _KNOWN_ROWS))
    if not known:
        yield Problem(place, "a table without rows")
        return
    merchant = mapping is None and is_merchant_table(header)
    cells = [row[1] for row in known if not isinstance(row, Problem)]
    columns = column_places(header, mapping, cells[0] if cells else [])
    if columns.problem:
        yield Problem(place, columns.problem)
        return
    dates = _dates(columns, cells)
    if not merchant:
        yield Columns(columns.unknown, (*above, *columns.notes, *_doubtful(header, columns, cells, dates)))

    def records() -> Iterator[Item | Problem]:
        for row in itertools.chain(known, rows):
            if isinstance(row, Problem):
                yield row
                continue
            at, cells = row
            if any(cell.strip() for cell in cells[len(header) :]):
                yield Problem(at, f"{len(cells)} cells in a table of {len(header)} columns")
                continue
            node = _merchant_node(cells, header, url) if merchant else _node(cells, columns, dates, url or place)
            yield from items(node, site=site, base=url, source=source, place=at)

    yield from numbered(records())


_KNOWN_ROWS: Final = 200  # read before the first item, to learn how the table writes dates
_MAX_ABOVE: Final = 10
_DATED: Final = ("startDate", "endDate", "datePublished", "dateModified")


def _header(rows: Iterator[_Row | Problem]) -> tuple[Iterator[_Row | Problem], tuple[str, ...]]:
    """The rows from the one that names the columns on, and notes on titles above it. A title has one cell."""
    first = list(itertools.islice(rows, _MAX_ABOVE + 1))
    titles: list[str] = []
    for row in first:
        if isinstance(row, Problem):
            break
        filled = [cell.strip() for cell in row[1] if cell.strip()]
        named = any(map(is_known, filled))
        if len(filled) > 1 and named:
            notes = tuple(f"a line above the table is left out: {title!r}" for title in titles)
            return itertools.chain(first[len(titles) :], rows), notes
        if len(filled) > 1 or named:
            break
        titles += filled
    return itertools.chain(first, rows), ()


def _dates(columns: TableColumns, cells: list[list[str]]) -> dict[str, bool | None]:
    """Of each column of dates, whether it has the day before the month."""
    return {
        name: day_first(row[at] for row in cells if at < len(row))
        for name in _DATED
        if isinstance(at := columns.places.get(name), int)
    }


def _doubtful(
    header: list[str], columns: TableColumns, cells: list[list[str]], dates: Mapping[str, bool | None]
) -> Iterator[str]:
    for name, days_first in dates.items():
        at = columns.places[name]
        if days_first is None and isinstance(at, int):
            example = next(row[at] for row in cells if at < len(row) and iso_date(row[at], True) != row[at])
            yield f"{example!r} in {header[at]!r} may begin with the day or the month; write dates as 2026-12-31"


def _merchant_node(cells: list[str], header: list[str], url: str) -> dict[str, JSON]:
    return product({attribute(column): [cell] for column, cell in zip(header, cells, strict=False)}, url)


def _node(row: list[str], columns: TableColumns, dates: Mapping[str, bool | None], base: str) -> dict[str, JSON]:
    node: dict[str, JSON] = {}
    for name, at in columns.places.items():
        value = at if isinstance(at, str) else _cell(row, at)
        if not value:
            continue
        if isinstance(at, int):
            value = _read(name, value, columns.units.get(name, ""), dates)
        holder = node
        *path, last = name.split(".")
        for step in path:
            if not isinstance(holder.get(step), dict):  # a column "brand" besides one "brand.url"
                holder[step] = {"name": holder[step]} if step in holder else {}
            holder = holder[step]
        holder[last] = value
    if columns.family is not None and (family := _cell(row, columns.family)):
        node["name"] = f"{node.get('name', '')} {family}".strip()
    clock = node.pop("startTime", None)
    if isinstance(clock, str):
        node["startDate"] = at_clock(str(node.get("startDate", "")), clock)
    identity = node.get("@id")
    if isinstance(identity, str) and not re.search(r"[:/#]", identity):
        node["@id"] = f"{base}#{identity}"  # a number is only unique within its table
    node.setdefault("@type", _kind(node))
    return node


def _kind(node: Mapping[str, JSON]) -> str:
    if "startDate" in node:
        return "Event"
    if "instructor" in node:
        return "Course"
    return "Product" if "offers" in node or "sku" in node or "gtin" in node else "Thing"


def _cell(row: list[str], at: int) -> str:
    return row[at].strip() if at < len(row) else ""


def _read(name: str, value: str, unit: str, dates: Mapping[str, bool | None]) -> str:
    """What a cell says: a number with the unit of its column, a date in ISO's form, whether something is in stock."""
    if unit and _NUMBER.fullmatch(value):
        return f"{value} {unit}"
    if name in dates:
        return iso_date(value, dates[name])
    if name == "offers.availability":
        return stock_state(value)
    if name == "offers.price" and value.casefold() in _GRATIS:
        return "0"
    return value


_NUMBER: Final = re.compile(r"\d[\d.,]*")
_GRATIS: Final = frozenset({"free", "free of charge", "gratis", "kostenlos", "frei", "gratuit", "libre"})
