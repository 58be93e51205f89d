"""The page that lists every check, generated from the checks."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

from . import acl, nlip_http, nlip_ws, nlweb
from .base import LEVELS, Check

HEAD: Final = """\
# What `sabir check` checks

`sabir check URL` tests any NLIP server against the standard, clause by clause; the server need not be Sabir. This page
lists every check, for people who write servers. `make docs` writes it from the checks themselves.

<!-- run after: sabir serve & -->
```sh
sabir check http://127.0.0.1:8080                       # NLIP; --evidence shows the bytes of what failed
sabir check http://127.0.0.1:8080 --protocol nlweb      # NLWeb; or acl
```

MCP and A2A have official suites ([MCP](mcp.md#conformance), [A2A](a2a.md#the-official-tck)).

| level | source |
|---|---|
| `must` | a *must* or *shall* of the standard; for ACL, also what agents need to understand each other |
| `should` | a *should* of the standard |
| `ours` | a decision of this project, or our reading of a clause; it counts only with `--level ours` |

A clause such as `W-3` or `A-9` is the id of a [decision](decisions.md).

A check ends as **passed**, **failed**, **skipped** (it does not apply to this server, or cannot be seen from outside)
or **declined** (the server refused by policy: HTTP 401, 403, or 429 repeatedly). The exit code is 1 if a check
of the chosen level (`--level`, by default `should`) or of a stricter one failed, and 3 if nothing answers at the
address.

First, `sabir check` sends a plain hello. If the agent behind the server fails to answer it, the checks stop and show
the error, because every check would fail for the same reason. With `--json`, the reason is in `stopped`.

Answers are read leniently, so that one fault fails only one check. Checks whose id ends in `-sent` judge the form of
the answers, and those that end in `-words` judge what they say. Checks whose id ends in `-not` send something that a
server should reject.

The suite itself is tested with a correct server and about 320 copies of it with one fault each
(`tests/conformance/reference`). Each fault must be found by the checks of the clause it breaks, and by no others.
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
        "ACL": acl.SUITE.checks,
    }
    shared = [check for check in nlip_ws.SUITE.checks if id(check.run) in over_http]
    for title, checks in suites.items():
        pieces.append(f"## {title}\n")
        if title.startswith(("NLIP over WebSocket", "NLIP over AMQP")):
            pieces.append(
                f"{len(shared)} of the checks above do not depend on HTTP, among them all `CORE-…` checks. "
                "They run here as well.\n"
            )
        pieces.append(_table(checks))
    return "\n".join(pieces)


def _table(checks: Iterable[Check[Any]]) -> str:
    """One row per clause: its level, and what its checks test."""
    rows: dict[tuple[str, str], list[str]] = {}
    clauses: dict[str, str] = {}
    for check in checks:
        rows.setdefault((check.id, check.level), []).append(check.title)
        clauses[check.id] = check.clause
    order: Mapping[str, int] = {level: number for number, level in enumerate(LEVELS)}
    lines = ["| id | clause | level | what is checked |", "|---|---|---|---|"]
    for (id_, level), titles in sorted(rows.items(), key=lambda row: order[row[0][1]]):
        said = "; ".join(title.replace("|", "\\|").replace("<", "&lt;") for title in _joined(titles))
        lines.append(f"| `{id_}` | {clauses[id_]} | {level} | {said} |")
    return "\n".join(lines) + "\n"


def _joined(titles: list[str]) -> list[str]:
    """The titles; those that send something as the first and as a further submessage are one."""
    first, further = " as the first submessage is accepted", " as a further submessage is accepted"
    names = [title.removesuffix(first) for title in titles if title.endswith(first)]
    others = [title for title in titles if not title.endswith((first, further))]
    if not names:
        return others
    return [f"accepted as the first and as a further submessage: {'; '.join(names)}", *others]
