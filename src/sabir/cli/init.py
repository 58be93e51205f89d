"""``sabir init [FOLDER]``: three questions, and a project that runs."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from sabir.errors import ConfigError

from .numbers import whole_number
from .printing import say, say_json

MAX_PORT: Final = 65535
KINDS: Final[Mapping[str, str]] = {
    "function": "a Python function",
    "llm": "a language model with tools",
    "site": "a site that can be searched",
}

APP: Final = '''"""{name}: an agent behind every protocol. `sabir dev app.py` serves it and reloads on every change."""

from sabir import agent


@agent(description="{about}")
async def {identifier}(turn):
    """Answers one message; `turn.text` is what was said."""
    return f"You said: {{turn.text}}"
'''

TEST: Final = '''"""`pytest` runs this without a server."""

from sabir.testing import ask_sync

from app import {identifier}


def test_it_repeats_what_it_hears():
    assert "Hi" in ask_sync({identifier}, "Hi").text
'''

FUNCTION_CONFIG: Final = """\
# sabir serve          runs this; sabir dev app.py reloads on every change.
agents:
  - {{id: {id}, use: "app:{identifier}"}}
port: {port}
"""

LLM_CONFIG: Final = """\
# sabir serve   runs this. Set OPENAI_API_KEY, or give base_url of a compatible server (Ollama, vLLM, LM Studio).
agents:
  - id: {id}
    backend: {{type: openai, model: gpt-4o-mini, api_key: "env:OPENAI_API_KEY"}}
    system_message: "{about}"
    tools: ["app:town_time"]
port: {port}
"""

LLM_APP: Final = '''"""Tools of {name}: plain functions. Type hints and docstrings tell the model how to use them."""

from datetime import UTC, datetime


def town_time(offset_hours: int = 0) -> str:
    """The time of day in a town.

    Args:
        offset_hours: how many hours it is ahead of UTC.
    """
    hour = (datetime.now(UTC).hour + offset_hours) % 24
    return f"{{hour:02d}} o'clock"
'''

SITE_CONFIG: Final = """\
# sabir serve     answers questions about the items of the file; feeds, sitemaps, folders and tables work as well.
sites:
  - {{name: {id}, source: items.jsonl}}
port: {port}
"""

SITE_ITEMS: Final[tuple[Mapping[str, str], ...]] = (
    {"name": "Pancakes", "description": "Thin pancakes for four.", "totalTime": "PT20M", "recipeCategory": "Breakfast"},
    {"name": "Pea Soup", "description": "Yellow peas and mustard.", "totalTime": "PT1H", "recipeCategory": "Soup"},
)

STATE_IGNORED = "# The state of the gateway, with the secret that seals its tokens.\n.sabir/\n"


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder", metavar="FOLDER", nargs="?", default=".", help="folder for the project (default: the current folder)"
    )
    parser.epilog = (
        "If you leave out the name, the kind or the port, the command asks for it. Without a terminal, and with "
        "--json, it takes the default: the name of the folder, function, 8080."
    )
    parser.add_argument("--name", help="name of the agent")
    parser.add_argument("--kind", choices=list(KINDS), help="kind of agent: a function, a language model or a site")
    parser.add_argument("--port", type=whole_number, help="port to serve on")
    parser.add_argument("--json", action="store_true", help="print the names of the new files as JSON")


def run(arguments: argparse.Namespace) -> int:
    folder = Path(arguments.folder)
    may_ask = sys.stdin.isatty() and not arguments.json
    name = arguments.name or _asked("What is the agent called?", folder.name or "helper", may_ask=may_ask)
    kind = arguments.kind or _chosen(may_ask=may_ask)
    port = arguments.port
    if port is None:
        port = int(_asked("Which port?", "8080", "a number", str.isdecimal, may_ask=may_ask))
    if not 1 <= port <= MAX_PORT:
        raise ConfigError(f"port: expected a number from 1 to {MAX_PORT}, not {port}")
    files = files_of(name, kind, port)
    taken = [path for path in files if (folder / path).exists()]
    if taken:
        raise ConfigError(f"{folder / taken[0]} already exists; choose another folder: sabir init FOLDER")
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / ".gitignore").exists():
        files[".gitignore"] = STATE_IGNORED
    for path, text in files.items():
        (folder / path).write_text(text, encoding="utf-8")
    if arguments.json:
        made = {"folder": str(folder), "files": [str(folder / path) for path in files], "port": port}
        say_json(json.dumps(made).encode())
        return 0
    for path in files:
        say(f"  {folder / path}")
    say(next_steps(folder, kind, port))
    return 0


def files_of(name: str, kind: str, port: int) -> dict[str, str]:
    """The files of a new project, by name."""
    slug = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-_.").lower() or "helper"
    identifier = re.sub(r"\W", "_", slug)
    if not identifier.isidentifier():
        identifier = f"agent_{identifier}"
    values = {"name": name, "id": slug, "identifier": identifier, "port": port, "about": f"I am {name}. I help."}
    if kind == "llm":
        return {"sabir.yaml": LLM_CONFIG.format(**values), "app.py": LLM_APP.format(**values)}
    if kind == "site":
        return {"sabir.yaml": SITE_CONFIG.format(**values), "items.jsonl": _items(slug)}
    return {
        "sabir.yaml": FUNCTION_CONFIG.format(**values),
        "app.py": APP.format(**values),
        "test_app.py": TEST.format(**values),
    }


def _items(slug: str) -> str:
    lines = []
    for item in SITE_ITEMS:
        url = f"https://{slug}.example/{item['name'].lower().replace(' ', '-')}"
        lines.append(json.dumps({"@type": "Recipe", "@id": url, "url": url, **item}))
    return "\n".join(lines) + "\n"


def next_steps(folder: Path, kind: str, port: int) -> str:
    change = "" if str(folder) == "." else f"  cd {shlex.quote(str(folder))}\n"
    first = {
        "function": f"  sabir dev app.py --port {port}    # serves it, and reloads on every change\n",
        "llm": "  export OPENAI_API_KEY=…    # or give another backend in sabir.yaml\n  sabir serve\n",
        "site": "  sabir serve\n",
    }[kind]
    return f"\nNext:\n{change}{first}  sabir chat http://127.0.0.1:{port}"


def _chosen(*, may_ask: bool) -> str:
    if not may_ask:
        return next(iter(KINDS))
    say("What kind of agent?")
    names = list(KINDS)
    for number, (name, about) in enumerate(KINDS.items(), 1):
        say(f"  {number}. {name}: {about}")
    known = {*names, *map(str, range(1, len(names) + 1))}
    given = _asked("Choose", "1", f"1 to {len(names)}", known.__contains__, may_ask=may_ask)
    return names[int(given) - 1] if given.isdecimal() else given


def _asked(
    question: str, default: str, expected: str = "a name", holds: Callable[[str], bool] = bool, *, may_ask: bool
) -> str:
    """What a person types; the default if nobody can be asked."""
    if not may_ask:
        return default
    while True:
        answer = input(f"{question} [{default}] ").strip() or default
        if holds(answer):
            return answer
        say(f"  expected {expected}")
