"""Every agent of the gateway as an ACL agent: a message in its inbox becomes a task, and the task's events become acts.

A request is submitted as a task whose id is derived from the message, so a duplicate letter is the same task.
``reports`` sends its outcome.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any, Final

import msgspec

from sabir.bus.base import Letter, LetterReceiver, Receiving
from sabir.bus.store import StoreBus
from sabir.card import Card
from sabir.dialogues.service import CALLER, Dialogues, answer_to, topic_of
from sabir.dialogues.states import OPENERS
from sabir.errors import Conflict, NotFound, RateLimited, SabirError, StoreUnavailable, Unavailable
from sabir.exchange.conversations import Tokens
from sabir.exchange.request import TurnRequest
from sabir.guard import Credentials
from sabir.http.door import DoorContext
from sabir.http.request import MAX_TRACE, hops_of
from sabir.message import JSON, Message
from sabir.protocols.acl.wire.acts import structured
from sabir.protocols.acl.wire.content import (
    answer_of,
    capabilities_of,
    failure,
    message_of,
    not_understood,
    payload_for,
    rejection,
)
from sabir.protocols.acl.wire.envelope import Envelope, decode
from sabir.protocols.acl.wire.payloads import Subscribe, is_encrypted
from sabir.protocols.acl.wire.reasons import FAILURE, NOT_UNDERSTOOD, TASK_REJECT, encrypted_to_nobody, report_of
from sabir.stores.base import TaskRow
from sabir.turn import ANONYMOUS, Caller

from .queries import holds, known_terms, negotiated, query_of, value_of
from .reports import TASK_TOPIC, TaskReports, id_of, key_of
from .settings import AclSettings

logger = logging.getLogger("sabir.acl")

DOOR: Final = "acl"
_WIDTH: Final = 64
_MAX_SUBSCRIBERS: Final = 10_000


class Bridge:
    """Serves the inboxes of the gateway's agents."""

    def __init__(self, services: DoorContext, dialogues: Dialogues, bus: StoreBus, settings: AclSettings) -> None:
        self._services = services
        self._dialogues = dialogues
        self._bus = bus
        self._settings = settings
        self._reports = TaskReports(services, dialogues)
        self._receivers: dict[str, LetterReceiver] = {}

    async def start(self) -> None:
        await self.agents_changed()
        await self._reports.start()

    async def stop(self) -> None:
        for receiver in self._receivers.values():
            await receiver.stop()
        self._receivers.clear()
        await self._reports.stop()

    async def agents_changed(self) -> None:
        """Serve the inboxes of exactly the current agents."""
        for name in [name for name in self._receivers if name not in self._services.agents]:
            await self._receivers.pop(name).stop()
        for name in self._services.agents:
            if name not in self._receivers:
                handler = _Handler(self, name)
                self._receivers[name] = await self._bus.receive(name, handler, Receiving(width=_WIDTH))

    # -- what comes in ----------------------------------------------------------------------------

    async def handle(self, agent: str, letter: Letter) -> None:
        """Handle one message to an agent of this gateway."""
        envelope = decode(letter.body)
        self._dialogues.log("RECEIVED", envelope)
        if envelope.performative == "NOT_UNDERSTOOD":
            return  # never answered (ACL-13)
        if envelope.conversation_id is None:  # a signed message is passed on unchanged
            envelope = msgspec.structs.replace(envelope, conversation_id=letter.order)
        caller = msgspec.json.decode(letter.headers[CALLER], type=Caller) if CALLER in letter.headers else ANONYMOUS
        card = self._services.rights.visible(caller, self._services.agents[agent].card, DOOR)
        try:
            if is_encrypted(envelope.payload):
                raise encrypted_to_nobody(agent)
            if card is None:
                raise NotFound(f"there is no agent {agent!r} here")
            await self._act(envelope, agent, card, caller)
        except (Unavailable, StoreUnavailable):
            raise  # it is delivered again
        except SabirError as exc:
            if isinstance(exc, NotFound) and exc.is_hidden:
                ask = TurnRequest(Message.text(""), DOOR, agent, Credentials(caller.address, caller=caller))
                await self._services.exchange.audit(ask, exc, None, caller)
            await self._reports.answer(envelope, agent, *refusal_of(envelope.performative, exc))

    async def _act(self, envelope: Envelope, agent: str, card: Card, caller: Caller) -> None:
        match envelope.performative:
            case "TASK_REQUEST":
                await self._request(envelope, agent, card, caller)
            case "QUERY_CAPABILITIES":
                capabilities = capabilities_of(query_of(envelope), card)
                await self._reports.answer(envelope, agent, "INFORM_CAPABILITIES", capabilities)
            case "QUERY_IF" | "QUERY_REF":
                await self._query(envelope, agent, card, caller)
            case "CALL_FOR_PROPOSALS":
                await self._call(envelope, agent, card)
            case "ACCEPT_PROPOSAL":
                await self._awarded(envelope, agent, caller)
            case "PROPOSE":
                reason = {"reason_code": "unsupported_function", "reason_text": f"{agent} takes tasks, not proposals"}
                await self._reports.answer(envelope, agent, "REJECT_PROPOSAL", reason)
            case "SUBSCRIBE":
                await self._subscribe(envelope, agent, card, caller)
            case "INFORM_INPUT":
                await self._input(envelope, agent, caller)
            case "CANCEL":
                await self._cancel(envelope, agent, caller)
            case _:
                return  # RENEW, REJECT_PROPOSAL and remarks change only the conversation

    async def _request(self, envelope: Envelope, agent: str, card: Card, caller: Caller) -> None:
        language, ontology, refused = negotiated(envelope, card)
        if refused is not None:
            reason, _, text = refused.partition(": ")
            return await self._reports.answer(
                envelope, agent, "NOT_UNDERSTOOD", {"reason_code": reason, "reason_text": text}
            )
        task = await self._submit(envelope, agent, caller)
        payload: dict[str, Any] = {"status": "accepted", "task_id_assigned": task.id}
        if len(envelope.languages) > 1 or len(envelope.ontologies) > 1:
            payload["language"], payload["ontology"] = language, ontology
        await self._reports.answer(envelope, agent, "TASK_ACCEPT", payload)
        await self._reports.begin(envelope, agent, caller, task)

    async def _submit(self, envelope: Envelope, agent: str, caller: Caller) -> TaskRow:
        seal = self._services.seal
        place = f"{caller.id}/{envelope.sender_id}/{agent}/{envelope.conversation_id}"
        exchange = self._services.exchange
        message = message_of(envelope)
        if exchange.agents[agent].card.remembers:
            conversation = seal.pseudonym("acl conversation", place)
            message = message.with_part(self._services.conversations.token(conversation, caller, Tokens()))
        ask = TurnRequest(
            message,
            DOOR,
            agent,
            Credentials(caller.address, caller=caller),
            key=envelope.message_id,
            trace=_trace_of(envelope),
            hops=hops_of(envelope.extra.get("hops", 0)),
        )
        message_id = "".join(
            seal.pseudonym(kind, f"{place}/{envelope.message_id}") for kind in ("acl task", "acl task 2")
        )
        return await self._services.tasks.submit(ask, task_id=message_id, detail={"acl": envelope.message_id})

    async def _query(self, envelope: Envelope, agent: str, card: Card, caller: Caller) -> None:
        payload = envelope.payload
        if envelope.performative == "QUERY_IF":
            known = holds(
                payload.get("condition"), self._services, agent, await self._dialogues.store.count_open(agent)
            )
            if known is not None:
                return await self._reports.answer(envelope, agent, "INFORM_IF", known)
        else:
            reference = str(payload.get("reference", ""))
            found = value_of(reference, card, known_terms(card, self._settings.ontologies))
            if found is not None:
                return await self._reports.answer(
                    envelope, agent, "INFORM_REF", {"reference": reference, "value": found}
                )
        await self._reports.begin(envelope, agent, caller, await self._submit(envelope, agent, caller))

    async def _call(self, envelope: Envelope, agent: str, card: Card) -> None:
        """A plain agent bids with its description: the caller chooses by card and load."""
        load = await self._dialogues.store.count_open(agent)
        proposal = {"agent_id": agent, "description": card.description, "open_conversations": load}
        await self._reports.answer(envelope, agent, "PROPOSE", {"proposal": proposal})

    async def _awarded(self, envelope: Envelope, agent: str, caller: Caller) -> None:
        calls = [
            decode(said.body)
            for said in await self._dialogues.store.utterances(envelope.conversation_id or "")
            if said.performative == "CALL_FOR_PROPOSALS"
            and (said.sender, said.receiver) == (envelope.sender_id, agent)  # others may use the same conversation id
        ]
        if not calls:
            raise NotFound("the call for proposals is not known any more")
        await self._reports.begin(calls[-1], agent, caller, await self._submit(calls[-1], agent, caller))

    async def _input(self, envelope: Envelope, agent: str, caller: Caller) -> None:
        key = key_of(envelope, agent)
        report = await self._reports.known(key)
        if report is None:
            raise NotFound("no task of this conversation waits for input")
        with suppress(Conflict):  # answered before: a duplicate letter
            await self._services.tasks.answer(report.task, report.caller, answer_of(envelope.payload))
        self._reports.wake(key)

    async def _cancel(self, envelope: Envelope, agent: str, caller: Caller) -> None:
        key = key_of(envelope, agent)
        report = await self._reports.known(key)
        if report is not None and decode(report.opener).performative != "SUBSCRIBE":
            with suppress(Conflict):  # it has ended, and its result wins
                await self._services.tasks.cancel(report.task, report.caller)
            return self._reports.wake(key)
        if report is not None:
            await self._reports.end(key)
        # Nothing is running: a bid, a subscription, or finished work.
        return await self._reports.answer(envelope, agent, "INFORM_DONE", {})

    # -- subscriptions ----------------------------------------------------------------------------

    async def _subscribe(self, envelope: Envelope, agent: str, card: Card, caller: Caller) -> None:
        """Accept a subscription to the events of the caller's own task, or to a topic that the agent publishes."""
        content = structured(envelope.performative, envelope.payload)
        assert isinstance(content, Subscribe)
        accepted = {"status": "accepted"}
        if content.topic == TASK_TOPIC:
            task = await self._services.tasks.find(str((content.template or {}).get("task_id")), caller)
            await self._reports.answer(envelope, agent, "TASK_ACCEPT", accepted)
            return await self._reports.begin(envelope, agent, caller, task)
        if content.topic in card.publishes:
            return await self._reports.answer(envelope, agent, "TASK_ACCEPT", accepted)
        known = ", ".join((*card.publishes, TASK_TOPIC))
        reason = {"reason_code": "unsupported_value", "reason_text": f"$.payload.topic: expected one of {known}"}
        return await self._reports.answer(envelope, agent, "TASK_REJECT", {"status": "rejected", **reason})

    async def publish(self, agent: str, topic: str, event: JSON, key: str) -> int:
        """Send an event to the subscribers of a topic; returns how many there are.

        A subscriber whose inbox is full misses it; the others do not.
        """
        sent = 0
        for row in await self._dialogues.store.dialogues(agent=agent, limit=_MAX_SUBSCRIBERS):
            if row.protocol != "subscribe" or not row.state.startswith("active") or topic_of(row) != topic:
                continue
            opener = await self._dialogues.store.utterance(row.opener, row.initiator, agent)
            if opener is None or row.participant != agent:
                continue
            envelope = msgspec.structs.replace(decode(opener.body), conversation_id=row.conversation)
            payload = {"topic": topic, "event": event}
            message_id = id_of(row.opener, row.initiator, topic, key)
            reply = answer_to(envelope, "NOTIFY", payload, sender=agent, message_id=message_id)
            try:
                sent += not (await self._dialogues.post(reply, row.initiator)).duplicate
            except (Conflict, RateLimited) as exc:
                logger.warning("%s did not get an event of %s: %s", row.initiator, agent, exc)
        return sent


def refusal_of(performative: str, exc: SabirError) -> tuple[str, dict[str, Any]]:
    """The act and payload that report an error, as far as the act may follow this one."""
    act, payload = payload_for(exc)
    report, text = report_of(exc), str(exc)
    if act == TASK_REJECT and performative not in OPENERS:
        return FAILURE, failure(report, text)  # the task was accepted before
    if act == FAILURE and performative == "SUBSCRIBE":
        return TASK_REJECT, rejection(report, text)
    if act != NOT_UNDERSTOOD and performative == "PROPOSE":
        return "REJECT_PROPOSAL", not_understood(report.reason, text)
    return act, payload


def _trace_of(envelope: Envelope) -> str | None:
    trace = envelope.extra.get("traceparent")
    return trace[:MAX_TRACE] if isinstance(trace, str) else None


class _Handler:
    """Receives the letters of one agent."""

    def __init__(self, bridge: Bridge, agent: str) -> None:
        self._bridge = bridge
        self._agent = agent

    async def __call__(self, letter: Letter) -> None:
        await self._bridge.handle(self._agent, letter)
