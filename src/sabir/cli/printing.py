"""What people see of a message: its words, what was found, and what was on the wire.

Every command prints by ``say`` or ``say_json``: what others have said does nothing to the terminal.
"""

from __future__ import annotations

import json
import sys
from typing import Any, TextIO

import msgspec

from sabir.errors import BadInput
from sabir.message import ERROR, Message
from sabir.observe.logs import inert
from sabir.protocols.nlip.peer.http import REPLY_LIMITS
from sabir.protocols.nlip.wire import cbor
from sabir.protocols.nlip.wire import json as nlip

CBOR_MAP = 5  # the major type of a map
RESULT = "result"  # the label of what a site has found
_LENGTH = 140  # characters of a description


def say(text: object = "", *, file: TextIO | None = None, end: str = "\n", flush: bool = False) -> None:
    """Print a text that others may have written."""
    print(inert(str(text)), file=file, end=end, flush=flush)


def say_json(value: bytes) -> None:
    """Print JSON; what would act on a terminal is escaped as JSON does it, so that it means the same."""
    print("".join(item if item in "\n\t" or inert(item) == item else _escaped(item) for item in value.decode()))


def _escaped(character: str) -> str:
    return json.dumps(character)[1:-1]


def readable(message: Message) -> str:
    """A reply for people: its words, then what else came."""
    again = (ERROR, message.content)  # what was not understood is said in front, and again in a part with this label
    words = (message.first, *(part for part in message.submessages if (part.label, part.content) != again))
    lines = [str(part.content) for part in words if part.format == "text" and part.content]
    lines = [lines[0], *(line for line in lines[1:] if not _is_listed(line, message))] if lines else []
    found = unsaid(message)
    if found and lines == [_named(message)]:
        lines = []  # the names alone; with all that is known of them they follow
    lines += found
    for part in message.parts:
        if part.format in ("text", "token") or (lines and part.kind == "json"):
            continue  # where there are words, JSON beside them says the same for machines: --json shows it
        if isinstance(part.content, bytes):
            lines.append(f"[{part.subformat}, {len(part.content)} bytes]")
        elif isinstance(part.content, str):
            lines.append(part.content)
        else:
            lines.append(msgspec.json.format(msgspec.json.encode(part.content), indent=2).decode())
    question = nlip.question_of(message)
    for item in question.fields if question is not None else ():
        about = f"{item.text} " if item.text != message.text else ""
        lines += [f"  {about}{', '.join(item.options)}"] if item.options else []
    return "\n".join(lines)


def _is_listed(line: str, message: Message) -> bool:
    """Whether the first words have this answer already, behind the name of its source."""
    said = f"\n{message.content}\n" if message.format == "text" else ""
    return any(f"\n{part.label}: {line}\n" in said for part in message.submessages if part.content == line)


def unsaid(message: Message) -> list[str]:
    """What a site has found, a line each, where the words of its answer do not tell where it is."""
    found = _found(message)
    if any(_address(item) and _address(item) in message.text for item in found):
        return []
    return [f"{number}. {_line(item)}" for number, item in enumerate(found, 1)]


def _found(message: Message) -> list[dict[str, Any]]:
    parts = (part.value for part in message.submessages if part.label == RESULT)
    return [value for value in parts if isinstance(value, dict) and (value.get("name") or _address(value))]


def _named(message: Message) -> str:
    """What an answer of results says that has no words of its own."""
    rows = enumerate(_found(message), 1)
    return "\n".join(f"{number}. {row.get('name') or row.get('@id') or ''}" for number, row in rows)


def _line(found: dict[str, Any]) -> str:
    """Its name, one line about it, where it is, and what it costs or how well it fits."""
    about = " ".join(str(found.get("description") or "").split())
    if len(about) > _LENGTH:
        about = about[:_LENGTH].rsplit(" ", 1)[0] + " …"
    name = str(found.get("name") or "")
    told = ", ".join(item for item in (_address(found), _price(found) or _score(found)) if item)
    words = ": ".join(item for item in (name, about) if item)
    return f"{words} ({told})" if words and told else words or told


def _address(found: dict[str, Any]) -> str:
    return next((found[key] for key in ("url", "@id") if isinstance(found.get(key), str)), "")


def _price(found: dict[str, Any]) -> str:
    """What it costs, as schema.org says it: a price, or the lowest of several."""
    offers = found.get("offers")
    for offer in offers if isinstance(offers, list) else [offers]:
        if not isinstance(offer, dict):
            continue
        for key, before in (("price", ""), ("lowPrice", "from ")):
            if isinstance(offer.get(key), str | int | float) and offer[key] != "":
                return f"{before}{offer[key]} {offer.get('priceCurrency') or ''}".rstrip()
    return ""


def _score(found: dict[str, Any]) -> str:
    score = found.get("score")
    return f"score {score:g}" if isinstance(score, int | float) and not isinstance(score, bool) else ""


def show(direction: str, data: bytes) -> None:
    """What went over the wire, on standard error."""
    arrow = ">" if direction == "sent" else "<"
    for line in shown(data).split("\n"):
        say(f"{arrow} {line}", file=sys.stderr)


def shown(data: bytes) -> str:
    """What was on the wire, as text that does nothing to a terminal: CBOR as JSON, or in hex."""
    if data and data[0] >> 5 == CBOR_MAP:  # no text begins so
        try:
            return f"CBOR, {len(data)} bytes: {nlip.encode(cbor.decode(data, limits=REPLY_LIMITS)).decode()}"
        except BadInput:
            return f"{len(data)} bytes: {data.hex(' ', 4)}"
    text = data.decode("utf-8", "replace").replace("\r\n", "\n").removesuffix("\n")
    return inert(text)
