"""Requirement and decision ids: how they are written, where they are used, and the two pages that explain them.

An id is a family and a number (``CORE-6.2``, ``ACL-24``, ``D-16``), optionally with lower-case words for a part of the
requirement or one check of it (``CORE-6.2-first``). Such a part belongs to the row of the requirement, unless it has
its own row. Names of standards and algorithms (UTF-8, SHA-256, RFC 9110, ECMA-430, AES-GCM) are not ids, because their
families are not listed here.

The rows are in ``docs/data/*.toml``; the ids of NLWeb and ACL checks come from the conformance suites.
"""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

ID = re.compile(
    r"""(?=[ACDFGHIMNOPRSTWX])(?<![\w-])(?:
      CORE-(?:\d+(?:\.\d+)*|A(?!\w))         # NLIP core: CORE-5.0.1, CORE-A (its annex)
    | (?:HTTP|WS|AMQP)-P?\d+(?:\.\d+)*       # NLIP bindings: HTTP-6.2, HTTP-P2, WS-7.1, AMQP-5
    | SEC-(?:P\d\.\d|[A-Z]+\d*)              # ECMA-434: SEC-P2.5, SEC-DOS
    | TR-\d+(?:\.\d+)*                       # overview report: TR-7.1.5.1
    | (?:DEP|PAPER)-[A-Z]+                   # NLIP paper: DEP-FED, PAPER-ANON
    | XSPEC-[a-z]+                           # extended specification: XSPEC-cap
    | SG[ ]\d+\.\d+ | (?:ID|RT|OBS)-\d+      # security guidelines: SG 3.5, ID-7
    | ACL-C?\d+ | MW-\d+ | NLWEB-\d+         # ACL, middleware, checks of NLWeb
    | [ACDFGW]-\d+                           # decisions, and points of the drafts behind them
    )(?:-[a-z][a-z0-9]*)*(?![\w-])""",
    re.VERBOSE,
)
RANGE = re.compile(r"(?<![\w-])([A-Z]+-)(\d+) to \1(\d+)(?![\w.-])")  # ACL-7 to ACL-17
PAGES = {"requirements.md": "requirements.toml", "decisions.md": "decisions.toml"}
CHECKS = {"nlweb": "Checks of NLWeb servers", "acl": "Checks of ACL endpoints"}
MAX_NAMES = 4  # tests that a row lists by name


@dataclass
class Row:
    """One requirement or decision."""

    id: str
    text: str
    kind: str = ""
    clause: str = ""
    open: bool = False


@dataclass
class Group:
    """The rows of one source, such as ECMA-430."""

    title: str
    about: str
    rows: list[Row]


@dataclass
class Uses:
    """Where one id appears."""

    tests: set[tuple[str, str]] = field(default_factory=set)  # file below tests/, name of the test or ""
    modules: set[str] = field(default_factory=set)  # file below src/sabir/


def in_order(id_: str) -> list[int | str]:
    """Sorts ``ACL-9`` before ``ACL-10``."""
    return [int(piece) if piece.isdigit() else piece for piece in re.split(r"(\d+)", id_)]


# ---- the data ----------------------------------------------------------------------------------------


def groups(root: Path, name: str) -> list[Group]:
    """The groups of one data file."""
    data = tomllib.loads((root / "docs" / "data" / name).read_text(encoding="utf-8"))
    found = []
    for entry in data["group"]:
        rows = [Row(id_, **values) for id_, values in entry["rows"].items()]
        found.append(Group(entry["title"], entry["about"], rows))
    return found


def check_groups() -> list[Group]:
    """The checks of protocols whose ids are only names of checks."""
    found = []
    for name, title in CHECKS.items():
        suite = importlib.import_module(f"sabir.conformance.{name}").SUITE
        rows: dict[str, Row] = {}
        for check in suite.checks:
            if check.id in rows:
                rows[check.id].text += f"; {check.title}"
            else:
                rows[check.id] = Row(check.id, check.title, check.level, check.clause)
        about = f"Run by `sabir check URL --protocol {name}`; the source is `src/sabir/conformance/{name}.py`."
        found.append(Group(title, about, list(rows.values())))
    return found


def all_groups(root: Path) -> dict[str, list[Group]]:
    """The groups of each page."""
    found = {page: groups(root, name) for page, name in PAGES.items()}
    found["requirements.md"] += check_groups()
    return found


def row_of(id_: str, rows: Mapping[str, Any] | set[str]) -> str | None:
    """The id whose row explains this one: itself, or the requirement that it is a part of."""
    while id_ not in rows:
        shorter, dash, _ = id_.rpartition("-")
        if not dash or not ID.fullmatch(shorter):
            return None
        id_ = shorter
    return id_


# ---- where ids are used ------------------------------------------------------------------------------


