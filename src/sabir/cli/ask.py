"""``sabir ask URL "text"``: send a message to an agent and print its answer.

A conversation continues from one call to the next: its tokens are stored per address in the home folder.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import logging
import mimetypes
import os
import ssl
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from sabir.errors import ConfigError, SabirError, suggestion
from sabir.message import Message, Part, binary_part, json_part, media_of, text_part
from sabir.misfits import NOT_JSON
from sabir.private_files import own_folder
from sabir.protocols.connect import kind_of, place_of_agent, speakers
from sabir.protocols.nlip.peer.base import NlipPeer
from sabir.protocols.nlip.peer.http import NlipHttpPeer
from sabir.protocols.nlip.wire import json as nlip
from sabir.protocols.options import known_options
from sabir.protocols.peer import Identity, Peer, origin_of

from .address import PROGRAM, address_of
from .attachments import save
from .failures import remark
from .printing import readable, say, say_json, show
from .questions import at_terminal
from .receiving import AnswerReceiver
from .refusals import same_for_all
from .seconds import seconds
from .wrapping import wrapped

_SILENT = logging.NullHandler()  # errors are printed once, in the last line of the command
LARGE = 512 * 1024  # bytes; a larger file is uploaded, and the message refers to it


def add(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "SABIR_URL is the default address, so that `sabir ask TEXT` is enough. "
        "SABIR_TOKEN is the API key or token to send. "
        "If the agent asks a question, sabir ask shows it on the terminal and sends your answer."
    )
    parser.add_argument(
        "url",
        metavar="URL",
        nargs="?",
        help="address of the agent, e.g. http://127.0.0.1:8080; or an MCP server to start: 'stdio:python server.py'",
    )
    parser.add_argument("text", metavar="TEXT", nargs="?", help="what to say; - reads it from standard input")
    parser.add_argument("--agent", metavar="NAME", help="the agent to ask (default: the gateway's default agent)")
    parser.add_argument("--file", metavar="F", action="append", default=[], help="attach this file; may be repeated")
    parser.add_argument(
        "--protocol", choices=list(speakers("http")), help="the protocol (default: detected from the address)"
    )
    parser.add_argument(
        "--control", action="store_true", help="send a control message to the gateway (limits, history, policies, …)"
    )
    parser.add_argument(
        "--tool", metavar="NAME", help="call this MCP tool, or this agent, with the arguments of --data"
    )
    parser.add_argument("--data", metavar="JSON", help="arguments for --tool: a JSON object, or @FILE to read one")
    parser.add_argument("--save", metavar="DIR", help="save images, audio and other files of the answer in this folder")
    parser.add_argument("--new", action="store_true", help="start a new conversation")
    parser.add_argument("--stream", action="store_true", help="print the answer as it arrives")
    parser.add_argument("--json", action="store_true", help="print the reply as NLIP JSON")
    parser.add_argument("--trace", action="store_true", help="show the bytes on the wire")
    parser.add_argument("--ca", metavar="FILE", help="trust this certificate (PEM), e.g. .sabir/dev-tls/cert.pem")
    parser.add_argument("--timeout", type=seconds, default=60.0, metavar="S", help="seconds to wait (default 60)")


def run(arguments: argparse.Namespace) -> int:
    logging.getLogger().addHandler(_SILENT)
    return asyncio.run(_ask(arguments))


async def _ask(arguments: argparse.Namespace) -> int:
    url = _place(arguments)
    large = [Path(name) for name in arguments.file if is_large(Path(name))] if url.startswith("http") else []
    message = said(arguments, large)
    make = kind_of(url, arguments.protocol)
    if arguments.control and make.protocol != NlipPeer.protocol:
        raise ConfigError(f"--control is for NLIP: {make.protocol} has no control messages")
    remembered = place_of(url)
    receiving = AnswerReceiver(pieces=arguments.stream and not arguments.json)
    options = connection_options(arguments, url)
    if "answer" in options:
        options["answer"] = receiving.paused(at_terminal)
    async with make(url, **known_options(make, options)) as peer:
        if not arguments.new:
            peer.resume(left_off(remembered))
        try:
            if isinstance(peer, NlipHttpPeer):
                message = message.with_parts([await peer.upload(path, type_of(path), path.name) for path in large])
            if arguments.tool:
                await _check_tool(peer, arguments.tool)
            reply = await receiving.ask(peer, message)
            while "answer" in options and (question := nlip.question_of(reply)) is not None:
                answer = await at_terminal(question)
                if not answer.text:
                    break  # declined: it stays open, and the next `sabir ask` answers it
                reply = await receiving.ask(peer, answer)
        except SabirError as exc:
            raise same_for_all(exc, peer.speaks, peer.address) from None
        finally:
            keep(
                peer, remembered, as_json=arguments.json
            )  # even after a refusal, which may have ended the conversation
    _show(arguments, reply, receiving)
    return 1 if reply.is_error else 0


def _place(arguments: argparse.Namespace) -> str:
    """The address to ask; if SABIR_URL is set, a single argument is the text."""
    given = arguments.url
    is_text = given is not None and "://" not in given and not given.startswith(PROGRAM)
    if arguments.text is None and os.environ.get("SABIR_URL") and is_text:
        arguments.url, arguments.text = None, given  # `sabir ask "Hello"`
    url = address_of(arguments.url)
    if arguments.data is not None and arguments.tool is None:
        raise ConfigError("--data: requires --tool NAME")
    if arguments.tool and arguments.protocol is None and url.startswith("http") and not urlsplit(url).path.strip("/"):
        arguments.protocol = "mcp"  # it has tools, and every gateway supports it
    agent = arguments.agent
    spoken = kind_of(url, arguments.protocol).protocol if arguments.tool else ""
    if spoken == "nlweb":
        raise ConfigError("--tool: NLWeb carries questions and no data; use --protocol mcp, nlip, a2a or acl")
    if agent is None and spoken not in ("", "mcp"):
        agent = arguments.tool  # elsewhere, data goes to an agent
    return place_of_agent(url, agent, arguments.protocol) if agent else url


async def _check_tool(peer: Peer, name: str) -> None:
    """Check that an MCP server has this tool; otherwise the message would go to the tool that takes text.

    Raises:
        ConfigError: it does not; names the nearest.
    """
    listing = getattr(peer, "refresh", None)
    if listing is None:
        return
    await listing()
    tools: dict[str, Any] = getattr(peer, "tools", {})
    if name not in tools:
        raise ConfigError(f"--tool: there is no tool {name!r}; {suggestion(name, tools, 'there are')}")


def _show(arguments: argparse.Namespace, reply: Message, receiving: AnswerReceiver) -> None:
    if arguments.json:
        say_json(nlip.encode(reply))
    elif receiving.began:
        receiving.end(reply)
    else:
        say(wrapped(readable(reply, saving=bool(arguments.save))))
    for path in save(reply, Path(arguments.save)) if arguments.save else ():
        if arguments.json:
            remark(f"Saved {path}", as_json=True)
        else:
            say(f"Saved {path}")


def connection_options(arguments: argparse.Namespace, url: str) -> dict[str, Any]:
    """The options of the peer; each kind takes those it knows."""
    options: dict[str, Any] = {"seconds": arguments.timeout}
    if arguments.trace:
        options["on_wire"] = show
    if os.environ.get("SABIR_TOKEN"):
        options["identities"] = (Identity(service_of(url), f"Bearer {os.environ['SABIR_TOKEN']}", at_once=True),)
    if arguments.ca:
        options["verify"] = trust(arguments.ca)
    if sys.stdin.isatty() and not arguments.json:
        options["answer"] = at_terminal
    return options


def service_of(url: str) -> str:
    """The service that may see our token: one identity serves HTTP and WebSocket."""
    origin = origin_of(url)
    return f"http{origin.removeprefix('ws')}" if origin.startswith("ws") else origin


def is_large(path: Path) -> bool:
    """Whether a file is uploaded instead of being part of the message."""
    try:
        return path.stat().st_size > LARGE
    except OSError as exc:
        raise ConfigError(f"{path}: {exc.strerror}") from exc


def said(arguments: argparse.Namespace, large: list[Path]) -> Message:
    """The message that the arguments describe, without the files that are uploaded."""
    text = arguments.text
    if text == "-":
        text = sys.stdin.read()
    try:
        (text or "").encode()
    except UnicodeEncodeError:  # bytes in another encoding arrive as lone surrogates
        raise ConfigError("the text is not UTF-8") from None
    if text is None and not arguments.file and arguments.tool is None:
        raise ConfigError("nothing to send: give TEXT, - to read standard input, --file or --tool")
    parts = [file_part(Path(name)) for name in arguments.file if Path(name) not in large]
    if arguments.tool is not None:
        parts.insert(0, json_part(data_of(arguments.data), label=arguments.tool))
    first = text_part(text or "") if text is not None or not parts else parts.pop(0)
    return Message.of(first, *parts, messagetype="control" if arguments.control else None)


def data_of(given: str | None) -> dict[str, Any]:
    """The arguments of a tool.

    Raises:
        ConfigError: they are not a JSON object, or the file cannot be read.
    """
    if given is None:
        return {}
    text = given
    if given.startswith("@"):
        try:
            text = Path(given[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as exc:
            raise ConfigError(f"--data: {given[1:]}: {getattr(exc, 'strerror', None) or 'not UTF-8'}") from exc
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except NOT_JSON:
        raise ConfigError("""--data: expected a JSON object, such as '{"town": "Oslo"}'""") from None


def type_of(path: Path) -> str:
    return mimetypes.guess_type(path.name)[0] or "application/octet-stream"


def file_part(path: Path) -> Part:
    """A file as a part: JSON as structured, text as text, everything else as bytes."""
    try:
        data = path.read_bytes()
    except OSError as exc:
        raise ConfigError(f"{path}: {exc.strerror}") from exc
    kind = type_of(path)
    try:
        if kind == "application/json":
            return json_part(msgspec.json.decode(data), label=path.name)
        if kind.startswith("text/"):
            return text_part(data.decode(), label=path.name)
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    media, encoding = media_of(kind)
    return binary_part(data, f"{media}/{encoding}", label=path.name)


def trust(path: str) -> ssl.SSLContext:
    """A TLS context that trusts the certificate in this file, such as one made by ``--dev-tls``."""
    try:
        return ssl.create_default_context(cafile=path)
    except (OSError, ssl.SSLError) as exc:
        raise ConfigError(f"{path}: not a certificate that can be trusted: {exc}") from exc


# -- conversations that go on ---------------------------------------------------------------------


def place_of(url: str) -> Path:
    name = hashlib.sha256(url.rstrip("/").encode()).hexdigest()[:24]
    return Path(os.environ.get("SABIR_HOME") or ".sabir") / "asked" / f"{name}.json"


def left_off(place: Path) -> dict[str, Any]:
    """The stored conversation; empty if it does not exist or cannot be read."""
    try:
        return msgspec.json.decode(place.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError):
        return {}


def keep(peer: Peer, place: Path, *, as_json: bool = False) -> None:
    """Store the conversation for the next call; a failure is only reported, because the answer matters more."""
    try:
        own_folder(place.parent)
        with os.fdopen(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(msgspec.json.encode(peer.export()))
    except OSError as exc:
        remark(f"the conversation cannot be stored in {place.parent}: {exc.strerror}", as_json=as_json)
