"""Tables (CSV, TSV, XLSX), JSON and JSON lines to items. Pure."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Iterator, Mapping
from typing import TypeAlias

import msgspec

from sabir.misfits import NOT_JSON
from sabir.search.items.item import JSON, Item, Problem
from sabir.search.items.schema_org import items

from .columns import column_places
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
        data = list(articles(data))
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
    delimiter = max(",;\t|", key=text[:8192].lstrip("\r\n").split("\n", 1)[0].count)
    rows = _csv_rows(text, delimiter, place)
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
    first = next(rows, None)
    if first is None or isinstance(first, Problem):
        yield first or Problem(place, "a table without a header")
        return
    header = [column.strip() for column in first[1]]
    second = next(rows, None)
    if second is None:
        yield Problem(place, "a table without rows")
        return
    merchant = mapping is None and is_merchant_table(header)
    sample = second[1] if not isinstance(second, Problem) else []
    columns = column_places(header, mapping, sample)
    if columns.problem:
        yield Problem(place, columns.problem)
        return
    if not merchant:
        yield Columns(columns.unknown, columns.notes)

    def records() -> Iterator[Item | Problem]:
        for row in itertools.chain([second], rows):
            if isinstance(row, Problem):
                yield row
                continue
            at, cells = row
            if len(cells) > len(header):
                yield Problem(at, f"{len(cells)} cells in a table of {len(header)} columns")
                continue
            node = _merchant_node(cells, header) if merchant else _node(cells, columns.places, url or place)
            yield from items(node, site=site, base=url, source=source, place=at)

    yield from numbered(records())


def _merchant_node(cells: list[str], header: list[str]) -> dict[str, JSON]:
    return product({attribute(column): [cell] for column, cell in zip(header, cells, strict=False)})


def _node(row: list[str], places: Mapping[str, int | str], base: str) -> dict[str, JSON]:
    node: dict[str, JSON] = {}
    for name, at in places.items():
        value = at if isinstance(at, str) else row[at].strip() if at < len(row) else ""
        if not value:
            continue
        holder = node
        *path, last = name.split(".")
        for step in path:
            if not isinstance(holder.get(step), dict):  # a column "brand" besides one "brand.url"
                holder[step] = {"name": holder[step]} if step in holder else {}
            holder = holder[step]
        holder[last] = value
    identity = node.get("@id")
    if isinstance(identity, str) and not re.search(r"[:/#]", identity):
        node["@id"] = f"{base}#{identity}"  # a number is only unique within its table
    node.setdefault("@type", _kind(node))
    return node


def _kind(node: Mapping[str, JSON]) -> str:
    if "startDate" in node:
        return "Event"
    return "Product" if "offers" in node or "sku" in node or "gtin" in node else "Thing"
