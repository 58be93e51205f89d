"""``sabir chat URL``: talk to an agent in the terminal. Answers stream; Ctrl-C cancels a turn, Ctrl-D ends."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from sabir.errors import ConfigError, MissingExtra, PeerUnavailable, SabirError
from sabir.events import Delta, Fault, Progress, Question, Reply
from sabir.message import CONTROL, Message, Part, text_part
from sabir.observe.logs import inert
from sabir.private_files import own_folder
from sabir.protocols.connect import kind_of, place_of_agent, speakers
from sabir.protocols.nlip.wire import json as nlip
from sabir.protocols.options import known_options
from sabir.protocols.peer import Peer

from .address import address_of
from .ask import connection_options, file_part, keep, left_off, place_of
from .printing import readable, show
from .questions import answer_of
from .receiving import progress_line
from .seconds import seconds

try:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import FileHistory
    from prompt_toolkit.patch_stdout import patch_stdout
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from .streaming import StreamedMarkdown
except ModuleNotFoundError as missing:
    raise MissingExtra("sabir chat", "terminal") from missing

PORTS: Final = {"http": 80, "ws": 80, "https": 443, "wss": 443}
REACH_SECONDS: Final = 10.0
NLIP: Final = "nlip"
QUIT: Final = ("/quit", "/exit")
HELP: Final = """\
/protocol NAME   continue over another protocol: nlip, nlweb, mcp, a2a, acl
/agent NAME      talk to another agent of the gateway
/file PATH       attach a file to your next message
/trace           show the bytes on the wire, or stop showing them
/new             start a new conversation
/history         ask the gateway what was said (NLIP)
/help            show this list
/quit            leave (or press Ctrl-D)

