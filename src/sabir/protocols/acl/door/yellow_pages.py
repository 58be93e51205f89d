"""The directory as the agent ``df``: register, modify, deregister, search, subscribe (ACL-41)."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from typing import Annotated, Any, Final

import msgspec

from sabir.aio import cancel_and_wait
from sabir.bus.base import Letter, LetterReceiver
from sabir.bus.store import StoreBus
from sabir.card import Card, Skill
from sabir.cluster.directory import Change, Directory, Entry, Template
from sabir.dialogues.service import CALLER, Dialogues, answer_to, dialogue_of, topic_of
from sabir.errors import BadMessage, Conflict, NotFound, SabirError, StoreUnavailable, Unavailable
from sabir.misfits import misfit
from sabir.protocols.acl.door.context import AclContext
from sabir.protocols.acl.wire.acts import PROTOCOL, structured
from sabir.protocols.acl.wire.content import capabilities_of, payload_for
from sabir.protocols.acl.wire.envelope import NAME, NAME_FORM, Envelope, decode
from sabir.protocols.acl.wire.payloads import Subscribe, TaskRequest, is_encrypted
from sabir.protocols.acl.wire.reasons import TASK_REJECT, encrypted_to_nobody
from sabir.protocols.acl.wire.signatures import keys_of
from sabir.stores.base import Record
from sabir.stores.letters import DialogueRow
from sabir.stores.rows import value_of as record_value
from sabir.turn import ANONYMOUS, Caller

from .owners import DF, owner_id
from .queries import query_of
from .reports import id_of

logger = logging.getLogger("sabir.acl")

DOOR: Final = "acl"
LONGEST_WAY: Final = 8  # gateways that a search passes through at most
LONGEST_LEASE: Final = 86_400.0 * 30
SUBSCRIBERS: Final = "acl-subscribers"  # who subscribed to the directory
_MAX_RESULTS: Final = 1000
_caller_of: Final = msgspec.json.Decoder(Caller).decode
ACTIONS: Final = {
    "register": "Offer an agent: name, skills, ontologies, languages, addresses, groups, key; lease_seconds",
    "modify": "Change an entry of your own",
    "deregister": "Remove an entry of your own",
    "search": "Find agents by a template; every slot must match",
}
CARD: Final = Card(
    DF,
    "The directory of agents (yellow pages)",
    skills=tuple(Skill(name, name, words, tags=("directory",)) for name, words in ACTIONS.items()),
)


class DirectorySearch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of a search."""

    template: Template = Template()
    max_results: Annotated[int, msgspec.Meta(ge=1)] = 100
    max_depth: Annotated[int, msgspec.Meta(ge=0)] = 0  # how many gateways away
    via: tuple[str, ...] = ()  # gateways that were already asked; set by gateways


