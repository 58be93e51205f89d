"""Codons: conversations combined into patterns (draft 9).

Each is a function over a ``Messenger``: ``whispering_wind`` asks many agents for their capabilities and ranks them,
``delegate`` hands a task to another agent, ``contract_net`` lets agents bid, ``subscribe`` follows a topic and renews
its lease, ``run_saga`` runs steps in order and undoes them when one fails.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from uuid import UUID, uuid5

import msgspec
import yaml

from sabir.errors import ConfigError, Conflict, PeerError, PeerRefused
from sabir.protocols.acl.wire.envelope import Envelope, envelope_of, stamp
from sabir.protocols.acl.wire.payloads import status_of

from .messenger import AclConversation, Messenger

_SAGAS: Final = UUID("5d3f9a44-6e0e-5c85-8f43-3a7d0d6d0c11")
Choose = Callable[[Sequence[Envelope]], Sequence[Envelope]]


class Candidate(msgspec.Struct, frozen=True):
    """An agent and how well it matches: the share of the wanted capabilities that it has."""

    name: str
    score: float
    matched: tuple[str, ...] = ()


async def first_replies(
    conversations: Iterable[AclConversation], seconds: float
) -> list[tuple[AclConversation, Envelope]]:
    """The first reply of each, if it arrives in time (ACL-28: all first replies, or the deadline)."""
    listed = list(conversations)
    replies = await asyncio.gather(*(conversation.next(seconds) for conversation in listed))
    return [(conversation, reply) for conversation, reply in zip(listed, replies, strict=True) if reply is not None]


async def results(conversations: Iterable[AclConversation], seconds: float) -> list[tuple[AclConversation, Envelope]]:
    """The end of each, if it ends in time (ACL-28: all results, or the deadline)."""

    async def one(conversation: AclConversation) -> Envelope | None:
        with suppress(TimeoutError):
            return await conversation.result(seconds)
        return None

    listed = list(conversations)
    ended = await asyncio.gather(*(one(conversation) for conversation in listed))
    return [(conversation, last) for conversation, last in zip(listed, ended, strict=True) if last is not None]


async def whispering_wind(
    messenger: Messenger, agents: Iterable[str], wanted: Sequence[str], *, seconds: float = 10.0
) -> list[Candidate]:
    """Ask many agents for capabilities; returns those that have any, best first."""
    query = {"query_type": "specific", "query_parameters": {"capabilities": list(wanted), "match_type": "any"}}
    asked = await messenger.open_many("QUERY_CAPABILITIES", agents, query, reply_by=_by(messenger, seconds))
    found: list[Candidate] = []
    for conversation, reply in await first_replies(asked, seconds):
        matched = tuple(reply.payload.get("matched_capabilities") or ())
        if reply.performative == "INFORM_CAPABILITIES" and matched:
            found.append(Candidate(conversation.peer, len(matched) / len(wanted), matched))
    return sorted(found, key=lambda candidate: (-candidate.score, candidate.name))


async def delegate(
    messenger: Messenger,
    to: str,
    description: str,
    parameters: dict[str, Any] | None = None,
    *,
    task_type: str = "ask",
    ontology: str | None = None,
    seconds: float = 300.0,
    on_message: Callable[[Envelope], None] | None = None,
) -> Envelope:
    """Give a task to an agent and wait for its result; each message on the way goes to ``on_message``.

    Raises:
        PeerRefused: it was rejected, failed or was not understood.
        TimeoutError: no result in time.
    """
    conversation = await messenger.request(to, description, parameters, task_type=task_type, ontology=ontology)
    last: Envelope | None = None
    async with asyncio.timeout(seconds):
        async for message in conversation:
            last = message
            if on_message is not None:
                on_message(message)
    if last is None or last.performative != "INFORM_RESULT":
        payload = last.payload if last is not None else {}
        text = payload.get("error_text") or payload.get("reason_text") or "it ended without a result"
        code = payload.get("error_code") or payload.get("reason_code")
        raise PeerRefused(to, str(text), str(code) if code else None)
    return last


def cheapest(proposals: Sequence[Envelope]) -> Sequence[Envelope]:
    """The proposal with the lowest price."""
    priced = [proposal for proposal in proposals if isinstance(proposal.payload.get("price"), int | float)]
    return sorted(priced, key=lambda proposal: proposal.payload["price"])[:1] or proposals[:1]


class Awarded(msgspec.Struct, frozen=True):
    """The outcome of a contract net."""

    proposals: tuple[Envelope, ...]
    results: tuple[Envelope, ...]
    silent: tuple[str, ...]  # those without a reply in time


async def contract_net(
    messenger: Messenger,
    agents: Iterable[str],
    description: str,
    parameters: dict[str, Any] | None = None,
    *,
    task_type: str = "task",
    choose: Choose = cheapest,
    reply_seconds: float = 10.0,
    result_seconds: float = 300.0,
) -> Awarded:
    """Call for proposals, award the chosen ones, reject the others, and wait for the results."""
    payload: dict[str, Any] = {"task_type": task_type, "task_description": description}
    if parameters:
        payload["task_parameters"] = parameters
    called = await messenger.open_many("CALL_FOR_PROPOSALS", agents, payload, reply_by=_by(messenger, reply_seconds))
    replies = await first_replies(called, reply_seconds)
    bids = {conversation.peer: (conversation, bid) for conversation, bid in replies if bid.performative == "PROPOSE"}
    # The gateway's timeout message for a silent bidder is not the bidder's reply.
    replied = {conversation.peer for conversation, reply in replies if reply.sender_id == conversation.peer}
    chosen = {bid.sender_id for bid in choose([bid for _, bid in bids.values()])}
    working: list[AclConversation] = []
    for name, (conversation, _) in bids.items():
        with suppress(Conflict, PeerError):  # a lost bidder does not stop the others
            if name in chosen:
                await conversation.say("ACCEPT_PROPOSAL", {})
                working.append(conversation)
            else:
                await conversation.say("REJECT_PROPOSAL", {"reason_text": "another bid was chosen"})
    for conversation in called:
        if conversation.peer not in replied:
            with suppress(Conflict, PeerError):
                await conversation.cancel("no reply in time")
    ended = await results(working, result_seconds)
    silent = tuple(conversation.peer for conversation in called if conversation.peer not in replied)
    return Awarded(tuple(bid for _, bid in bids.values()), tuple(last for _, last in ended), silent)


async def subscribe(
    messenger: Messenger,
    to: str,
    topic: str,
    template: Mapping[str, Any] | None = None,
    *,
    lease_seconds: float = 60.0,
) -> AsyncGenerator[Any, None]:
    """The events of a topic as they arrive; renews the lease in time, and cancels the subscription at the end.

    Raises:
        PeerRefused: the subscription is rejected, or fails.
    """
    payload: dict[str, Any] = {"topic": topic, "lease_seconds": lease_seconds}
    if template is not None:
        payload["template"] = dict(template)
    conversation = await messenger.open("SUBSCRIBE", to, payload)
    renewed = time.monotonic()
    try:
        while not conversation.is_over:
            left = renewed + lease_seconds / 3 - time.monotonic()
            if left <= 0 and conversation.state == "active":  # however many events arrive
                await conversation.renew(lease_seconds)
                renewed, left = time.monotonic(), lease_seconds / 3
            message = await conversation.next(left if left > 0 else lease_seconds / 3)
            if message is None:
                continue
            if message.performative == "NOTIFY":
                yield message.payload.get("event")
            elif message.performative != "TASK_ACCEPT":
                text = message.payload.get("error_text") or message.payload.get("reason_text")
                raise PeerRefused(to, str(text or message.performative))
    finally:
        if conversation.state == "active":
            with suppress(PeerError, Conflict):
                await conversation.cancel()


# -- saga -----------------------------------------------------------------------------------------


class SagaStep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One step of a saga: who does what, and what undoes it."""

    name: str
    agent: str
    task: str
    parameters: dict[str, Any] = {}
    undo: str | None = None  # the task that undoes it, at the same agent
    seconds: float = 300.0


