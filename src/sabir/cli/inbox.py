"""``sabir inbox URL AGENT``: the inbox of an agent; or a conversation: its messages, its state, its deadlines."""

from __future__ import annotations

import argparse
import asyncio
import sys
from contextlib import aclosing, suppress
from typing import Any, Final

import msgspec

from sabir.errors import ConfigError, PeerUnavailable
from sabir.protocols.acl.peer.link import Link
from sabir.protocols.acl.wire.envelope import Envelope, decode, envelope_of

from .acl_options import add_address, add_options, in_a_line, link_options, moment, settle_address
from .failures import failure_of, report
from .numbers import whole_number
from .printing import say, say_json
from .wrapping import wrapped

_STATES: Final = {"waiting": "waiting for input", "sent": "waiting for a reply", "called": "waiting for a proposal"}
_DUE: Final = {"reply_by": "reply due", "result": "result due", "lease": "lease ends"}


def add(parser: argparse.ArgumentParser) -> None:
    add_address(parser)
    parser.add_argument("agent", metavar="AGENT", nargs="?", help="the agent whose inbox to show")
    parser.add_argument(
        "--conversation", metavar="ID", help="show the messages and the state of this conversation instead"
    )
    parser.add_argument("--follow", action="store_true", help="keep printing new messages, and acknowledge each")
    parser.add_argument(
        "--through", metavar="NUMBER", type=whole_number, help="acknowledge everything up to this number"
    )
    add_options(parser)


def run(arguments: argparse.Namespace) -> int:
    settle_address(arguments, "agent")
    if (arguments.agent is None) == (arguments.conversation is None):
        raise ConfigError("inbox: expected either an AGENT or --conversation ID")
    return asyncio.run(_run(arguments))


async def _run(arguments: argparse.Namespace) -> int:
    link = Link(arguments.url, **link_options(arguments, arguments.url))
    try:
        if arguments.conversation is not None:
            _show_conversation(await link.conversation(arguments.conversation), arguments.json)
        elif arguments.through is not None:
            listed = (await link.waiting(arguments.agent))["messages"]
            numbers = [item["id"] for item in listed if item["id"] <= arguments.through]
            await link.acknowledge_numbers(arguments.agent, numbers)
            if not arguments.json:
                say(f"Acknowledged {len(numbers)} message{'' if len(numbers) == 1 else 's'}.")
        elif arguments.follow:
            await _follow(link, arguments)
        else:
            _show_inbox(await link.waiting(arguments.agent), arguments.json)
    finally:
        await link.close()
    return 0


def _show_inbox(listed: dict[str, Any], as_json: bool) -> None:
    if as_json:
        return say_json(msgspec.json.encode(listed))
    for item in listed["messages"]:
        say(_line(f"{item['id']:>6}  ", envelope_of(item["message"])))
    if not listed["messages"]:
        say(f"Nothing waits for {listed['agent_id']}.")
    if listed.get("dead"):
        say(f"{listed['dead']} dead: see sabir bus dead {listed['agent_id']}")


def _line(before: str, envelope: Envelope) -> str:
    """A message after its number; on a terminal, a long one goes on below its sender."""
    return wrapped(f"{before}{in_a_line(envelope)}", indent=" " * (len(before) + len("00:00:00  ")))


async def _follow(link: Link, arguments: argparse.Namespace) -> None:
    """Print messages until the command is stopped.

    Raises:
        PeerUnavailable: the gateway cannot be reached at the start; later it waits for its return.
    """
    waiting = await link.waiting(arguments.agent)
    if not arguments.json and sys.stderr.isatty():
        say(f"Messages to {waiting['agent_id']}; Ctrl-C stops.", file=sys.stderr)
    last: int | None = None
    while True:
        try:
            async with aclosing(link.events(arguments.agent, last)) as events:
                async for number, data in events:
                    say(data.decode() if arguments.json else _line(f"{number:>6}  ", decode(data)), flush=True)
                    await link.acknowledge_numbers(arguments.agent, [number])
                    last = number
        except PeerUnavailable as exc:
            report(failure_of(exc)._replace(hint="retrying"), as_json=arguments.json)
            await _until_back(link, arguments.agent)


async def _until_back(link: Link, agent: str) -> None:
    while True:
        await asyncio.sleep(1.0)
        with suppress(PeerUnavailable):
            await link.waiting(agent)
            return


def _show_conversation(view: dict[str, Any], as_json: bool) -> None:
    if as_json:
        return say_json(msgspec.json.encode(view))
    say(f"Conversation {view['conversation_id']}")
    for item in view["dialogues"]:
        state = _STATES.get(item["state"], item["state"])
        until = f"; {_DUE[item['waits_for']]} {moment(item['until'])}" if "until" in item else ""
        say(f"  {item['initiator']} and {item['participant']} ({item['protocol']}): {state}{until}")
    for message in view["messages"]:
        say(_line("  ", envelope_of({k: v for k, v in message.items() if k != "at"})))
