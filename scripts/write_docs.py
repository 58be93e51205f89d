"""Writes the generated parts of the documentation; with ``--check``, only says whether they are up to date."""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
from pathlib import Path

os.environ["COLUMNS"] = "100"  # argparse wraps its help to this, on every machine alike

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import requirement_ids

import edge_rules
from sabir import errors
from sabir.cli.failures import CODES, code_of
from sabir.cli.main import COMMANDS, parser
from sabir.conformance.page import page as check_page

ROOT = Path(__file__).resolve().parent.parent

# The modules with a table of codes: the title of each column, and what stands in it.
PROTOCOLS = {
    "sabir.protocols.nlip.wire.json": (
        "NLIP",
        "the HTTP status; over WebSocket and AMQP a message with `messagetype: error`",
    ),
    "sabir.protocols.nlweb.wire.responses": ("NLWeb", "the HTTP status, and `error.code` of a `Failure`"),
    "sabir.protocols.mcp.wire.content": (
        "MCP",
        "the code of a JSON-RPC error; a failing agent is a result with `isError`",
    ),
    "sabir.protocols.a2a.wire.content": (
        "A2A",
        "the code of a JSON-RPC error; HTTP+JSON and gRPC use the status of section 5.4",
    ),
    "sabir.protocols.acl.wire.reasons": ("ACL", "the act that answers, its reason, and the HTTP status beside it"),
}


INTRODUCTION = """\
**Addresses.** Every command that asks takes a URL; a scheme is not needed (`127.0.0.1:8080`), and `stdio:COMMAND`
starts an MCP server. `SABIR_URL` is the default address, `SABIR_TOKEN` the API key or token to send: with both set,
`sabir ask "Hello"` is enough.

**Output.** For people by default. Colour, progress and the live status of `serve` appear on terminals only;
`NO_COLOR` and `TERM=dumb` turn colour off. `--json` works with every command: the result is JSON on standard
output, and a failure is one line on standard error, `{"error": {"code", "message", "hint"}}` ([codes](errors.md)).
Text from other people is escaped, so that it cannot control your terminal.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | failed: the agent failed, a check found errors, a file cannot be written |
| 2 | invalid usage or configuration; nothing was done |
| 3 | unreachable: no connection, or no answer in time |
| 4 | refused: no such agent, no right, a quota is used up |
| 130 | interrupted by Ctrl-C |

**Completion.** `eval "$(sabir completion bash)"` in `~/.bashrc`; the same with `zsh` in `~/.zshrc`; `sabir
completion fish > ~/.config/fish/completions/sabir.fish` once.

**Questions of an agent** are asked in place on a terminal, over every protocol: choices by number or word, yes or
no by `y` and `n`, several with commas; Enter skips what is optional, Ctrl-D declines. Without a terminal the
question is printed, and the next `sabir ask` in the same conversation answers it.
"""


def command_line() -> str:
    """The page on the command line: the help of every command, as it prints it."""
    top = parser()
    pieces = [
        "# The command line\n",
        "Written by `make docs` from the commands themselves.\n",
        INTRODUCTION,
        f"```text\n{top.format_help().strip()}\n```\n",
    ]
    subcommands = next(action for action in top._actions if isinstance(action, argparse._SubParsersAction))
    for name, about in COMMANDS.items():
        help_text = subcommands.choices[name].format_help().strip()
        pieces.append(f"## sabir {name}\n\n{about}\n\n```text\n{help_text}\n```\n")
        for action in subcommands.choices[name]._actions:
            if isinstance(action, argparse._SubParsersAction):
                pieces += [f"```text\n{each.format_help().strip()}\n```\n" for each in action.choices.values()]
    return "\n".join(pieces)


def errors_page() -> str:
    """The page on errors: every error of the tree, and how each protocol reports it."""
    found = sorted(PROTOCOLS)
    lines = [
        "# Error codes\n",
        "Written by `make docs` from the tables (`CODES`) of the protocols. Every protocol reports every error:\n",
        *(f"- **{title}**: {about}" for title, about in PROTOCOLS.values()),
        "",
        "An error message says where the problem is and what was expected; it never repeats content or secrets.",
        "Errors that a retry may cure carry the time to wait (`Retry-After` over HTTP).\n",
        "`sabir` commands exit with 1 (failed), 2 (invalid usage or configuration), 3 (unreachable), 4 (refused) or",
        "130 (interrupted). With `--json`, a failure is one line on standard error:",
        '`{"error": {"code", "message", "hint"}}`. Its code is in the table, or is',
        f"{', '.join(f'`{code}`' for code in CODES[:-1])} or `{CODES[-1]}`.\n",
        f"| error | meaning | `sabir --json` | {' | '.join(PROTOCOLS[name][0] for name in found)} |",
        f"|---|---|---|{'---|' * len(found)}",
    ]
    tables = [importlib.import_module(name).CODES for name in found]
    meanings = dict(re.findall(r"([A-Z]\w+) {2,}(\S.*)", errors.__doc__ or ""))
    for error in errors.tree(errors.SabirError):
        if error.__module__ == "sabir.errors":
            codes = [_written(table[error]) for table in tables]
            meaning = meanings.get(error.__name__, "the root of all errors")
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