When the agent asks you a question: /cancel declines it, /quit leaves, and anything else is your answer."""
ANSWERING: Final = "/cancel (or Ctrl-D) declines the question, Ctrl-C cancels the turn, /quit leaves."


def add(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "SABIR_URL is the default address; SABIR_TOKEN is the API key or token to send."
    parser.add_argument("url", metavar="URL", nargs="?", help="address of the agent, e.g. http://127.0.0.1:8080")
    parser.add_argument("--agent", metavar="NAME", help="the agent to ask (default: the gateway's default agent)")
    parser.add_argument("--protocol", choices=list(speakers("http")), help="the protocol (default: detected)")
    parser.add_argument("--new", action="store_true", help="start a new conversation")
    parser.add_argument("--trace", action="store_true", help="show the bytes on the wire")
    parser.add_argument("--ca", metavar="FILE", help="trust this certificate (PEM)")
    parser.add_argument("--timeout", type=seconds, default=120.0, metavar="S", help="seconds to wait (default 120)")


def run(arguments: argparse.Namespace) -> int:
    logging.getLogger().addHandler(logging.NullHandler())
    return asyncio.run(Chat(arguments).run())


class Chat:
    """One session at the terminal."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.base = address_of(arguments.url)
        self.protocol: str | None = arguments.protocol
        self.agent: str | None = arguments.agent
        self.trace: bool = arguments.trace
        self.files: list[Part] = []
        self.console = Console(highlight=False)
        self.peer: Peer | None = None
        self._live: Live | None = None  # draws an answer while it arrives
        self._asked = False  # whether the prompt is that of a question
        self._leaving = False  # whether /quit was typed instead of an answer
        self._commands: Mapping[str, Callable[[str], Any]] = {
            "protocol": self._change_protocol,
            "agent": self._change_agent,
            "file": self._attach,
            "trace": self._toggle_trace,
            "new": self._start_new,
            "history": self._history,
            "help": self._help,
        }

    async def run(self) -> int:
        await self._connect(resume=not self.arguments.new)
        await self._reach()
        self._say(f"Connected to {self.base} ({self.peer.speaks if self.peer else ''}). /help lists the commands.")
        prompt: PromptSession[str] = PromptSession(history=FileHistory(str(self._history_file())))
        while True:
            try:
                with patch_stdout():
                    text = (await prompt.prompt_async("> ")).strip()
            except KeyboardInterrupt:
                continue
            except EOFError:
                break
            if text in QUIT:
                break
            if text:
                await self._said(text)
            if self._leaving:
                break
        await self._disconnect()
        return 0

    def _history_file(self) -> Path:
        folder = place_of(self.base).parent
        own_folder(folder)
        return folder / "chat-history"

    def _say(self, text: str) -> None:
        self.console.print(inert(text), style="dim", markup=False)

    # -- the connection ---------------------------------------------------------------------------

    @property
    def url(self) -> str:
        return place_of_agent(self.base, self.agent, self.protocol) if self.agent else self.base

    async def _connect(self, *, resume: bool) -> None:
        make = kind_of(self.url, self.protocol)
        arguments = argparse.Namespace(**{**vars(self.arguments), "trace": False, "json": True})
        options = {**connection_options(arguments, self.url), "answer": self._answered, "on_wire": self._on_wire}
        self.peer = await make(self.url, **known_options(make, options)).__aenter__()
        if resume:
            self.peer.resume(left_off(place_of(self.url)))

    async def _reach(self) -> None:
        """Raises:
        PeerUnavailable: nothing answers at the address.
        """
        parts = urlsplit(self.base)
        if parts.scheme not in PORTS or not parts.hostname:
            return
        try:
            async with asyncio.timeout(REACH_SECONDS):
                _, writer = await asyncio.open_connection(parts.hostname, parts.port or PORTS[parts.scheme])
            writer.close()
        except (OSError, TimeoutError) as exc:
            await self._disconnect()
            raise PeerUnavailable(self.base, "connection refused") from exc

    async def _disconnect(self) -> None:
        if self.peer is not None:
            keep(self.peer, place_of(self.url))
            await self.peer.__aexit__(None, None, None)
            self.peer = None

    async def _again(self, *, resume: bool) -> None:
        await self._disconnect()
        await self._connect(resume=resume)

    def _on_wire(self, direction: str, data: bytes) -> None:
        if self.trace:
            show(direction, data)

    # -- commands ---------------------------------------------------------------------------------

    async def _said(self, text: str) -> None:
        try:
            if text.startswith("/"):
                name, _, rest = text[1:].partition(" ")
                command = self._commands.get(name)
                if command is None:
                    raise ConfigError(f"/{name}: no such command; /help lists them")
                await command(rest.strip())
            else:
                await self._turn(Message.of(text_part(text), *self._taken_files()))
        except SabirError as exc:
            self.console.print(inert(str(exc)), style="red", markup=False)

    def _taken_files(self) -> list[Part]:
        files, self.files = self.files, []
        return files

    async def _change_protocol(self, name: str) -> None:
        known = speakers("http")
        if name not in known:
            raise ConfigError(f"/protocol: expected one of {', '.join(known)}")
        self.protocol = name
        await self._again(resume=True)
        self._say(f"Now over {name}.")

    async def _change_agent(self, name: str) -> None:
        self.agent = name or None
        await self._again(resume=True)
        self._say(f"Now talking to {name or 'the default agent'}.")

    async def _attach(self, name: str) -> None:
        if not name:
            raise ConfigError("/file: expected the path of a file")
        self.files.append(_part_of(name))
        self._say(f"{name} goes along with what you say next.")

    async def _toggle_trace(self, _: str) -> None:
        self.trace = not self.trace
        self._say("The wire is shown." if self.trace else "The wire view is off.")

    async def _start_new(self, _: str) -> None:
        await self._again(resume=False)
        self._say("A new conversation.")

    async def _history(self, _: str) -> None:
        await self._turn(Message.text("Show me the history", messagetype="control"))

    async def _help(self, _: str) -> None:
        self._say(HELP)

    # -- a turn -----------------------------------------------------------------------------------

    async def _turn(self, message: Message) -> None:
        """Ask, and show the answer as it arrives. Ctrl-C cancels the turn and keeps the session."""
        task = asyncio.ensure_future(self._show(message))
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, task.cancel)
        try:
            await task
        except asyncio.CancelledError:
            await self._cancelled()
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    async def _cancelled(self) -> None:
        """Continue after Ctrl-C. An open question would take the next message as its answer."""
        was_asked, self._asked = self._asked, False
        speaks_nlip = self.peer is not None and self.peer.speaks == NLIP
        await self._again(resume=not was_asked or speaks_nlip)
        if was_asked and speaks_nlip and self.peer is not None:
            await self.peer.ask(Message.text("Cancel", messagetype=CONTROL))
        new = was_asked and not speaks_nlip
        self._say("Cancelled. This is a new conversation." if new else "Cancelled.")

    async def _show(self, message: Message) -> None:
        assert self.peer is not None
        reply: Message | None = None
        shown = StreamedMarkdown(self.console)
        with shown.live as self._live:
            try:
                async for event in self.peer.stream(message):
                    match event:
                        case Delta(part) if part.format == "text":
                            shown.add(str(part.content))
                        case Progress():
                            shown.note(progress_line(event))
                        case Question() as question:
                            reply = nlip.question_message(question)
                        case Reply(answered):
                            reply = answered
                        case Fault() as fault:
                            raise fault.error()
                        case _:
                            continue
            finally:
                self._live = None
            asked = nlip.question_of(reply) if reply is not None else None
            if asked is not None:
                shown.drop()
            elif reply is not None:
                shown.end(readable(reply))
        if asked is not None:
            await self._answer_next(asked)

    async def _answer_next(self, question: Question) -> None:
        """Ask the person a question whose answer is the next message, and send it."""
        answer = await answer_of(question, self._read_answer, self._ask_aloud)
        if answer.text and not self._leaving:
            await self._show(answer)
        elif not self._leaving:
            self._say("Not answered: what you say next is taken as the answer.")

    async def _answered(self, question: Question) -> Message:
        """The answer to a question whose asker waits for it, as MCP servers do."""
        live = self._live
        if live is not None:
            live.stop()  # otherwise it would draw over the prompt
        try:
            return await answer_of(question, self._read_answer, self._ask_aloud)
        finally:
            if live is not None and not self._leaving:
                live.update(Text(""))
                live.start()

    def _ask_aloud(self, text: str) -> None:
        self.console.print(inert(text), markup=False)

    async def _read_answer(self, _: str) -> str | None:
        """A line from the person; None if they decline. Commands work here, too."""
        while True:
            self._asked = True
            try:
                text: str = (await PromptSession().prompt_async("answer> ")).strip()
            except EOFError:
                return None
            except KeyboardInterrupt:
                raise asyncio.CancelledError from None
            self._asked = False
            if text == "/cancel":
                return None
            if text in QUIT:
                self._leaving = True
                return None
            if not text.startswith("/"):
                return text
            self._say(ANSWERING)


def _part_of(name: str) -> Part:
    return file_part(Path(name).expanduser())


if not sys.stdout.isatty():
    logging.getLogger("prompt_toolkit").setLevel(logging.ERROR)
