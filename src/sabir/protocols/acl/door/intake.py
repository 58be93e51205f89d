"""Accepts a message from any transport: who sent it, who gets it, and what its sender learns at once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final
from uuid import uuid4

import msgspec

from sabir.agents.group import AgentGroup
from sabir.bus.base import Letter
from sabir.cluster.directory import Directory, Template
from sabir.dialogues.service import GATEWAY, Dialogues, Posted
from sabir.errors import Refused, SabirError
from sabir.http.admission import Admission
from sabir.http.door import DoorContext
from sabir.message import JSON
from sabir.protocols.acl.wire.acts import ACTS
from sabir.protocols.acl.wire.content import failure, not_understood, payload_for, rejection
from sabir.protocols.acl.wire.envelope import Envelope, encode, envelope_of, plain, stamp
from sabir.protocols.acl.wire.ide import from_ide, is_ide, to_ide
from sabir.protocols.acl.wire.payloads import is_encrypted
from sabir.protocols.acl.wire.reasons import (
    FAILURE,
    NOT_UNDERSTOOD,
    TASK_REJECT,
    ErrorReport,
    Rejected,
    encrypted_to_nobody,
    report_of,
)
from sabir.stores.base import AuditLine
from sabir.turn import Caller

from .own_terms import OwnTerms
from .owners import DF, Owners
from .settings import AclSettings

DOOR: Final = "acl"
UNREGISTERED: Final = ErrorReport(FAILURE, "not_registered", 404)
FORGED: Final = ErrorReport(TASK_REJECT, "unauthorised", 403)


class Intake:
    """Accepts messages."""

    def __init__(
        self,
        services: DoorContext,
        dialogues: Dialogues,
        directory: Directory,
        owners: Owners,
        settings: AclSettings,
    ) -> None:
        self._services = services
        self._dialogues = dialogues
        self._directory = directory
        self._owners = owners
        self._settings = settings
        self._terms = OwnTerms(settings.ontologies)

    def read(self, value: JSON) -> Envelope:
        """A message in either envelope; raises as ``envelope_of`` does."""
        if is_ide(value):
            return from_ide(value, str(uuid4()))
        envelope = envelope_of(value, strict=self._settings.strict)
        self._terms.check(envelope)
        return envelope

    async def accept(self, envelope: Envelope, caller: Caller, admission: Admission) -> list[Posted]:
        """Check a message and put it into the inboxes of its receivers. It is stored when this returns.

        Raises:
            Rejected: the answer to its sender.
            SabirError: why it is not accepted.
        """
        await self._check_sender(envelope, caller, admission)
        names = await self._receivers(envelope, caller)
        if envelope.receiver_kind == "agent":
            return [await self._post(envelope, names[0], caller)]
        posted: list[Posted] = []
        for name in names:
            try:
                posted.append(await self._post(envelope, name, caller))
            except (SabirError, Rejected) as exc:  # a failing member does not keep the message from the others
                await self._report(envelope, exc, name)
        return posted

    async def _check_sender(self, envelope: Envelope, caller: Caller, admission: Admission) -> None:
        try:
            await self._owners.check(envelope.sender_id, caller)
            await self._owners.check_signature(envelope)
        except Refused as exc:
            await admission.rejected(exc, envelope.receiver_ids[0])
            raise Rejected(FORGED, str(exc)) from exc

    async def _post(self, envelope: Envelope, receiver: str, caller: Caller) -> Posted:
        self._services.rights.check(caller, agent=receiver, door=DOOR)
        if not await self._owners.is_known(receiver):
            raise Rejected(UNREGISTERED, f"there is no agent {receiver!r} here")
        detail: dict[str, Any] = {"act": envelope.performative}
        local = receiver in self._services.agents or receiver == DF
        if is_encrypted(envelope.payload):
            if local:
                raise encrypted_to_nobody(receiver)
            detail["not_applied"] = "filters, because the payload is encrypted to its receiver"
        line = AuditLine(
            time.time(),
            "message",
            caller.id,
            DOOR,
            receiver,
            "ok",
            envelope.message_id,
            envelope.conversation_id or "",
            detail,
        )
        encoded = msgspec.json.encode(caller) if local else None
        posted = await self._dialogues.post(envelope, receiver, audit=line, caller=encoded)
        if posted.duplicate and envelope.signature is not None:
            # A retry of its sender, or a replay: it is not handled again, but logged.
            replay = msgspec.structs.replace(
                line, kind="refused", outcome="Replay", detail={**detail, "reason": "sent before"}
            )
            await self._services.store.audit(replay)
        return posted

    async def _receivers(self, envelope: Envelope, caller: Caller) -> list[str]:
        """The receivers of a message; "everybody" means all that this caller may use (ACL-36)."""
        kind, names = envelope.receiver_kind, list(envelope.receiver_ids)
        if kind in ("agent", "agents"):
            return names
        if kind == "group":
            listed = self._settings.groups.get(names[0], ())
            group = self._services.agents.get(names[0])
            if not listed and isinstance(group, AgentGroup):  # one group for all protocols (MW-71)
                listed = tuple(member.card.name for member in group.members)
            joined = [entry.name for entry in await self._directory.search(Template(groups=(names[0],)))]
            members = list(dict.fromkeys((*listed, *joined)))
            if not members:
                raise Rejected(UNREGISTERED, f"there is no group {names[0]!r} here")
        else:
            # A group is asked by its name; for "everybody", its members get the message themselves.
            here = [card.name for card in self._services.cards(caller, DOOR) if not card.group]
            entries = await self._directory.search(max_results=1000)
            elsewhere = [entry.name for entry in entries if entry.card is None or not entry.card.group]
            members = list(dict.fromkeys((*here, *elsewhere)))
        allows = self._services.rights.allows
        return [name for name in members if name != envelope.sender_id and allows(caller, agent=name, door=DOOR)]

    async def _report(self, envelope: Envelope, exc: SabirError | Rejected, about: str) -> None:
        """Put the outcome of one copy of a message into its sender's inbox."""
        answer = error_of(exc, envelope)
        answer = msgspec.structs.replace(answer, extra={"about": about})
        letter = Letter(envelope.sender_id, encode(answer), f"{GATEWAY}/{answer.message_id}", sender=GATEWAY)
        await self._dialogues.bus.send(letter)


