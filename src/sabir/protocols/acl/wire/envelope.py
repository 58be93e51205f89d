"""The envelope of a message, and its codec. Unknown fields are kept."""

from __future__ import annotations

import datetime
import re
from functools import lru_cache
from typing import Annotated, Any, Final, Literal

import msgspec

from sabir.errors import BadMessage, UnknownVersion, Unreadable
from sabir.message import JSON, printable

from .acts import ACTS, JSON_LANGUAGE, PROTOCOL, read_payload
from .ontologies import check_form
from .payloads import JWE, Payload, is_encrypted

VERSION: Final = "0.1.0"
EVERYBODY: Final = "*"
_MAX_RECEIVERS: Final = 1000
_LONGEST_ID: Final = 200
_KNOWN: Final = frozenset({
    "mcp_version", "message_id", "performative", "sender", "receiver", "in_reply_to", "reply_with", "language",
    "ontology", "timestamp", "payload", "conversation_id", "protocol", "reply_by", "reply_to", "signature",
})  # fmt: skip
_IDS: Final = ("in_reply_to", "reply_with", "conversation_id", "protocol", "reply_by", "reply_to", "signature")

_RARE: Final = ("protocol", "reply_by", "reply_to", "signature")

ReceiverKind = Literal["agent", "agents", "group", "everybody"]


_Id = Annotated[str, msgspec.Meta(min_length=1, max_length=_LONGEST_ID)]
_Some = Annotated[dict[str, Any], msgspec.Meta(min_length=1)]


