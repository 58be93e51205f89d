"""``sabir inbox URL AGENT``: what waits for an agent; or a conversation: who said what, its state, until when."""

from __future__ import annotations

import argparse
import asyncio
from contextlib import aclosing, suppress
from typing import Any

import msgspec

from sabir.errors import ConfigError, PeerUnavailable
from sabir.protocols.acl.peer.link import Link
from sabir.protocols.acl.wire.envelope import decode, envelope_of

from .acl_options import add_options, in_a_line, link_options
from .printing import say, say_json


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="address of the ACL door, e.g. http://127.0.0.1:8080/acl")
    parser.add_argument("agent", metavar="AGENT", nargs="?", help="whose inbox")
    parser.add_argument("--conversation", metavar="ID", help="show a conversation instead")
    parser.add_argument("--follow", action="store_true", help="keep printing new messages, and acknowledge each")
    parser.add_argument("--through", metavar="NUMBER", type=int, help="acknowledge everything up to this number")
    add_options(parser)


def run(arguments: argparse.Namespace) -> int:
    if (arguments.agent is None) == (arguments.conversation is None):
        raise ConfigError("inbox: give an AGENT, or --conversation ID")
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
        elif arguments.follow:
            await _follow(link, arguments)
        else:
            _show_inbox(await link.waiting(arguments.agent), arguments.json)
    finally:
        await link.close()
    return 0


def _show_inbox(told: dict[str, Any], as_json: bool) -> None:
    if as_json:
        return say_json(msgspec.json.encode(told))
    for item in told["messages"]:
        say(f"{item['id']:>6}  {in_a_line(envelope_of(item['message']))}")
    if not told["messages"]:
        say(f"Nothing waits for {told['agent_id']}.")
    if told.get("dead"):
        say(f"{told['dead']} dead: see sabir bus dead {told['agent_id']}")


async def _follow(link: Link, arguments: argparse.Namespace) -> None:
    last: int | None = None
    while True:
        with suppress(PeerUnavailable):  # the stream was lost; it goes on where it was
            async with aclosing(link.events(arguments.agent, last)) as events:
                async for number, data in events:
                    say(data.decode() if arguments.json else f"{number:>6}  {in_a_line(decode(data))}", flush=True)
                    await link.acknowledge_numbers(arguments.agent, [number])
                    last = number
        await asyncio.sleep(1.0)


def _show_conversation(view: dict[str, Any], as_json: bool) -> None:
    if as_json:
        return say_json(msgspec.json.encode(view))
    say(f"Conversation {view['conversation_id']}")
    for item in view["dialogues"]:
        until = f", waits for {item['waits_for']} until {item['until']}" if "until" in item else ""
        say(f"  {item['initiator']} with {item['participant']} ({item['protocol']}): {item['state']}{until}")
    for message in view["messages"]:
        say(f"  {in_a_line(envelope_of({k: v for k, v in message.items() if k != 'at'}))}")
