"""The page that lists every check, written from the checks themselves."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

from . import nlip_http, nlip_ws, nlweb
from .base import LEVELS, Check

HEAD: Final = """\
# What `sabir check` checks

Written by `make docs` from the checks themselves.

`sabir check URL` tests anybody's server against the NLIP standard, clause by clause, and shows the bytes of what failed
(`--evidence`). `sabir check URL --protocol nlweb` does the same for NLWeb. MCP and A2A have official suites
([MCP](mcp.md), [A2A](a2a.md)).

| level | whose demand it is |
|---|---|
| `must` | the standard's *must* or *shall* |
| `should` | the standard's *should* |
| `ours` | a decision of this project where the standard is silent; it does not count unless `--level ours` says so |

A check ends as **passed**, **failed**, **skipped** (it does not apply to this server, or cannot be seen from outside)
or **declined** (the server refused by policy: HTTP 401, 403, or 429 for too long). The exit code is 1 when a check of
the chosen level failed, 3 when nothing answers at the address.

Before the checks a plain hello is sent. If the agent behind the server fails at that, the checks stop with its words:
every check would fail for the same reason, and none of them would be about the protocol. `--json` then has the reason
in `stopped`.

Answers are read tolerantly, so that one fault fails one check. The checks whose id ends in `-sent` judge the shape
of the answers themselves; those that end in `-not` send what no server should take for a message.

The suite is itself under test: `tests/conformance/reference` has a server of independent code that is right, and about
260 copies of it with one fault each. Every fault must be found by the clause it breaks, and by no other.
"""


def page() -> str:
    """The whole page."""
    amqp = importlib.import_module("sabir.conformance.nlip_amqp")
    over_http = {id(check.run) for check in nlip_http.SUITE.checks}
    pieces = [HEAD]
    suites: dict[str, Iterable[Check[Any]]] = {
        "NLIP over HTTP (ECMA-430, ECMA-431)": nlip_http.SUITE.checks,
        "NLIP over WebSocket (ECMA-432)": [c for c in nlip_ws.SUITE.checks if id(c.run) not in over_http],
        "NLIP over AMQP (draft of ECMA-433)": [c for c in amqp.SUITE.checks if id(c.run) not in over_http],
        "NLWeb": nlweb.SUITE.checks,
    }
    shared = [check for check in nlip_ws.SUITE.checks if id(check.run) in over_http]
    for title, checks in suites.items():
        pieces.append(f"## {title}\n")
        if title.startswith(("NLIP over WebSocket", "NLIP over AMQP")):
            pieces.append(f"The checks of the core above ({len(shared)} of them) run over this binding as well.\n")
        pieces.append(_table(checks))
    return "\n".join(pieces)


def _table(checks: Iterable[Check[Any]]) -> str:
    """One row for each clause: its level, and what its checks look at."""
    rows: dict[tuple[str, str], list[str]] = {}
    clauses: dict[str, str] = {}
    for check in checks:
        rows.setdefault((check.id, check.level), []).append(check.title)
        clauses[check.id] = check.clause
    order: Mapping[str, int] = {level: number for number, level in enumerate(LEVELS)}
    lines = ["| id | clause | level | what is checked |", "|---|---|---|---|"]
    for (id_, level), titles in sorted(rows.items(), key=lambda row: order[row[0][1]]):
        said = "; ".join(title.replace("|", "\\|").replace("<", "&lt;") for title in titles)
        lines.append(f"| `{id_}` | {clauses[id_]} | {level} | {said} |")
    return "\n".join(lines) + "\n"
