"""``sabir ide FILE --select 3:9 refactor``: what an editor plugin does, from the command line (draft 6)."""

from __future__ import annotations

import argparse
import asyncio
import os
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

from sabir.errors import ConfigError, PeerRefused
from sabir.protocols.acl.peer.messenger import Messenger
from sabir.protocols.acl.wire.envelope import Envelope, plain

from .acl_options import add_options, link_options
from .address import WEB, address_of
from .printing import say, say_json
from .seconds import seconds

REFACTOR = "elizaos:ontology:code/general/refactor_request"
# The request for each command, from the draft.
COMMANDS = {
    "refactor": (
        "refactor_code_snippet",
        "Request for refactoring suggestions for the selected code.",
        "improve readability and performance",
    ),
}
HERE = "http://127.0.0.1:8080/acl"
LANGUAGES = {".py": "python", ".js": "javascript", ".ts": "typescript", ".rs": "rust", ".go": "go", ".java": "java"}


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the source file")
    parser.add_argument("action", metavar="ACTION", choices=list(COMMANDS), help="what to ask for: refactor")
    parser.add_argument(
        "--select", metavar="FROM:TO", help="the first and last line, counted from 1 (default: the whole file)"
    )
    parser.add_argument("--url", help=f"ACL address of a gateway (default: SABIR_URL, or {HERE})")
    parser.add_argument("--agent", default="Jules", help="the agent to ask (default: %(default)s)")
    parser.add_argument("--seconds", type=seconds, default=120.0, help="how long to wait (default: %(default)g)")
    add_options(parser)


def run(arguments: argparse.Namespace) -> int:
    arguments.url = address_of(arguments.url or os.environ.get("SABIR_URL") or HERE, WEB)
    return asyncio.run(_ask(arguments))


def payload_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The payload of the request, verbatim from the draft."""
    task_type, description, outcome = COMMANDS[arguments.action]
    return {
        "task_type": task_type,
        "task_description": description,
        "task_parameters": {
            "code_snippet": selected(Path(arguments.file), arguments.select),
            "programming_language": LANGUAGES.get(Path(arguments.file).suffix, "text"),
            "desired_outcome": outcome,
        },
    }


def selected(path: Path, select: str | None) -> str:
    """The selected lines of a file.

    Raises:
        ConfigError: the file cannot be read, or there are no such lines.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    except OSError as exc:
        raise ConfigError(f"{path}: {exc.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: expected text in UTF-8") from None
    if select is None:
        return "".join(lines)
    first, _, last = select.partition(":")
    if not (first.isdigit() and last.isdigit() and 1 <= int(first) <= int(last) <= len(lines)):
        raise ConfigError(f"--select: expected two lines from 1:1 to {len(lines)}:{len(lines)}, not {select!r}")
    return "".join(lines[int(first) - 1 : int(last)])


async def _ask(arguments: argparse.Namespace) -> int:
    name = f"ide-{os.environ.get('USER', 'somebody')[:20]}-{uuid4().hex[:8]}"
    async with Messenger(arguments.url, name, **link_options(arguments, arguments.url)) as plugin:
        conversation = await plugin.open("TASK_REQUEST", arguments.agent, payload_of(arguments), ontology=REFACTOR)
        last: Envelope | None = None
        async with asyncio.timeout(arguments.seconds):
            async for message in conversation:
                last = message
                if message.performative == "TASK_ACCEPT" and not arguments.json:
                    say(f"TASK_ACCEPT from {message.sender_id}")
    if last is None or last.performative != "INFORM_RESULT":
        payload = last.payload if last is not None else {}
        reason = payload.get("error_text") or payload.get("reason_text") or "it ended without a result"
        raise PeerRefused(arguments.agent, str(reason))
    if arguments.json:
        say_json(msgspec.json.encode(plain(last)))
    else:
        _show(last.payload)
    return 0


def _show(payload: dict[str, Any]) -> None:
    say(payload["result_summary"])
    for number, item in enumerate(payload.get("result_details", {}).get("suggestions", ()), 1):
        confidence = item.get("confidence")
        sure = f" (confidence {confidence:.0%})" if isinstance(confidence, int | float) else ""
        say(f"\n{number}. {item.get('description', '')}{sure}")
        say(item.get("suggested_code_diff", ""))
