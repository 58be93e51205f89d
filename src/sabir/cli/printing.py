"""How messages are printed for people: their text, results, and the bytes on the wire.

Every command prints through ``say`` or ``say_json``, so untrusted text cannot control the terminal.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Final, TextIO

import msgspec

from sabir.errors import BadInput
from sabir.events import Field
from sabir.message import ERROR, Message
from sabir.observe.logs import inert
from sabir.protocols.nlip.peer.http import REPLY_LIMITS
from sabir.protocols.nlip.wire import cbor
from sabir.protocols.nlip.wire import json as nlip

from .colours import DIM, coloured
from .wrapping import cut

CBOR_MAP = 5  # the major type of a map
RESULT = "result"  # the label of a site's result
_LENGTH = 140  # characters of a description


def say(text: object = "", *, file: TextIO | None = None, end: str = "\n", flush: bool = False) -> None:
    """Print untrusted text."""
    print(inert(str(text)), file=file, end=end, flush=flush)


def say_json(value: bytes) -> None:
    """Print JSON; control characters are escaped as JSON does, so that the value stays the same."""
    print("".join(item if item in "\n\t" or inert(item) == item else _escaped(item) for item in value.decode()))


def _escaped(character: str) -> str:
    return json.dumps(character)[1:-1]


def readable(message: Message, *, saving: bool = False) -> str:
    """A reply for people: its text, then the rest. ``saving``: whether its files are written to a folder."""
    again = (ERROR, message.content)  # an error is the first part, and repeated in a part with this label
    words = (message.first, *(part for part in message.submessages if (part.label, part.content) != again))
    lines = [str(part.content) for part in words if part.format == "text" and part.content]
    lines = [lines[0], *(line for line in lines[1:] if not _is_listed(line, message))] if lines else []
    found = unsaid(message)
    if found and lines == [_named(message)]:
        lines = []  # only the names; the details follow
    lines += found
    for part in message.parts:
        if part.format in ("text", "token") or (lines and part.kind == "json"):
            continue  # if there is text, the JSON repeats it for programs: --json shows it
        if isinstance(part.content, bytes):
            name = f"{part.label}: " if part.label else ""
            hint = "" if saving else "; --save DIR keeps it"
            lines.append(f"[{name}{part.subformat}, {len(part.content):,} bytes{hint}]")
        elif isinstance(part.content, str):
            lines.append(part.content)
        else:
            lines.append(msgspec.json.format(msgspec.json.encode(part.content), indent=2).decode())
    question = nlip.question_of(message)
    for field in question.fields if question is not None else ():
        line = described(field, message.text)
        lines += [f"  {line}"] if line else []
    return "\n".join(lines)


def _is_listed(line: str, message: Message) -> bool:
    """Whether the first text already contains this answer, after the name of its source."""
    said = f"\n{message.content}\n" if message.format == "text" else ""
    return any(f"\n{part.label}: {line}\n" in said for part in message.submessages if part.content == line)


def described(field: Field, said: str) -> str:
    """A field of a question in words: ``With milk? (yes or no)``; empty if ``said`` contains it."""
    options = list(field.options)
    if field.kind == "boolean":
        options = ["yes", "no"]
    shapes = {"number": "a number", "multi_select": f"any of {', '.join(options)}" if options else "several"}
    note = shapes.get(field.kind) or " or ".join(filter(None, [", ".join(options[:-1]), *options[-1:]]))
    if not field.required:
        note = f"{note}; optional" if note else "optional"
    about = field.text if field.text not in said else ""
    return f"{about} ({note})".strip() if note else about


def unsaid(message: Message) -> list[str]:
    """The results of a site, one line each; empty if the text of the answer already has the addresses."""
    found = _found(message)
    if any(_address(item) and _address(item) in message.text for item in found):
        return []
    return [f"{number}. {_line(item)}" for number, item in enumerate(found, 1)]


def _found(message: Message) -> list[dict[str, Any]]:
    parts = (part.value for part in message.submessages if part.label == RESULT)
    return [value for value in parts if isinstance(value, dict) and (value.get("name") or _address(value))]


def _named(message: Message) -> str:
    """The text of an answer that has only results."""
    rows = enumerate(_found(message), 1)
    return "\n".join(f"{number}. {row.get('name') or row.get('@id') or ''}" for number, row in rows)


def _line(found: dict[str, Any]) -> str:
    """A result: its name, a line about it, its address, and its price."""
    about = " ".join(str(found.get("description") or "").split())
    if len(about) > _LENGTH:
        about = about[:_LENGTH].rsplit(" ", 1)[0] + " …"
    name = str(found.get("name") or "")
    facts = ", ".join(item for item in (_address(found), _price(found)) if item)
    words = ": ".join(item for item in (name, about) if item)
    return f"{words} ({facts})" if words and facts else words or facts


def _address(found: dict[str, Any]) -> str:
    return next((found[key] for key in ("url", "@id") if isinstance(found.get(key), str)), "")


def _price(found: dict[str, Any]) -> str:
    """The price of a schema.org item, or the lowest of several."""
    offers = found.get("offers")
    for offer in offers if isinstance(offers, list) else [offers]:
        if not isinstance(offer, dict):
            continue
        for key, before in (("price", ""), ("lowPrice", "from ")):
            if isinstance(offer.get(key), str | int | float) and offer[key] != "":
                return f"{before}{_money(offer[key], str(offer.get('priceCurrency') or ''))}"
    cost = found.get("estimatedCost")
    if isinstance(cost, dict) and isinstance(cost.get("value"), str | int | float) and cost["value"] != "":
        return _money(cost["value"], str(cost.get("currency") or ""))
    return ""


_SIGNS: Final = {"USD": "$", "EUR": "€", "GBP": "£", "JPY": "¥"}


def _money(price: str | float, currency: str) -> str:
    """A price as people write it: $10, €9.50, 12 CHF."""
    try:
        amount = float(price)
    except ValueError:  # "on request"
        return f"{price} {currency}".rstrip()
    if amount == 0:
        return "free"
    written = f"{amount:,.0f}" if amount.is_integer() else f"{amount:,.2f}"
    sign = _SIGNS.get(currency.upper())
    return f"{sign}{written}" if sign else f"{written} {currency}".rstrip()


def show(direction: str, data: bytes) -> None:
    """Print the bytes on the wire to standard error; on a terminal dimmed, with the arrow before every line of it."""
    arrow = ">" if direction == "sent" else "<"
    for line in shown(data).split("\n"):
        for piece in cut(inert(line), sys.stderr, beside=len(arrow) + 1):
            print(coloured(f"{arrow} {piece}", DIM, sys.stderr), file=sys.stderr)


def shown(data: bytes) -> str:
    """Wire data as text that is safe for a terminal: CBOR as JSON, or hex."""
    if data and data[0] >> 5 == CBOR_MAP:  # no text starts like this
        try:
            return f"CBOR, {len(data)} bytes: {nlip.encode(cbor.decode(data, limits=REPLY_LIMITS)).decode()}"
        except BadInput:
            return f"{len(data)} bytes: {data.hex(' ', 4)}"
    text = data.decode("utf-8", "replace").replace("\r\n", "\n").removesuffix("\n")
    return inert(text)