class Saga(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Steps that are all done, or all undone."""

    id: str
    steps: tuple[SagaStep, ...]

    @classmethod
    def load(cls, path: Path | str) -> Saga:
        """A saga from a YAML file.

        Raises:
            ConfigError: it is not a saga; says where.
        """
        try:
            return msgspec.convert(yaml.safe_load(Path(path).read_text(encoding="utf-8")), cls)
        except (OSError, yaml.YAMLError, msgspec.ValidationError) as exc:
            raise ConfigError(f"saga {path}: {exc}") from None


class SagaState(msgspec.Struct, frozen=True):
    """The state of a saga: the result of each step, and what was undone after one failed."""

    done: dict[str, dict[str, Any]] = {}
    undone: tuple[str, ...] = ()
    stuck: tuple[str, ...] = ()  # steps that could not be undone
    failed: str = ""  # the step that failed
    reason: str = ""

    @property
    def outcome(self) -> str:
        return "failed" if self.failed else "done"


async def run_saga(messenger: Messenger, saga: Saga, state: Path | str) -> SagaState:
    """Run the steps in order; if one fails, undo those before it, the last first.

    Progress is kept in the file ``state``. After a restart it resumes from there: message ids are derived from the saga
    and the step, so that a step which was already requested is not done twice.
    """
    path = Path(state)
    known = _kept(path)
    for step in saga.steps:
        if step.name in known.done or known.failed:
            continue
        ended = await _step(messenger, saga, step, step.task, step.name)
        if _succeeded(ended):
            known = msgspec.structs.replace(known, done={**known.done, step.name: ended.payload})
        else:
            reason = ended.payload.get("error_text") or ended.payload.get("reason_text")
            reason = reason or ended.payload.get("result_summary") or ended.performative
            known = msgspec.structs.replace(known, failed=step.name, reason=str(reason))
        _keep(path, known)
    for step in reversed(saga.steps if known.failed else ()):
        if step.name in known.done and step.undo is not None and step.name not in known.undone:
            if _succeeded(await _step(messenger, saga, step, step.undo, f"{step.name}/undo")):
                known = msgspec.structs.replace(known, undone=(*known.undone, step.name))
            elif step.name not in known.stuck:
                known = msgspec.structs.replace(known, stuck=(*known.stuck, step.name))
            _keep(path, known)
    return known


def _succeeded(envelope: Envelope) -> bool:
    return envelope.performative == "INFORM_RESULT" and status_of(envelope.payload.get("task_status")) != "failure"


async def _step(messenger: Messenger, saga: Saga, step: SagaStep, task: str, name: str) -> Envelope:
    """The end of one step; if it was requested before a restart, the end that it had or will have."""
    message_id = str(uuid5(_SAGAS, f"{messenger.name}/{saga.id}/{name}"))
    conversation = await messenger.request(
        step.agent,
        task,
        step.parameters,
        task_type=task.split(" ")[0],
        message_id=message_id,
        conversation_id=message_id,
    )
    before = await messenger.link.conversation(message_id)
    for message in before.get("messages", ()):
        envelope = envelope_of({key: value for key, value in message.items() if key != "at"})
        if envelope.performative in ("INFORM_RESULT", "FAILURE", "TASK_REJECT", "NOT_UNDERSTOOD"):
            return envelope
    return await conversation.result(step.seconds)


def _kept(path: Path) -> SagaState:
    return msgspec.json.decode(path.read_bytes(), type=SagaState) if path.exists() else SagaState()


def _keep(path: Path, state: SagaState) -> None:
    """Write the state atomically."""
    new = path.with_suffix(".new")
    new.write_bytes(msgspec.json.encode(state))
    new.replace(path)


def _by(messenger: Messenger, seconds: float) -> str:
    return stamp(messenger.now() + seconds)
