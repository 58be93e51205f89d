"""Writes the generated parts of the documentation; with ``--check``, only says whether they are up to date."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

os.environ["COLUMNS"] = "100"  # argparse wraps its help to this, on every machine alike

from sabir.cli.main import COMMANDS, parser

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "command-line.md"


def command_line() -> str:
    """The page on the command line: the help of every command, as it prints it."""
    top = parser()
    pieces = [
        "# The command line\n",
        "Written by `make docs` from the commands themselves.\n",
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


def main() -> int:
    text = command_line()
    if "--check" in sys.argv:
        if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
            return 0
        print("docs/command-line.md is not up to date: run make docs")
        return 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
