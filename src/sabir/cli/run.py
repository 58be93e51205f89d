"""``sabir run CONFIG "question"``: ask the agents of a configuration, without serving them."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from typing import Final, TextIO

from sabir.agents.ensemble import Ensemble
from sabir.config.build import gateway_of
from sabir.config.load import file_of, load
from sabir.errors import ConfigError, TurnFailed
from sabir.events import Delta, Event, Progress, Question, Reply
from sabir.exchange.request import EventSink, TurnRequest
from sabir.gateway.gateway import Gateway
from sabir.guard import Credentials
from sabir.message import Message
from sabir.protocols import registry
from sabir.protocols.nlip.wire import json as nlip
from sabir.turn import Caller, Journal

from .live_view import LiveView, WatchedJournal
from .printing import readable, say, say_json
from .questions import at_terminal
from .seconds import seconds
from .serve import set_up_logging

_CALLER: Final = Caller(id="local", kind="local", name="this machine")
DOOR: Final = "run"


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", metavar="CONFIG", help="configuration file, such as sabir.yaml")
    parser.add_argument("text", metavar="QUESTION", help="what to ask; - reads it from standard input")
    parser.add_argument("--agent", metavar="NAME", help="the agent to ask (default: the default agent of the file)")
    parser.add_argument(
        "--answer",
        metavar="TEXT",
        action="append",
        default=[],
        help="the answer to the agent's next question; may be repeated",
    )
    parser.add_argument("--home", metavar="DIR", help="folder to keep state in (default: none is kept)")
    parser.add_argument("--quiet", action="store_true", help="do not show what the members of an ensemble do")
    parser.add_argument("--json", action="store_true", help="print the reply as NLIP JSON")
    parser.add_argument("--timeout", type=seconds, metavar="S", help="seconds to wait (default: as configured)")
    parser.add_argument(
        "--log-level",
        choices=["debug", "info", "warning", "error"],
        default="error",
        help="how much to log (default error)",
    )


def run(arguments: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory(prefix="sabir-run-") as folder:
        flags = {
            "home": arguments.home or folder,
            "log": {"level": arguments.log_level},
            "doors": dict.fromkeys(registry.doors(), False),  # closed: nothing is served
        }
        settings = load(arguments.config, flags=flags)
        set_up_logging(settings)
        gateway = gateway_of(settings, file_of(arguments.config))
        return asyncio.run(_run(gateway, arguments))


async def _run(gateway: Gateway, arguments: argparse.Namespace) -> int:
    await gateway.start()
    try:
        name = arguments.agent or gateway.exchange.default
        if name not in gateway.agents:
            raise ConfigError(f"there is no agent {name!r}; choose from {', '.join(gateway.agents)}")
        question = sys.stdin.read() if arguments.text == "-" else arguments.text
        reply = await _Asking(gateway, name, arguments).reply(Message.text(question))
    finally:
        await gateway.stop()
    if arguments.json:
        say_json(nlip.encode(reply))
    return 1 if reply.is_error else 0


class _Asking:
    """One question to one agent, and what is shown while it works."""

    def __init__(self, gateway: Gateway, name: str, arguments: argparse.Namespace) -> None:
        self._gateway = gateway
        self._name = name
        self._json: bool = arguments.json
        self._seconds: float | None = arguments.timeout
        self._answers: list[str] = list(arguments.answer)
        self._shown: TextIO | None = None if arguments.quiet else sys.stderr
        self._reply: Message | None = None
        self._began = False  # whether parts of the answer have been printed
        self._sink = EventSink(self._take)

    async def reply(self, message: Message) -> Message:
        """Ask, print, and return the reply.

        Raises:
            SabirError: the agent failed, or its question cannot be answered.
        """
        members = self._members()
        if members and self._shown is not None:
            exchange = self._gateway.exchange
            view = self._view(members)
            view.start()
            exchange.journal = _PanelJournal(exchange.journal, view, self._sink)
        credentials = Credentials(caller=_CALLER)
        await self._gateway.exchange.ask(
            TurnRequest(message, DOOR, self._name, credentials, seconds=self._seconds), self._sink
        )
        if self._reply is None:
            raise TurnFailed(f"{self._name} ended without a reply")
        return self._reply.without_tokens()

    def _members(self) -> list[str]:
        agent = self._gateway.agents[self._name]
        return [member.card.name for member in agent.members] if isinstance(agent, Ensemble) else []

    def _view(self, members: list[str]) -> LiveView:
        out = self._shown or sys.stderr
        return LiveView(members, out, redraws=out.isatty())

    async def _take(self, event: Event) -> None:
        match event:
            case Delta(part) if part.format == "text" and not self._json:
                say(part.content, end="", flush=True)
                self._began = True
            case Progress(_, note) if note and self._shown is not None and not self._members() and not self._began:
                say(f"  {note}", file=self._shown, flush=True)
            case Question():
                self._sink.answer(await self._answer(event))
            case Reply(message):
                self._reply = message
                if not self._json:
                    say("" if self._began else readable(message.without_tokens()))
            case _:
                pass

    async def _answer(self, question: Question) -> Message:
        if self._answers:
            return Message.text(self._answers.pop(0))
        if sys.stdin.isatty() and not self._json:
            return await at_terminal(question)
        raise TurnFailed(f"{self._name} asks: {question.text} (give --answer)")


class _PanelJournal(WatchedJournal):
    """Shows the panel of the turn itself, and none of nested ones."""

    def __init__(self, journal: Journal, view: LiveView, sink: EventSink) -> None:
        super().__init__(journal, {})
        self._view = view
        self._sink = sink

    async def append(self, turn: str, entry: bytes) -> None:
        if not self.views and self._sink.turn is not None:
            self.views[self._sink.turn.id] = self._view
        await super().append(turn, entry)
