"""``sabir ask URL "text"``: say something to an agent and print what it answers.

A conversation continues from one call to the next: its tokens are kept per address in the home folder.
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

import msgspec

from sabir.errors import ConfigError, SabirError
from sabir.events import Delta, Fault, Question, Reply
from sabir.message import Message, Part, binary_part, json_part, media_of, text_part
from sabir.private_files import own_folder
from sabir.protocols.connect import kind_of, place_of_agent, speakers
from sabir.protocols.nlip.peer.base import NlipPeer
from sabir.protocols.nlip.peer.http import NlipHttpPeer
from sabir.protocols.nlip.wire import json as nlip
from sabir.protocols.options import known_options
from sabir.protocols.peer import Identity, Peer, origin_of

from .address import address_of
from .printing import readable, say, say_json, show, unsaid
from .refusals import same_for_all

_UNHEARD = logging.NullHandler()  # what goes wrong is told once, in the line that the command ends with
LARGE = 512 * 1024  # bytes; a larger file is uploaded, and the message refers to it


def add(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "SABIR_TOKEN is the API key or token to send, if the server requires one."
    parser.add_argument(
        "url",
        metavar="URL",
        nargs="?",
        help="address of the agent, e.g. http://127.0.0.1:8080; or an MCP server to start: 'stdio:python server.py'",
    )
    parser.add_argument("text", metavar="TEXT", nargs="?", help="what to say; - reads it from standard input")
    parser.add_argument("--agent", metavar="NAME", help="which agent (default: the gateway's default agent)")
    parser.add_argument(
        "--file", metavar="F", action="append", default=[], help="send this file along; may be repeated"
    )
    parser.add_argument(
        "--protocol", choices=list(speakers("http")), help="the protocol (default: detected from the address)"
    )
    parser.add_argument(
        "--control", action="store_true", help="send a control message to the gateway (limits, history, policies, …)"
    )
    parser.add_argument("--new", action="store_true", help="start a new conversation")
    parser.add_argument("--stream", action="store_true", help="print the answer as it arrives")
    parser.add_argument("--json", action="store_true", help="print the reply as NLIP JSON")
    parser.add_argument("--trace", action="store_true", help="show the bytes on the wire")
    parser.add_argument("--ca", metavar="FILE", help="trust this certificate (PEM), e.g. .sabir/dev-tls/cert.pem")
    parser.add_argument("--timeout", type=float, default=60.0, metavar="S", help="seconds to wait (default 60)")


def run(arguments: argparse.Namespace) -> int:
    logging.getLogger("sabir").addHandler(_UNHEARD)
    return asyncio.run(_ask(arguments))


async def _ask(arguments: argparse.Namespace) -> int:
    if arguments.text is None and os.environ.get("SABIR_URL") and not arguments.file:
        arguments.url, arguments.text = None, arguments.url  # `sabir ask "Hello"`: the address is in the variable
    url = address_of(arguments.url)
    if arguments.agent:
        url = place_of_agent(url, arguments.agent, arguments.protocol)
    large = [Path(name) for name in arguments.file if is_large(Path(name))] if url.startswith("http") else []
    message = said(arguments, large)
    make = kind_of(url, arguments.protocol)
    if arguments.control and make.protocol != NlipPeer.protocol:
        raise ConfigError(f"--control is for NLIP: {make.protocol} has no control messages")
    remembered = place_of(url)
    async with make(url, **known_options(make, connection_options(arguments, url))) as peer:
        if not arguments.new:
            peer.resume(left_off(remembered))
        try:
            if isinstance(peer, NlipHttpPeer):
                message = message.with_parts([await peer.upload(path, type_of(path), path.name) for path in large])
            reply = await (_stream(peer, message) if arguments.stream else peer.ask(message))
        except SabirError as exc:
            raise same_for_all(exc, peer.speaks, peer.address) from None
        finally:
            keep(peer, remembered)  # also after a refusal, which may have ended something
    if arguments.json:
        say_json(nlip.encode(reply))
    elif not arguments.stream:
        say(readable(reply))
    return 1 if reply.is_error else 0


def connection_options(arguments: argparse.Namespace, url: str) -> dict[str, Any]:
    """How to call; each kind of peer takes what it knows."""
    options: dict[str, Any] = {"seconds": arguments.timeout}
    if arguments.trace:
        options["on_wire"] = show
    if os.environ.get("SABIR_TOKEN"):
        options["identities"] = (Identity(service_of(url), f"Bearer {os.environ['SABIR_TOKEN']}", at_once=True),)
    if arguments.ca:
        options["verify"] = trust(arguments.ca)
    if sys.stdin.isatty() and not arguments.json:
        options["answer"] = answered
    return options


def service_of(url: str) -> str:
    """The service that may see our token: one identity serves HTTP and WebSocket."""
    origin = origin_of(url)
    return f"http{origin.removeprefix('ws')}" if origin.startswith("ws") else origin


async def _stream(peer: Any, message: Message) -> Message:
    reply = Message.text("")
    began = False
    async for event in peer.stream(message):
        if isinstance(event, Fault):
            raise event.error()
        if isinstance(event, Delta) and event.part.format == "text":
            say(event.part.content, end="", flush=True)
            began = True
        elif isinstance(event, Question):
            reply = nlip.question_message(event)  # over NLIP a Reply follows that says the same
        elif isinstance(event, Reply):
            reply = event.message
    say("\n".join(["", *unsaid(reply)]) if began else readable(reply))
    return reply


async def answered(question: Question) -> Message:
    """What the person at the terminal says to a question that must be answered while its asker waits."""
    say(question.text, file=sys.stderr)
    if not question.fields:
        return Message.text(await asyncio.to_thread(typed, "> "))
    values: dict[str, Any] = {}
    for field in question.fields:
        options = f" ({', '.join(field.options)})" if field.options else ""
        about = field.text if field.text != question.text else field.id
        words = await asyncio.to_thread(typed, f"{about}{options}: ")
        if words:
            values[field.id] = value_of(words, field.kind)
        elif field.required:
            return Message.text("")  # which declines
    return Message.text(", ".join(map(str, values.values())), parts=(json_part(values, label="answer"),))


def typed(prompt: str) -> str:
    say(prompt, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip()


def value_of(words: str, kind: str) -> Any:
    """What was typed, as the value that a field of this kind holds."""
    if kind == "boolean":
        return words.lower() in ("y", "yes", "true", "1")
    if kind == "multi_select":
        return [item.strip() for item in words.split(",")]
    if kind == "number":
        try:
            return int(words) if words.lstrip("-").isdigit() else float(words)
        except ValueError:
            return words
    return words


def is_large(path: Path) -> bool:
    """Whether a file goes beside the message and not in it."""
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
    except UnicodeEncodeError:  # bytes of another encoding come as half surrogate pairs
        raise ConfigError("the text is not UTF-8") from None
    if text is None and not arguments.file:
        raise ConfigError("nothing to send: give TEXT or --file")
    parts = [file_part(Path(name)) for name in arguments.file if Path(name) not in large]
    first = text_part(text or "") if text is not None or not parts else parts.pop(0)
    return Message.of(first, *parts, messagetype="control" if arguments.control else None)


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
    """TLS that trusts the certificate in this file, such as one that ``--dev-tls`` made."""
    try:
        return ssl.create_default_context(cafile=path)
    except (OSError, ssl.SSLError) as exc:
        raise ConfigError(f"{path}: not a certificate that can be trusted: {exc}") from exc


# -- conversations that go on ---------------------------------------------------------------------


def place_of(url: str) -> Path:
    name = hashlib.sha256(url.rstrip("/").encode()).hexdigest()[:24]
    return Path(os.environ.get("SABIR_HOME") or ".sabir") / "asked" / f"{name}.json"


def left_off(place: Path) -> dict[str, Any]:
    """The conversation as it was left; empty if nothing is remembered, or it cannot be read."""
    try:
        return msgspec.json.decode(place.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError):
        return {}


def keep(peer: Peer, place: Path) -> None:
    """Remember the conversation for the next call; where that cannot be, the answer counts more."""
    try:
        own_folder(place.parent)
        with os.fdopen(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(msgspec.json.encode(peer.export()))
    except OSError as exc:
        say(f"sabir: the conversation cannot be kept in {place.parent}: {exc.strerror}", file=sys.stderr)