def ids_in(text: str) -> list[str]:
    """The ids in a text, including those inside a range."""
    found = ID.findall(text)
    for family, first, last in RANGE.findall(text):
        between = [f"{family}{number}" for number in range(int(first) + 1, int(last))]
        found += [id_ for id_ in between if ID.fullmatch(id_)]
    return found


@cache
def uses(root: Path) -> dict[str, Uses]:
    """Every id of the source and the tests, with its places."""
    found: dict[str, Uses] = {}
    for path in sorted((root / "src" / "sabir").rglob("*.py")):
        for match in ids_in(path.read_text(encoding="utf-8")):
            found.setdefault(match, Uses()).modules.add(path.relative_to(root / "src" / "sabir").as_posix())
    for path in sorted((root / "tests").rglob("*.py")):
        if path.parent == root / "tests" / "suites" / "house":
            continue  # the tests of the pages themselves
        for match, name in _in_tests(path.read_text(encoding="utf-8")):
            found.setdefault(match, Uses()).tests.add((path.relative_to(root / "tests").as_posix(), name))
    for path in sorted((root / "tests").rglob("*.json")):
        for match in ids_in(path.read_text(encoding="utf-8")):
            found.setdefault(match, Uses()).tests.add((path.relative_to(root / "tests").as_posix(), ""))
    return found


def _in_tests(text: str) -> Iterator[tuple[str, str]]:
    """Each id of a test file, with its test ("" outside of tests)."""
    if not ID.search(text):
        return
    owners: dict[int, str] = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            owners |= dict.fromkeys(range(first, (node.end_lineno or first) + 1), node.name)
    for number, line in enumerate(text.splitlines(), start=1):
        for match in ids_in(line):
            yield match, owners.get(number, "")


def used_rows(root: Path, rows: Iterable[str]) -> dict[str, Uses]:
    """The places of each row: those of its id and of its parts."""
    known = set(rows)
    found: dict[str, Uses] = {id_: Uses() for id_ in known}
    for id_, places in uses(root).items():
        row = row_of(id_, known)
        if row is not None:
            found[row].tests |= places.tests
            found[row].modules |= places.modules
    return found


def rows_of_pages(root: Path) -> set[str]:
    """The ids that have a row on the pages on disk."""
    found = set()
    for name in PAGES:
        page = root / "docs" / name
        if page.exists():
            found |= set(re.findall(r"^\| `([^`]+)` \|", page.read_text(encoding="utf-8"), re.MULTILINE))
    return found


def without_a_row(root: Path) -> list[str]:
    """Ids of the source and the tests that no page explains."""
    rows = rows_of_pages(root)
    return sorted((id_ for id_ in uses(root) if row_of(id_, rows) is None), key=in_order)


# ---- the pages ---------------------------------------------------------------------------------------


def pages(root: Path) -> dict[str, str]:
    """Both pages, by their names in ``docs``."""
    found = all_groups(root)
    places = used_rows(root, [row.id for page in found.values() for group in page for row in group.rows])
    return {
        "requirements.md": _requirements(found["requirements.md"], places),
        "decisions.md": _decisions(root, found["decisions.md"], places),
    }


REQUIREMENTS_HEAD = """\
# Requirements

This page explains every requirement id in the source and the tests, for people who work on Sabir. `make docs` generates
it from `docs/data/requirements.toml`, the tests and the source; edit the data, not this page.

Sabir follows several standards and drafts. Each of their requirements has an id, and tests name the ids of the
requirements that they test: search for `CORE-6.2` to find the requirement, its tests and its code. A suffix in lower
case (`CORE-6.2-first`) stands for one case of the requirement. The wording is ours; the column *clause* says where to
read the original. [Decisions](decisions.md) lists what we chose where the sources say nothing or disagree.

In the tables, tests are below `tests/` and code is below `src/sabir/`. Most of the NLIP core is tested by message
vectors (`tests/vectors`), which run over every binding, and by faulty servers that `sabir check` must detect
(`tests/conformance/reference`).

`must`, `should` and `may` are the levels of the source; `info` and `report` come from informative texts. `ours` marks a
check that goes beyond the source ([levels](check.md)).
"""
ARRANGEMENT_HEAD = """\
## How the code is arranged

These are decisions about the code itself. The bold sentence is the decision; the text after it is the reason, often a
problem that the code had before. In the measurements, a *durable* turn is recorded in the store before it is answered;
a *stateless* turn belongs to an agent without memory, and its answer does not wait for the store.
"""
DECISIONS_HEAD = """\
# Decisions

This page explains the choices behind Sabir, for people who work on it: first those about protocols, then
[those about the code](#how-the-code-is-arranged). `make docs` generates it from `docs/data/decisions.toml`, the tests
and the source; edit the data, not this page.

Where a standard says nothing, or two sources disagree, we had to choose. Each choice has an id, which the tests and the
code mention. [Requirements](requirements.md) lists what the standards require. In the tables, *accept* and *read* are
about messages that Sabir receives, and *send* is about its own. Tests are below `tests/`, code is below `src/sabir/`.
"""


