"""Writes the generated parts of the documentation; with ``--check``, only reports whether they are up to date."""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
from pathlib import Path

os.environ["COLUMNS"] = "100"  # argparse wraps its help to this width, on every machine

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import requirement_ids

import edge_rules
from sabir import errors
from sabir.cli.failures import CODES, code_of
from sabir.cli.main import COMMANDS, parser
from sabir.conformance.page import page as check_page

ROOT = Path(__file__).resolve().parent.parent

# The modules with a table of codes: the title of each column, and its content.
PROTOCOLS = {
    "sabir.protocols.nlip.wire.json": (
        "NLIP",
        "the HTTP status; over WebSocket and AMQP, the status in an error message",
    ),
    "sabir.protocols.nlweb.wire.responses": ("NLWeb", "the HTTP status, and `error.code` of a `Failure`"),
    "sabir.protocols.mcp.wire.content": (
        "MCP",
        "the code of a JSON-RPC error; if an agent fails, the call has a result with `isError`",
    ),
    "sabir.protocols.a2a.wire.content": (
        "A2A",
        "the code of a JSON-RPC error; HTTP+JSON and gRPC use the statuses of section 5.4 of the specification",
    ),
    "sabir.protocols.acl.wire.reasons": ("ACL", "the act of the answer, its reason, and the HTTP status"),
}


INTRODUCTION = """\
This page describes what all `sabir` commands have in common, and then shows the help of each command. `make docs`
generates it from the commands.

| to … | use |
|---|---|
| start a project, and serve it while you develop | [`init`](#sabir-init), [`dev`](#sabir-dev) |
| run a gateway | [`serve`](#sabir-serve), [`mcp`](#sabir-mcp), [`config`](#sabir-config), [`keys`](#sabir-keys) |
| talk to agents | [`ask`](#sabir-ask), [`chat`](#sabir-chat), [`run`](#sabir-run) |
| list agents and tools | [`agents`](#sabir-agents), [`tools`](#sabir-tools) |
| make a site searchable | [`ingest`](#sabir-ingest), [`sites`](#sabir-sites) |
| test a server | [`check`](#sabir-check), [`bench`](#sabir-bench) |
| maintain state, logs and messages | [`store`](#sabir-store), [`audit`](#sabir-audit), [`bus`](#sabir-bus) |
| use ACL | [`send`](#sabir-send), [`inbox`](#sabir-inbox), [`ide`](#sabir-ide) |
| get tab completion in your shell | [`completion`](#sabir-completion) |

## All commands

**Addresses.** The address of an agent is a URL. You may leave out `http://` (`127.0.0.1:8080`). The address
`stdio:COMMAND` runs the command, an MCP server, and talks to it over standard input and output. The environment
variable `SABIR_URL` is the default address, and `SABIR_TOKEN` is the API key or token to send. With both set,
`sabir ask "Hello"` is enough.

**Output** is for people, unless you add `--json`. Then the result is JSON on standard output. An error is one line on
standard error, `{"error": {"code", "message", "hint"}}` ([codes](errors.md)), and so is a note, `{"note": "…"}`.
Colour, progress and the live status of `serve` appear only on terminals; `NO_COLOR` and `TERM=dumb` turn colour off.
Text from agents is escaped, so that it cannot control your terminal.

**Questions.** If an agent asks a question, `sabir ask` and `sabir chat` show it on the terminal. Choose an option by
its number or name, or several, separated by commas. Answer yes or no with `y` or `n`. Enter skips an optional field,
and Ctrl-D declines to answer. Without a terminal, `sabir ask` prints the question; answer it with another `sabir ask`,
without `--new`.

| exit code | meaning |
|---|---|
| 0 | success |
| 1 | failed: for example, the agent failed, a check found errors, or a file cannot be written |
| 2 | invalid usage or configuration, or a port that is taken; nothing was done |
| 3 | unreachable: no connection, or no answer in time; for `serve`, also: the gateway could not start |
| 4 | refused: no such agent, no access, or a quota is used up |
| 130 | interrupted by Ctrl-C |
"""


def command_line() -> str:
    """The page on the command line: the help of every command, as it prints it."""
    top = parser()
    pieces = [
        "# The command line\n",
        INTRODUCTION,
        f"```text\n{top.format_help().strip()}\n```\n",
    ]
    subcommands = next(action for action in top._actions if isinstance(action, argparse._SubParsersAction))
    for name in COMMANDS:
        help_text = subcommands.choices[name].format_help().strip()
        pieces.append(f"## sabir {name}\n\n```text\n{help_text}\n```\n")
        for action in subcommands.choices[name]._actions:
            if isinstance(action, argparse._SubParsersAction):
                pieces += [f"```text\n{choice.format_help().strip()}\n```\n" for choice in action.choices.values()]
    return "\n".join(pieces)


def errors_page() -> str:
    """The page on errors: every error of the tree, and how each protocol reports it."""
    found = sorted(PROTOCOLS)
    lines = [
        "# Error codes\n",
        "This page shows how each protocol reports each error. It is for people who handle errors in clients.",
        "`make docs` writes it from the table `CODES` of each protocol. The table below has one column for each",
        "protocol:\n",
        *(f"- **{title}**: {about}" for title, about in PROTOCOLS.values()),
        "",
        "An error message says where the problem is and what was expected; it never repeats content or secrets.",
        "If a retry may help, the error says how long to wait (`Retry-After` over HTTP).\n",
        "The column `sabir --json` shows the code that commands print with `--json`, as one line on standard error:",
        '`{"error": {"code", "message", "hint"}}`. Commands also use the codes',
        f"{', '.join(f'`{code}`' for code in CODES[:-1])} and `{CODES[-1]}`. Their exit codes are 1 (failed),",
        "2 (invalid usage or configuration), 3 (unreachable), 4 (refused) and 130 (interrupted).\n",
        f"| error | meaning | `sabir --json` | {' | '.join(PROTOCOLS[name][0] for name in found)} |",
        f"|---|---|---|{'---|' * len(found)}",
    ]
    tables = [importlib.import_module(name).CODES for name in found]
    meanings = dict(re.findall(r"([A-Z]\w+) {2,}(\S.*)", errors.__doc__ or ""))
    for error in errors.tree(errors.SabirError):
        if error.__module__ == "sabir.errors":
            codes = [_written(table[error]) for table in tables]
            meaning = meanings.get(error.__name__, "the base class of all errors")
            lines.append(f"| `{error.__name__}` | {meaning} | `{code_of(error)}` | {' | '.join(codes)} |")
    return "\n".join(lines) + "\n"


def _written(code: object) -> str:
    return " ".join(f"`{value}`" for value in (code if isinstance(code, tuple) else (code,)))


def pages() -> dict[str, str]:
    """Every page that is written from the code, by its name in ``docs``."""
    return {
        "command-line.md": command_line(),
        "check.md": check_page(),
        "edge.md": edge_rules.page(),
        "errors.md": errors_page(),
        **requirement_ids.pages(ROOT),
    }


def main() -> int:
    stale = []
    if "--check" not in sys.argv:
        requirement_ids.close_rows(ROOT)
    for name, text in pages().items():
        path = ROOT / "docs" / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if "--check" not in sys.argv:
            path.write_text(text, encoding="utf-8")
    if stale and "--check" in sys.argv:
        print(f"{', '.join(f'docs/{name}' for name in stale)} not up to date: run make docs")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