def error_of(exc: SabirError | Rejected, envelope: Envelope | None, value: JSON = None) -> Envelope:
    """The message that reports an error to the sender of another one."""
    act, payload = _error_payload(exc)
    given = value if isinstance(value, dict) else {}
    reference = envelope.message_id if envelope is not None else given.get("message_id")
    sender = envelope.sender_id if envelope is not None else _sender(given)
    return Envelope(
        message_id=str(uuid4()),
        performative=act,
        sender={"agent_id": GATEWAY},
        receiver={"agent_id": sender},
        in_reply_to=reference if isinstance(reference, str) and reference else "unknown",
        conversation_id=envelope.conversation_id if envelope is not None else None,
        ontology=ACTS[act].ontology,
        timestamp=stamp(time.time()),
        payload=payload,
    )


def answer_of(exc: SabirError | Rejected, envelope: Envelope | None, value: JSON) -> dict[str, Any]:
    """What the sender of a message gets for an error, in the format of the message."""
    answer = error_of(exc, envelope, value)
    said = value.get("performative") if isinstance(value, dict) else None
    if said == NOT_UNDERSTOOD == answer.performative:
        return {"status": "refused", **answer.payload}  # never answered by another one (ACL-13)
    return shown(answer, is_ide(value))


def receipt_of(envelope: Envelope, posted: Sequence[Posted]) -> dict[str, Any]:
    """What the sender of a message learns once it is stored."""
    if len(posted) == 1:
        return {"conversation_id": posted[0].dialogue.conversation, "duplicate": posted[0].duplicate}
    receivers = [item.dialogue.peer_of(envelope.sender_id) for item in posted]
    return {"receivers": receivers, "conversation_id": envelope.conversation_id or envelope.message_id}


def _sender(given: dict[str, Any]) -> str:
    sender = given.get("sender")
    name = sender.get("agent_id") if isinstance(sender, dict) else sender
    return name if isinstance(name, str) and name else "unknown"


def _error_payload(exc: SabirError | Rejected) -> tuple[str, dict[str, Any]]:
    if isinstance(exc, SabirError):
        return payload_for(exc)
    make = {FAILURE: failure, TASK_REJECT: rejection}.get(exc.report.act)
    if make is None:
        return NOT_UNDERSTOOD, not_understood(exc.report.reason, str(exc))
    return exc.report.act, make(exc.report, str(exc))


def status_of(exc: SabirError | Rejected) -> int:
    return (exc.report if isinstance(exc, Rejected) else report_of(exc)).status


def shown(envelope: Envelope, ide: bool) -> dict[str, Any]:
    """A message in its reader's format."""
    return to_ide(envelope, envelope.receiver_ids[0]) if ide else plain(envelope)