def _requirements(found: list[Group], places: Mapping[str, Uses]) -> str:
    pieces = [REQUIREMENTS_HEAD]
    for group in found:
        shown = [row for row in group.rows if places[row.id].tests]
        pieces.append(f"## {group.title}\n\n{group.about}\n")
        if shown:
            head = "| id | level | requirement | clause | tests | code |\n|---|---|---|---|---|---|"
            pieces.append("\n".join([head, *(_requirement(row, places[row.id]) for row in shown)]) + "\n")
    return "\n".join([*pieces, *_not_shown(found, places)])


def _requirement(row: Row, used: Uses) -> str:
    cells = [f"`{row.id}`", row.kind, row.text, row.clause, _tests(used.tests), _modules(used.modules)]
    return _line(cells)


def _decisions(root: Path, found: list[Group], places: Mapping[str, Uses]) -> str:
    pieces = [DECISIONS_HEAD]
    for group in found:
        shown = [row for row in group.rows if places[row.id].tests]
        pieces.append(f"## {group.title}\n\n{group.about}\n")
        head = "| id | question | what we do | tests | code |\n|---|---|---|---|---|"
        lines = [
            _line([f"`{row.id}`", row.clause, row.text, _tests(places[row.id].tests), _modules(places[row.id].modules)])
            for row in shown
        ]
        pieces.append("\n".join([head, *lines]) + "\n")
    pieces += _not_shown(found, places)
    pieces.append(ARRANGEMENT_HEAD)
    for entry in arrangement(root):
        where = ", ".join(f"`{path}`" for path in entry["where"])
        pieces.append(f"**{entry['title']}** {entry['why']} ({where})\n")
    return "\n".join(pieces)


def arrangement(root: Path) -> list[dict[str, Any]]:
    """The decisions about the code itself: a sentence, the reason, and the files."""
    data = tomllib.loads((root / "docs" / "data" / "decisions.toml").read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = data["arrangement"]
    return found


def _not_shown(found: list[Group], places: Mapping[str, Uses]) -> list[str]:
    missing = [row for group in found for row in group.rows if not places[row.id].tests]
    if not missing:
        return []
    head = "| id | clause or question | text | code |\n|---|---|---|---|"
    lines = [_line([f"`{row.id}`", row.clause, row.text, _modules(places[row.id].modules)]) for row in missing]
    return ["## Without a test\n\nNo test mentions these ids yet.\n", "\n".join([head, *lines]) + "\n"]


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(_escaped(cell) for cell in cells) + " |"


def _escaped(cell: str) -> str:
    """Text of a table cell; entities are not read between backticks, so ``<`` stays as it is there."""
    spans = cell.replace("|", "\\|").split("`")
    return "`".join(span if index % 2 else span.replace("<", "&lt;") for index, span in enumerate(spans))


def _tests(found: set[tuple[str, str]]) -> str:
    by_file: dict[str, list[str]] = {}
    for path, name in sorted(found):
        names = by_file.setdefault(path, [])
        if name:
            names.append(name)
    pieces: list[str] = []
    left = MAX_NAMES
    for path, names in by_file.items():
        if left <= 0 and pieces:
            break
        listed = names[:left]
        left -= max(1, len(listed))
        pieces.append(f"{path}: {', '.join(listed)}" if listed else path)
    total = sum(max(1, len(names)) for names in by_file.values())
    more = total - (MAX_NAMES - left)
    return "; ".join(pieces) + (f" and {more} more" if more > 0 else "")


def _modules(found: set[str]) -> str:
    listed = sorted(found)[:MAX_NAMES]
    more = len(found) - len(listed)
    return ", ".join(listed) + (f" and {more} more" if more > 0 else "")


# ---- rows that are not open any more -----------------------------------------------------------------


def stale_open(root: Path) -> list[str]:
    """Rows marked ``open`` that a test now names."""
    rows = [row for page in all_groups(root).values() for group in page for row in group.rows]
    places = used_rows(root, [row.id for row in rows])
    return [row.id for row in rows if row.open and places[row.id].tests]


def unused(root: Path) -> list[str]:
    """Rows that nothing uses, and that are not marked ``open``."""
    rows = [row for page in all_groups(root).values() for group in page for row in group.rows]
    places = used_rows(root, [row.id for row in rows])
    return [row.id for row in rows if not row.open and not places[row.id].tests and not places[row.id].modules]


def close_rows(root: Path) -> None:
    """Remove ``open = true`` from the rows that a test now names."""
    stale = stale_open(root)
    for name in PAGES.values():
        path = root / "docs" / "data" / name
        lines = path.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines):
            if any(line.startswith(f'"{id_}" = ') for id_ in stale):
                lines[number] = line.replace(", open = true", "")
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
