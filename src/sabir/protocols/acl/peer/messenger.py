"""An agent that speaks ACL from Python: sends acts, reads its inbox, and follows the rules of conversations.

::

    async with Messenger("https://example.com/acl", "eddy") as eddy:
        conversation = await eddy.request("jules", "Debug this", {"code": "…"})
        async for message in conversation:
            print(message.performative)

    @eddy.on("TASK_REQUEST")
    async def work(conversation, message): ...

Acts are checked against the table on sending and on receiving; an act out of sequence is rejected here, and never sent.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing, suppress
from types import TracebackType
from typing import Any, Final, Self
from uuid import UUID, uuid5

import msgspec
from joserfc.jwk import KeySet, OKPKey

from sabir.aio import cancel_and_wait
from sabir.dialogues.states import OPENERS, Dialogue, P, act_of, is_remark, opened
from sabir.errors import BadInput, Cancelled, Conflict, PeerError, PeerRefused, PeerUnavailable, SabirError
from sabir.ids import ordered_uuid
from sabir.protocols.acl.wire.acts import ACTS
from sabir.protocols.acl.wire.envelope import Envelope, decode, envelope_of, plain, stamp
from sabir.protocols.acl.wire.ontologies import result_ontology
from sabir.protocols.acl.wire.payloads import is_encrypted, status_of
from sabir.protocols.acl.wire.signatures import decrypted, encrypted, signed
from sabir.protocols.peer import Identity, OnWire

from .link import Link

logger = logging.getLogger("sabir.acl")

_PAUSES: Final = (0.1, 0.5, 2.0, 5.0)  # seconds before a lost stream is reopened; the last repeats
_REMEMBERED: Final = 10_000  # ids of read messages
_MAX_CONVERSATIONS: Final = 10_000  # that are remembered; beyond that, ended ones are dropped
_GATEWAY: Final = "gateway"
_SPACE: Final = UUID("0b8a4f8e-6a3d-5d0f-9a55-1f0f7c3c9b52")
_ACKNOWLEDGED_AT_ONCE: Final = 1000

Handler = Callable[["AclConversation", Envelope], Awaitable[None]]


class AclConversation:
    """One conversation with one other agent."""

    def __init__(self, messenger: Messenger, dialogue: Dialogue, opener: Envelope) -> None:
        self._messenger = messenger
        self.dialogue = dialogue
        self.opener = opener
        self.peer = dialogue.peer_of(messenger.name)
        self._arrived: asyncio.Queue[tuple[Envelope, int]] = asyncio.Queue()
        self.last: Envelope | None = None  # the last message read
        self._said = 0

    @property
    def id(self) -> str:
        return self.dialogue.conversation

    @property
    def state(self) -> str:
        return self.dialogue.state

    @property
    def is_over(self) -> bool:
        return self.dialogue.is_over and self._arrived.empty()

    async def say(self, act: str, payload: dict[str, Any], *, to: Envelope | None = None, **more: Any) -> Envelope:
        """Send the next act of this conversation.

        Raises:
            Conflict: it is out of sequence; nothing was sent.
            PeerError: it could not be sent.
        """
        answered = to or self._answered(act)
        role = self.dialogue.role_of(self._messenger.name)
        if role == P and "message_id" not in more:
            more["message_id"] = self._next_id(act)
        envelope = self._messenger.make(
            act, self.peer, payload, in_reply_to=answered.message_id, conversation_id=self.id, **more
        )
        if act == "INFORM_RESULT" and "ontology" not in more and self.opener.ontologies:
            success = status_of(payload.get("task_status")) == "success"
            ontology = result_ontology(self.opener.ontologies[0], success=success)
            envelope = msgspec.structs.replace(envelope, ontology=ontology)
        await self._send(envelope, self.dialogue.after(act_of(envelope, self.dialogue), role, envelope.message_id))
        return envelope

    async def _send(self, envelope: Envelope, follows: Dialogue) -> None:
        """Post the act. The state moves first: the answer may arrive before the response to the post."""
        before = self.dialogue
        self.dialogue = follows
        try:
            await self._messenger.post(envelope)
        except BaseException:
            if self.dialogue is follows:  # otherwise an answer shows that it was sent
                self.dialogue = before
            raise
        self._said += 1

    def _next_id(self, act: str) -> str:
        """An id derived from what is answered: a handler that runs again after a crash repeats it, and a repeated
        message is dropped as a duplicate."""
        names = (self.opener.sender_id, self.opener.message_id, self._messenger.name, str(self._said), act)
        return str(uuid5(_SPACE, "/".join(names)))

    def _answered(self, act: str) -> Envelope:
        """What an act answers by default: the question for an answer, otherwise the opener."""
        if act in ("INFORM_INPUT", "ACCEPT_PROPOSAL", "REJECT_PROPOSAL") and self.last is not None:
            return self.last
        return self.opener

    async def answer(self, answer: Any) -> None:
        """Answer a REQUEST_INPUT."""
        await self.say("INFORM_INPUT", {"answer": answer})

    async def cancel(self, reason: str = "") -> None:
        """Ask the other side to stop; a result that is already on its way wins."""
        await self.say("CANCEL", {"reason_text": reason} if reason else {})

    async def renew(self, seconds: float | None = None) -> None:
        """Extend the lease of a subscription."""
        await self.say("RENEW", {} if seconds is None else {"lease_seconds": seconds})

    def export(self) -> dict[str, Any]:
        """The state of this conversation as plain data, for ``Messenger.resume``."""
        last = self.last
        return {
            "dialogue": msgspec.to_builtins(self.dialogue),
            "opener": plain(self.opener),
            "last": None if last is None else plain(last),
        }

    def __aiter__(self) -> AsyncIterator[Envelope]:
        return self

    async def __anext__(self) -> Envelope:
        if self.is_over:
            raise StopAsyncIteration
        envelope, number = await self._arrived.get()
        self.last = envelope
        self._messenger.done(number)
        return envelope

    async def next(self, seconds: float | None = None) -> Envelope | None:
        """The next message, or None if none arrives in time."""
        with suppress(TimeoutError, StopAsyncIteration):
            async with asyncio.timeout(seconds):
                return await anext(self)
        return None

    async def result(self, seconds: float | None = None) -> Envelope:
        """The message that ends the conversation.

        Raises:
            TimeoutError: it has not ended in time.
        """
        last = self.last
        async with asyncio.timeout(seconds):
            async for envelope in self:
                last = envelope
        assert last is not None
        return last

    def take(self, envelope: Envelope, number: int) -> None:
        """Handle a message of this conversation.

        Raises:
            Conflict: it is out of sequence.
        """
        if envelope.sender_id == _GATEWAY:  # a timer: the conversation has ended
            self.dialogue = self.dialogue.timed_out()
        elif not is_remark(envelope, self.dialogue):
            role = self.dialogue.role_of(envelope.sender_id)
            self.dialogue = self.dialogue.after(act_of(envelope, self.dialogue), role, envelope.message_id)
        self._arrived.put_nowait((envelope, number))


class Messenger:
    """One agent's side of ACL."""

    def __init__(
        self,
        url: str,
        name: str,
        *,
        headers: Mapping[str, str] | None = None,
        identities: tuple[Identity, ...] = (),
        verify: ssl.SSLContext | None = None,
        on_wire: OnWire | None = None,
        socket: str | None = None,
        signing_key: OKPKey | None = None,
        decryption_key: OKPKey | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.name = name
        self.link = Link(url, headers=headers, identities=identities, verify=verify, on_wire=on_wire, socket=socket)
        self._signing_key = signing_key
        self._decryption_key = decryption_key
        self._clock = clock
        self._handlers: dict[str, Handler] = {}
        self._conversations: dict[tuple[str, str], AclConversation] = {}
        self._seen: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._pending: set[int] = set()  # numbers of messages not handled yet
        self._handled: list[int] = []  # handled, but not acknowledged yet
        self._handling: set[asyncio.Task[None]] = set()
        self._reading: asyncio.Task[None] | None = None
        self._acking: asyncio.Task[None] | None = None
        self._ack_due = asyncio.Event()
        self.broken: PeerError | None = None  # why the inbox cannot be read

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def start(self) -> None:
        """Start reading the inbox."""
        if self._reading is None:
            self._reading = asyncio.create_task(self._read(), name=f"acl inbox of {self.name}")
            self._acking = asyncio.create_task(self._acknowledge(), name=f"acl inbox of {self.name}: acknowledging")

    async def close(self) -> None:
        await cancel_and_wait([self._reading, *self._handling])
        await cancel_and_wait([self._acking])
        with suppress(PeerError):  # unacknowledged messages are delivered again, and recognised
            await self._acknowledge_handled()
        self._reading = self._acking = None
        await self.link.close()

    # -- sending ----------------------------------------------------------------------------------

    def on(self, act: str) -> Callable[[Handler], Handler]:
        """Register a handler for conversations opened by this act: ``@agent.on("TASK_REQUEST")``."""
        if act not in OPENERS:
            raise ValueError(f"{act} opens no conversation; expected {', '.join(OPENERS)}")

        def register(handler: Handler) -> Handler:
            self._handlers[act] = handler
            return handler

        return register

    def now(self) -> float:
        return self._clock()

    def make(self, act: str, to: str | Iterable[str], payload: dict[str, Any], **more: Any) -> Envelope:
        """A message from this agent."""
        receiver = {"agent_id": to} if isinstance(to, str) else {"agent_ids": list(to)}
        given = {
            "message_id": ordered_uuid(),
            "performative": act,
            "sender": {"agent_id": self.name},
            "receiver": more.pop("receiver", receiver),
            "timestamp": stamp(self._clock()),
            "ontology": ACTS[act].ontology or None,
            "payload": payload,
            **more,
        }
        return envelope_of({name: value for name, value in given.items() if value is not None})

    async def post(self, envelope: Envelope) -> dict[str, Any]:
        """Send a message unchanged; raises as ``Link.post`` does."""
        if self._signing_key is not None:
            envelope = signed(envelope, self._signing_key)
        return await self.link.post(envelope)

    async def open(self, act: str, to: str, payload: dict[str, Any], **more: Any) -> AclConversation:
        """Open a conversation with one agent."""
        (conversation,) = await self._open_with(self.make(act, to, payload, **more), [to])
        return conversation

    async def open_many(
        self, act: str, to: Iterable[str], payload: dict[str, Any], **more: Any
    ) -> list[AclConversation]:
        """Open a conversation with each of these agents by one message."""
        names = list(dict.fromkeys(to))
        return await self._open_with(self.make(act, names, payload, **more), names)

    def resume(self, exported: Mapping[str, Any]) -> AclConversation:
        """Resume a conversation that another process exported.

        Raises:
            msgspec.ValidationError: not the output of ``AclConversation.export``.
            BadInput: its messages are invalid.
        """
        dialogue = msgspec.convert(exported.get("dialogue"), Dialogue)
        last = exported.get("last")
        conversation = AclConversation(self, dialogue, envelope_of(exported.get("opener")))
        conversation.last = None if last is None else envelope_of(last)
        self._keep(conversation)
        return conversation

    def is_open(self, conversation: str, peer: str) -> bool:
        """Whether a conversation with this agent is open."""
        known = self._conversations.get((conversation, peer))
        return known is not None and not known.dialogue.is_over

    def _keep(self, conversation: AclConversation) -> None:
        if len(self._conversations) >= _MAX_CONVERSATIONS:
            over = [key for key, item in self._conversations.items() if item.is_over]
            for key in over:
                del self._conversations[key]
        self._conversations[conversation.id, conversation.peer] = conversation

    async def _open_with(self, envelope: Envelope, names: list[str]) -> list[AclConversation]:
        made = []
        for name in names:
            conversation = AclConversation(self, opened(envelope, name), envelope)
            self._keep(conversation)
            made.append(conversation)
        try:
            self.start()
            await self.post(envelope)
        except SabirError:
            for conversation in made:
                self._conversations.pop((conversation.id, conversation.peer), None)
            raise
        return made

    async def request(
        self,
        to: str,
        description: str,
        parameters: dict[str, Any] | None = None,
        *,
        task_type: str = "ask",
        **more: Any,
    ) -> AclConversation:
        """Ask an agent to do something."""
        payload: dict[str, Any] = {"task_type": task_type, "task_description": description}
        if parameters:
            payload["task_parameters"] = parameters
        if "priority" in more:
            payload["priority"] = more.pop("priority")
        return await self.open("TASK_REQUEST", to, payload, **more)

    async def query_if(self, to: str, condition: Any, seconds: float = 60.0) -> bool | None:
        """Whether a condition holds; None if the agent does not know."""
        conversation = await self.open("QUERY_IF", to, {"condition": condition})
        answer = await conversation.result(seconds)
        result = _expected(answer, "INFORM_IF").get("result")
        return result if isinstance(result, bool) else None

    async def query_ref(self, to: str, reference: str, seconds: float = 60.0) -> Any:
        """The value of a reference."""
        conversation = await self.open("QUERY_REF", to, {"reference": reference})
        return _expected(await conversation.result(seconds), "INFORM_REF").get("value")

    async def capabilities(self, to: str, query: str = "summary", seconds: float = 60.0, **parameters: Any) -> Any:
        """An agent's capabilities: the payload of its INFORM_CAPABILITIES."""
        payload: dict[str, Any] = {"query_type": query}
        if parameters:
            payload["query_parameters"] = parameters
        conversation = await self.open("QUERY_CAPABILITIES", to, payload)
        return _expected(await conversation.result(seconds), "INFORM_CAPABILITIES")

    def encrypt(self, payload: dict[str, Any], keys: KeySet) -> dict[str, Any]:
        """A payload that only its receiver can read."""
        return encrypted(payload, keys)

    # -- receiving --------------------------------------------------------------------------------

    async def _read(self) -> None:
        failures = 0
        while True:
            try:
                async with aclosing(self.link.events(self.name)) as events:
                    async for number, data in events:
                        failures, self.broken = 0, None
                        self._arrived(number, data)
            except PeerRefused as exc:
                self.broken = exc
                logger.warning("The inbox of %s cannot be read: %s", self.name, exc)
                failures = len(_PAUSES)
            except PeerError as exc:
                self.broken = exc
            await asyncio.sleep(_PAUSES[min(failures, len(_PAUSES) - 1)])
            failures += 1

    def _arrived(self, number: int, data: bytes) -> None:
        if number in self._pending:
            return None  # the stream was lost and reopened; it is being handled
        self._pending.add(number)
        try:
            envelope = decode(data)
        except BadInput as exc:
            logger.warning("A message to %s cannot be read: %s", self.name, exc)
            return self.done(number)
        key = envelope.sender_id, envelope.message_id
        if key in self._seen:
            return self.done(number)
        self._seen[key] = None
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        try:
            opened = self._opened(envelope)
        except BadInput as exc:  # encrypted to somebody else, or something else is inside
            logger.warning("A message to %s cannot be decrypted: %s", self.name, exc)
            self._remark(envelope, "invalid_payload_structure", str(exc))
            return self.done(number)
        return self._dispatch(opened, number)

    def _opened(self, envelope: Envelope) -> Envelope:
        """A message with a readable payload."""
        if self._decryption_key is None or not is_encrypted(envelope.payload):
            return envelope
        payload = decrypted(envelope.payload, self._decryption_key)
        return envelope_of({**plain(envelope), "payload": payload})

    def _dispatch(self, envelope: Envelope, number: int) -> None:
        conversation = self._conversation_of(envelope)
        if conversation is not None and not _opens_again(envelope, conversation.dialogue):
            try:
                conversation.take(envelope, number)
            except Conflict as exc:
                # A cancellation that crossed the end is not an error of its sender: the end wins (ACL-28).
                if not (envelope.performative == "CANCEL" and conversation.dialogue.is_over):
                    self._remark(envelope, "unexpected_act", str(exc))
                self.done(number)
            return None
        handler = self._handlers.get(envelope.performative)
        if handler is None:
            self._remark(envelope, "unsupported_act", f"{self.name} does not take {envelope.performative}")
            return self.done(number)
        conversation = AclConversation(self, opened(envelope, self.name), envelope)
        self._keep(conversation)
        self._run(self._handle(handler, conversation, envelope, number))

    def _conversation_of(self, envelope: Envelope) -> AclConversation | None:
        conversation = envelope.conversation_id or envelope.message_id
        peer = envelope.sender_id
        if peer == _GATEWAY:
            peer = str(envelope.extra.get("about", ""))
        return self._conversations.get((conversation, peer))

    async def _handle(self, handler: Handler, conversation: AclConversation, envelope: Envelope, number: int) -> None:
        try:
            await handler(conversation, envelope)
        except (Conflict, Cancelled) as exc:
            logger.info("%s: %s", self.name, exc)
        except PeerUnavailable as exc:
            logger.warning("%s could not answer; retrying: %s", self.name, exc)
            self._conversations.pop((conversation.id, conversation.peer), None)
            await asyncio.sleep(_PAUSES[1])
            return self._dispatch(envelope, number)
        except PeerError as exc:
            logger.warning("%s could not answer: %s", self.name, exc)
        except Exception:
            logger.exception("The handler of %s failed on %s", self.name, envelope.performative)
            payload = {"status": "failure", "error_code": "internal_error", "error_text": f"{self.name} failed"}
            with suppress(SabirError):
                await conversation.say("FAILURE", payload)
        self.done(number)

    def _remark(self, envelope: Envelope, reason: str, text: str) -> None:
        """Report that a message was not understood, unless it is such a report itself (ACL-13)."""
        if envelope.performative == "NOT_UNDERSTOOD" or envelope.sender_id == _GATEWAY:
            return
        remark = self.make(
            "NOT_UNDERSTOOD",
            envelope.sender_id,
            {"reason_code": reason, "reason_text": text},
            in_reply_to=envelope.message_id,
            conversation_id=envelope.conversation_id,
        )
        self._run(self._send_remark(remark))

    async def _send_remark(self, envelope: Envelope) -> None:
        with suppress(PeerError):
            await self.post(envelope)

    def _run(self, work: Any) -> None:
        task = asyncio.create_task(work, name=f"acl agent {self.name}")
        self._handling.add(task)
        task.add_done_callback(self._handling.discard)

    def done(self, number: int) -> None:
        """Mark a message as handled; it is acknowledged soon."""
        self._pending.discard(number)
        self._handled.append(number)
        self._ack_due.set()

    async def _acknowledge(self) -> None:
        while True:
            await self._ack_due.wait()
            self._ack_due.clear()
            with suppress(PeerError):  # the next acknowledgement includes it
                await self._acknowledge_handled()

    async def _acknowledge_handled(self) -> None:
        while self._handled:
            numbers = self._handled[:_ACKNOWLEDGED_AT_ONCE]
            await self.link.acknowledge_numbers(self.name, numbers)
            del self._handled[: len(numbers)]


def _expected(envelope: Envelope, act: str) -> dict[str, Any]:
    """The payload of a reply with this act.

    Raises:
        PeerRefused: it is another act.
    """
    if envelope.performative != act:
        payload = envelope.payload
        text = payload.get("error_text") or payload.get("reason_text") or envelope.performative
        code = payload.get("error_code") or payload.get("reason_code")
        raise PeerRefused(envelope.sender_id, str(text), str(code) if code else None)
    return envelope.payload


def _opens_again(envelope: Envelope, dialogue: Dialogue) -> bool:
    """Whether a message continues a conversation that has ended, which only its initiator can do."""
    return dialogue.is_over and envelope.performative in OPENERS and envelope.sender_id == dialogue.initiator