class Offer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of register and modify."""

    name: str
    description: str = ""
    skills: tuple[str, ...] = ()
    ontologies: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    protocols: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    addresses: dict[str, str] = {}
    key: str = ""
    lease_seconds: float = 86_400.0


class YellowPages:
    """The agent of the directory."""

    def __init__(self, services: AclContext, dialogues: Dialogues, bus: StoreBus, directory: Directory) -> None:
        self._services = services
        self._dialogues = dialogues
        self._bus = bus
        self._directory = directory
        self._receiver: LetterReceiver | None = None
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._receiver = await self._bus.receive(DF, self.handle)
        self._watching = asyncio.create_task(self._watch(), name="directory: subscribers")

    async def stop(self) -> None:
        if self._receiver is not None:
            await self._receiver.stop()
        await cancel_and_wait([self._watching])

    # -- as an agent ------------------------------------------------------------------------------

    async def handle(self, letter: Letter) -> None:
        envelope = decode(letter.body)
        self._dialogues.log("RECEIVED", envelope)
        if envelope.performative == "NOT_UNDERSTOOD":
            return  # never answered (ACL-13)
        caller = msgspec.json.decode(letter.headers[CALLER], type=Caller) if CALLER in letter.headers else ANONYMOUS
        try:
            act, payload = await self._answer(envelope, caller)
        except (Unavailable, StoreUnavailable):
            raise  # it is delivered again
        except SabirError as exc:
            act, payload = _refusal(exc)
        if act:
            reply = answer_to(envelope, act, payload, sender=DF)
            with suppress(Conflict):
                await self._dialogues.post(reply, envelope.sender_id)

    async def _answer(self, envelope: Envelope, caller: Caller) -> tuple[str, dict[str, Any]]:
        if is_encrypted(envelope.payload):
            raise encrypted_to_nobody(DF)
        if envelope.performative == "QUERY_CAPABILITIES":
            return "INFORM_CAPABILITIES", capabilities_of(query_of(envelope), CARD)
        content = structured(envelope.performative, envelope.payload)
        if isinstance(content, TaskRequest):
            found = await self.do(content.task_type, content.task_parameters or {}, caller)
            summary = f"{content.task_type}: done"
            return "INFORM_RESULT", {"task_status": "success", "result_summary": summary, "result_details": found}
        if isinstance(content, Subscribe):
            if content.topic != "directory":
                raise BadMessage(PROTOCOL, "$.payload.topic", "directory")
            _converted(content.template or {}, Template, "$.payload.template")
            await self._remember(envelope, caller)
            return "TASK_ACCEPT", {"status": "accepted"}
        if envelope.performative == "CANCEL":
            return "INFORM_DONE", {}
        if envelope.performative in ("QUERY_IF", "QUERY_REF"):
            text = f"{DF} answers searches, not {envelope.performative}"
            return "FAILURE", {"status": "failure", "error_code": "unsupported_function", "error_text": text}
        if envelope.performative in ("CALL_FOR_PROPOSALS", "PROPOSE"):
            return "NOT_UNDERSTOOD", {"reason_code": "unsupported_act"}
        return "", {}

    async def do(self, action: str, parameters: dict[str, Any], caller: Caller) -> dict[str, Any]:
        """One action on the directory.

        Raises:
            Conflict: the name belongs to somebody else.
            NotFound: the caller has no entry with this name.
            BadMessage: invalid parameters, or unknown action.
        """
        where = "$.payload.task_parameters"
        if action == "search":
            wanted = _converted(parameters, DirectorySearch, where)
            found = await self.search(wanted, caller)
            return {"entries": [shown(entry) for entry in found]}
        if action == "deregister":
            name = str(parameters.get("name", ""))
            await self._directory.deregister(name, owner_id(caller))
            return {"name": name}
        if action not in ACTIONS:
            raise BadMessage(PROTOCOL, "$.payload.task_type", f"one of {', '.join(ACTIONS)}")
        offer = _converted(parameters, Offer, where)
        entry = self._entry(offer, where)
        if action == "modify":
            return {"entry": shown(await self._directory.modify(entry, owner_id(caller)))}
        lease = min(max(offer.lease_seconds, 1.0), LONGEST_LEASE)
        return {"entry": shown(await self._directory.register(entry, owner_id(caller), lease=lease))}

    def _entry(self, offer: Offer, where: str) -> Entry:
        if not NAME.fullmatch(offer.name) or offer.name in self._services.agents:
            expected = f"{NAME_FORM} that no agent here has"
            raise BadMessage(PROTOCOL, f"{where}.name", expected)
        if offer.key:
            keys_of(offer.key)
        fields = {name: getattr(offer, name) for name in offer.__struct_fields__ if name != "lease_seconds"}
        return Entry(**fields)

    async def search(self, wanted: DirectorySearch, caller: Caller) -> list[Entry]:
        """The gateway's own agents and registered ones, as far as this caller may use them; then, within ``max_depth``,
        those of other gateways."""
        template, limit = wanted.template, min(wanted.max_results, _MAX_RESULTS)
        own = [self.own_entry(card) for card in self._services.cards(caller, DOOR)]
        found = [entry for entry in own if template.matches(entry)]
        names = {entry.name for entry in found}
        allows = self._services.rights.allows
        for entry in await self._directory.search(template, max_results=limit):
            if entry.name not in names and allows(caller, agent=entry.name, door=DOOR):
                names.add(entry.name)
                found.append(entry)
        depth, elsewhere = min(wanted.max_depth, LONGEST_WAY), self._services.search_gateways
        if depth and elsewhere is not None and len(found) < limit:
            found += await elsewhere(template, caller, limit=limit - len(found), depth=depth, via=wanted.via)
        return found[:limit]

    def own_entry(self, card: Card) -> Entry:
        base = self._services.public_url
        return Entry.of(card, addresses={"acl": f"{base}/acl/{card.name}"})

    # -- subscribers --------------------------------------------------------------------------------

    async def _remember(self, envelope: Envelope, caller: Caller) -> None:
        """Keep who subscribes: notifications follow the rights of that caller."""
        expires = time.time() + LONGEST_LEASE
        key = subscriber_key(envelope.sender_id, envelope.message_id)
        await self._services.store.put(Record(SUBSCRIBERS, key, msgspec.json.encode(caller), caller.id, expires))

    async def _may_know(self, row: DialogueRow, entry: Entry) -> bool:
        record = await self._services.store.get(SUBSCRIBERS, subscriber_key(row.initiator, row.opener))
        caller = record_value(record, _caller_of) if record is not None else None
        return self._services.rights.allows(caller or ANONYMOUS, agent=entry.name, door=DOOR)

    async def _watch(self) -> None:
        """Notify subscribers of changes. Each gets one notification, because its id is derived from the change."""
        async for change in self._directory.changes():
            with suppress(StoreUnavailable):
                await self.notify(change)

    async def notify(self, change: Change) -> None:
        """Notify the subscribers of a change, on whichever nodes it is seen."""
        kind, entry = change.kind, change.entry
        for row in await self._dialogues.store.dialogues(agent=DF, limit=10_000):
            if row.protocol != "subscribe" or not row.state.startswith("active") or topic_of(row) != "directory":
                continue
            opener = await self._dialogues.store.utterance(row.opener, row.initiator, DF)
            if opener is None:
                continue
            envelope = decode(opener.body)
            template = _converted(envelope.payload.get("template") or {}, Template, "$.payload.template")
            if not template.matches(entry) or not await self._may_know(row, entry):
                continue
            payload = {"topic": "directory", "event": {"kind": kind, "entry": shown(entry)}}
            seen = msgspec.json.encode(entry).decode()
            message_id = id_of(row.opener, row.initiator, kind, str(change.version), seen)
            reply = answer_to(envelope, "NOTIFY", payload, sender=DF, message_id=message_id)
            reply = msgspec.structs.replace(reply, conversation_id=dialogue_of(row).conversation)
            with suppress(SabirError):
                await self._dialogues.post(reply, row.initiator)


def subscriber_key(initiator: str, opener: str) -> str:
    """The key of a subscription's record."""
    return f"{initiator}/{opener}"


def shown(entry: Entry) -> dict[str, Any]:
    """An entry for others, without its owner."""
    out: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(entry, owner="", card=None, node=""))
    return out


def _refusal(exc: SabirError) -> tuple[str, dict[str, Any]]:
    """The errors of the directory in FIPA's terms."""
    reason = {Conflict: "already_registered", NotFound: "not_registered"}.get(type(exc))
    if reason is None:
        return payload_for(exc)
    return TASK_REJECT, {"status": "rejected", "reason_code": reason, "reason_text": str(exc)}


def _converted(given: dict[str, Any], kind: Any, where: str) -> Any:
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as exc:
        raise BadMessage(PROTOCOL, *misfit(exc, kind, where)) from None