class Envelope(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """One message. ``sender`` and ``receiver`` are raw objects; read ``sender_id`` and ``receivers``.

    The types say which messages are decoded in one step; ``envelope_of`` reads the others. Fields are written in this
    order, and those that have their default are left out, but for two: a default that is computed is written.
    """

    mcp_version: str = msgspec.field(default_factory=lambda: VERSION)
    message_id: _Id
    performative: str
    sender: dict[str, Any]
    receiver: dict[str, Any]
    in_reply_to: _Id | None = None
    reply_with: _Id | None = None
    language: str | tuple[str, ...] = msgspec.field(default_factory=lambda: JSON_LANGUAGE)
    ontology: str | tuple[str, ...] = ""
    timestamp: str = ""
    conversation_id: _Id | None = None
    protocol: _Id | None = None
    reply_by: str | None = None
    reply_to: str | None = None
    signature: str | None = None
    payload: dict[str, Any]
    extra: _Some = {}

    @property
    def sender_id(self) -> str:
        return str(self.sender["agent_id"])

    @property
    def receiver_kind(self) -> ReceiverKind:
        if "group" in self.receiver:
            return "group"
        if "agent_ids" in self.receiver:
            return "agents"
        return "everybody" if self.receiver["agent_id"] == EVERYBODY else "agent"

    @property
    def receiver_ids(self) -> tuple[str, ...]:
        """The names in the receiver: agents, or one group, or ``*``."""
        if "group" in self.receiver:
            return (str(self.receiver["group"]),)
        if "agent_ids" in self.receiver:
            return tuple(dict.fromkeys(str(name) for name in self.receiver["agent_ids"]))
        return (str(self.receiver["agent_id"]),)

    @property
    def languages(self) -> tuple[str, ...]:
        """The content language, or the alternatives in order of preference (ACL-23)."""
        return (self.language,) if isinstance(self.language, str) else self.language

    @property
    def ontologies(self) -> tuple[str, ...]:
        if isinstance(self.ontology, str):
            return (self.ontology,) if self.ontology else ()
        return self.ontology

    @property
    def is_json(self) -> bool:
        return JSON_LANGUAGE in self.languages

    @property
    def content(self) -> Payload:
        """The payload, typed. It was checked when the message was decoded."""
        return read_payload(self.performative, self.payload, self.languages[0])

    @property
    def priority(self) -> str:
        given = self.payload.get("priority")
        return given if given in ("low", "high") else "medium"

    @property
    def at(self) -> float | None:
        """The timestamp in seconds since the epoch."""
        return time_of(self.timestamp) if self.timestamp else None


def decode(body: bytes | str, *, strict: bool = False) -> Envelope:
    """A message from its JSON text.

    Raises:
        Unreadable: it is not JSON; names the line.
        BadMessage: a field is missing or invalid; says which.
        UnknownVersion: another version of the draft.
    """
    if not strict and isinstance(body, bytes):
        envelope = _usual(body)
        if envelope is not None:
            return envelope
    return envelope_of(json_of(body), strict=strict)


def json_of(body: bytes | str) -> JSON:
    """The JSON value of a text.

    Raises:
        Unreadable: it is not JSON; names the line and, if there is one, says that comments are not allowed.
    """
    data = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body
    try:
        return msgspec.json.decode(data)
    except UnicodeDecodeError:
        raise Unreadable(PROTOCOL, "$", "UTF-8") from None
    except msgspec.DecodeError as exc:
        found = re.search(r"\(byte (\d+)\)", str(exc))
        at = int(found.group(1)) if found else len(data)
        line = data.count(b"\n", 0, at) + 1
        hint = " without comments" if data[at : at + 2] in (b"//", b"/*") or data[at - 1 : at + 1] == b"//" else ""
        raise Unreadable(PROTOCOL, f"line {line}, byte {at}", f"JSON{hint}") from None
    except RecursionError:
        raise Unreadable(PROTOCOL, "$", "JSON that is not nested as deep as this") from None


def envelope_of(value: JSON, *, strict: bool = False) -> Envelope:
    """A message from a JSON value; raises as ``decode`` does."""
    if not isinstance(value, dict):
        raise BadMessage(PROTOCOL, "$", "an object")
    performative = _text(value, "performative")
    if performative not in ACTS:
        raise BadMessage(PROTOCOL, "$.performative", f"a known act, not {printable(performative)!r}")
    envelope = Envelope(
        message_id=_id(value, "message_id"),
        performative=performative,
        sender=_party(value, "sender"),
        receiver=_receiver(value),
        payload=_payload(value),
        mcp_version=_version(value, strict),
        language=_alternatives(value, "language", JSON_LANGUAGE),
        ontology=_alternatives(value, "ontology", ""),
        timestamp=_timestamp(value, strict),
        extra={} if value.keys() <= _KNOWN else {name: kept for name, kept in value.items() if name not in _KNOWN},
        **{name: _id(value, name) for name in _IDS if value.get(name) is not None},
    )
    _check(envelope, strict)
    return envelope


def _check(envelope: Envelope, strict: bool) -> None:
    act = ACTS[envelope.performative]
    if act.answers and envelope.in_reply_to is None:
        raise BadMessage(PROTOCOL, "$.in_reply_to", f"the id of the message that this {act.name} answers")
    if envelope.reply_by is not None and time_of(envelope.reply_by) is None:
        raise BadMessage(PROTOCOL, "$.reply_by", "an ISO 8601 time")
    result_by = envelope.payload.get("result_by")
    if isinstance(result_by, str) and time_of(result_by) is None:
        raise BadMessage(PROTOCOL, "$.payload.result_by", "an ISO 8601 time")
    if len(envelope.payload) == 1 and JWE in envelope.payload:
        if not is_encrypted(envelope.payload):
            raise BadMessage(PROTOCOL, f"$.payload.{JWE}", "a compact JWE to the receiver's key")
        return  # its receiver checks it (C-2)
    language = envelope.language
    read_payload(envelope.performative, envelope.payload, language if isinstance(language, str) else language[0])
    if strict:
        if not envelope.ontologies:
            raise BadMessage(PROTOCOL, "$.ontology", "an ontology, which is required")
        for term in envelope.ontologies:
            check_form(term)


_read = msgspec.json.Decoder(Envelope).decode


def _usual(body: bytes) -> Envelope | None:
    """A message of the common form, decoded in one step; None if it has another form, or if something is invalid.

    Raises:
        BadMessage: the payload does not match the act.
    """
    try:
        read = _read(body)
        datetime.datetime.fromisoformat(read.timestamp)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None
    sender, receiver = read.sender, read.receiver
    valid = (
        read.mcp_version == VERSION
        and read.performative in ACTS
        and type(read.language) is type(read.ontology) is str
        and not read.extra  # there is a field of this name
        and read.message_id.isprintable()
        and (read.in_reply_to is None or read.in_reply_to.isprintable())
        and (read.reply_with is None or read.reply_with.isprintable())
        and (read.conversation_id is None or read.conversation_id.isprintable())
        and (read.protocol is None or read.protocol.isprintable())
        and read.reply_by is read.reply_to is read.signature is None
        and len(sender) == len(receiver) == 1
        and _is_usual_name(sender.get("agent_id"))
        and _is_usual_name(receiver.get("agent_id"))
    )
    if not valid:
        return None
    _check(read, strict=False)
    return read


def _is_usual_name(given: object) -> bool:
    return type(given) is str and len(given) <= 64 and _is_name(given)


@lru_cache(maxsize=4096)
def _is_name(given: str) -> bool:
    return NAME.fullmatch(given) is not None


def plain(envelope: Envelope) -> dict[str, Any]:
    """A message as a JSON value, with fields in the order of the draft."""
    out: dict[str, Any] = {
        "mcp_version": envelope.mcp_version,
        "message_id": envelope.message_id,
        "performative": envelope.performative,
        "sender": envelope.sender,
        "receiver": envelope.receiver,
    }
    if envelope.in_reply_to is not None:
        out["in_reply_to"] = envelope.in_reply_to
    if envelope.reply_with is not None:
        out["reply_with"] = envelope.reply_with
    out["language"] = envelope.language
    if envelope.ontology:
        out["ontology"] = envelope.ontology
    if envelope.timestamp:
        out["timestamp"] = envelope.timestamp
    if envelope.conversation_id is not None:
        out["conversation_id"] = envelope.conversation_id
    for name in _RARE:
        if (given := getattr(envelope, name)) is not None:
            out[name] = given
    if envelope.extra:
        out.update(envelope.extra)
    out["payload"] = envelope.payload
    return out


def encode(envelope: Envelope) -> bytes:
    """The JSON text of a message."""
    # An encoder that returns bytes begins with a few and moves them each time they grow, ten times for 1 KB.
    text = bytearray(_USUAL_BYTES)
    _encode_into(plain(envelope) if envelope.extra else envelope, text)
    return bytes(text)


_USUAL_BYTES: Final = 2048
_encode_into = msgspec.json.Encoder().encode_into


def stamp(at: float) -> str:
    """A time in the output format: ISO 8601, UTC, ``Z`` (ACL-4)."""
    moment = datetime.datetime.fromtimestamp(at, datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def time_of(text: str) -> float | None:
    """Seconds since the epoch of an ISO 8601 time, UTC if it has no offset; None if it is invalid."""
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    try:
        return moment.timestamp()
    except (OverflowError, ValueError):
        return None


# -- fields ---------------------------------------------------------------------------------------


def _text(value: dict[str, Any], name: str) -> str:
    given = value.get(name)
    if not isinstance(given, str) or not given:
        raise BadMessage(PROTOCOL, f"$.{name}", "a string, which is required")
    return given


def _id(value: dict[str, Any], name: str) -> str:
    given = value.get(name)
    limit = 10_000 if name == "signature" else _LONGEST_ID
    if not isinstance(given, str) or not 0 < len(given) <= limit or not given.isprintable():
        raise BadMessage(PROTOCOL, f"$.{name}", f"1 to {limit} printable characters")
    return given


def _version(value: dict[str, Any], strict: bool) -> str:
    given = value.get("mcp_version")
    if given is None:
        if strict:
            raise UnknownVersion(PROTOCOL, "$.mcp_version", f"{VERSION}, which is required")
        return VERSION
    if not isinstance(given, str) or given.split(".")[:2] != VERSION.split(".")[:2]:
        raise UnknownVersion(PROTOCOL, "$.mcp_version", f"one of the known versions: {VERSION}")
    return given


def _party(value: dict[str, Any], name: str) -> dict[str, Any]:
    given = value.get(name)
    if not isinstance(given, dict):
        raise BadMessage(PROTOCOL, f"$.{name}", 'an object such as {"agent_id": "jules"}')
    _name(given.get("agent_id"), f"$.{name}.agent_id", everybody=False)
    return given


def _receiver(value: dict[str, Any]) -> dict[str, Any]:
    given = value.get("receiver")
    if not isinstance(given, dict):
        raise BadMessage(PROTOCOL, "$.receiver", 'an object with "agent_id", "agent_ids" or "group"')
    kinds = [kind for kind in ("agent_id", "agent_ids", "group") if kind in given]
    if len(kinds) != 1:
        raise BadMessage(PROTOCOL, "$.receiver", 'exactly one of "agent_id", "agent_ids" and "group"')
    if kinds == ["agent_ids"]:
        names = given["agent_ids"]
        if not isinstance(names, list) or not 0 < len(names) <= _MAX_RECEIVERS:
            raise BadMessage(PROTOCOL, "$.receiver.agent_ids", f"a list of 1 to {_MAX_RECEIVERS} names")
        for number, name in enumerate(names):
            _name(name, f"$.receiver.agent_ids[{number}]", everybody=False)
    else:
        _name(given[kinds[0]], f"$.receiver.{kinds[0]}", everybody=kinds == ["agent_id"])
    return given


NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
NAME_FORM: Final = "a name of 1 to 64 letters, digits, dots, hyphens or underscores"


def _name(given: object, where: str, *, everybody: bool) -> None:
    """Agent names have the form of a Card's name (ACL-42)."""
    if everybody and given == EVERYBODY:
        return
    if not isinstance(given, str) or not NAME.fullmatch(given):
        raise BadMessage(PROTOCOL, where, NAME_FORM)


def _payload(value: dict[str, Any]) -> dict[str, Any]:
    given = value.get("payload")
    if not isinstance(given, dict):
        raise BadMessage(PROTOCOL, "$.payload", "an object")
    return given


def _alternatives(value: dict[str, Any], name: str, default: str) -> str | tuple[str, ...]:
    given = value.get(name)
    if given is None:
        return default
    if isinstance(given, str):
        return given
    listed = isinstance(given, list) and given and all(isinstance(item, str) and item for item in given)
    if not listed:
        raise BadMessage(PROTOCOL, f"$.{name}", "a string, or a list of strings in order of preference")
    return tuple(given)


def _timestamp(value: dict[str, Any], strict: bool) -> str:
    given = value.get("timestamp")
    if given is None and not strict:
        return ""
    if not isinstance(given, str) or time_of(given) is None:
        raise BadMessage(PROTOCOL, "$.timestamp", "an ISO 8601 time such as 2026-11-16T18:00:00Z")
    return given
