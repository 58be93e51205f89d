"""A remote ACL agent as an Agent."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, Unpack
from uuid import UUID, uuid4, uuid5

import msgspec

from sabir.card import Skill
from sabir.dialogues.states import ENDED
from sabir.errors import BadInput, Cancelled, PeerError, PeerRefused, PeerUnavailable, PeerUnreadable, SabirError
from sabir.events import Event, Fault, Question, Reply
from sabir.ids import new_id
from sabir.message import Message
from sabir.protocols.acl.wire.content import answer_payload, event_of, request_of
from sabir.protocols.acl.wire.envelope import Envelope
from sabir.protocols.nlip.wire.json import question_message
from sabir.protocols.peer import Call, Clock, Peer, PeerOptionNames, PeerOptions

from .link import Link, agent_in, endpoint_of
from .messenger import AclConversation, Messenger

_MAX_CONVERSATIONS: Final = 10_000
_GOODBYE: Final = 2.0
_IDS: Final = UUID("0b0f6a7e-0b5e-5c1c-8f55-4f5b1a4f7c10")


class AclPeer(Peer):
    """``async with AclPeer("https://example.com/acl/jules") as jules: await jules.ask("Debug this")``."""

    protocol = "acl"

    def __init__(
        self,
        url: str,
        options: PeerOptions | None = None,
        *,
        agent: str | None = None,
        sender: str | None = None,
        **named: Unpack[PeerOptionNames],
    ) -> None:
        """Args besides those of every peer:

        agent: who is asked, if the address does not say; None: the first that the endpoint lists.
        sender: our own name at the remote gateway; None: a new one.
        """
        self.agent = agent or agent_in(url)
        options = replace(options or PeerOptions(), **named)
        super().__init__(endpoint_of(url), replace(options, name=options.name or self.agent))
        self._sender = sender
        self._messengers: OrderedDict[tuple[tuple[str, str], ...], Messenger] = OrderedDict()
        self._conversations: OrderedDict[str, str] = OrderedDict()  # ours → the remote id
        self._waiting: dict[str, AclConversation] = {}  # those that asked for input
        self._own = uuid4().hex
        self._is_resumed = False  # the name and the conversation are from an earlier process

    async def aclose(self) -> None:
        messengers = list(self._messengers.values())
        self._messengers.clear()
        for messenger in messengers:
            await messenger.close()

    async def discover(self) -> None:
        """Read the agent's description."""
        link = Link(self.url, **self._link_options({}))
        try:
            about = await link.about()
        finally:
            await link.close()
        listed = [item for item in about.get("agents", ()) if isinstance(item, dict)]
        if self.agent is None and listed:
            self.agent = str(listed[0].get("agent_id"))
        entry = next((item for item in listed if item.get("agent_id") == self.agent), None)
        if entry is not None:
            changes: dict[str, Any] = {"description": str(entry.get("description", ""))}
            with suppress(PeerError, TimeoutError):
                changes["skills"] = await self._skills()
            self.card = msgspec.structs.replace(self.card, **changes)

    async def _skills(self) -> tuple[Skill, ...]:
        messenger = self._messenger(Call())
        answer = await messenger.capabilities(await self._agent(), seconds=10.0)
        actions = answer.get("capabilities", {}).get("actions", ())
        return tuple(
            Skill(str(action["name"]), str(action["name"]), str(action.get("description", "")))
            for action in actions
            if isinstance(action, dict) and action.get("name") and action["name"] != self.agent
        )

    async def talk(self, message: Message, call: Call) -> AsyncGenerator[Event, None]:
        clock = Clock(call.seconds)
        try:
            async with asyncio.timeout(clock.left):
                conversation = await self._said(message, call)
        except TimeoutError:
            raise PeerUnavailable(self.address, "no answer in time") from None
        ended = False
        try:
            while not ended:
                envelope = await self._next(conversation, clock)
                event = event_of(envelope)
                if isinstance(event, Question):
                    self._waiting[call.conversation] = conversation
                    ended = True
                    yield event
                    yield Reply(question_message(event))  # for callers that only read the reply
                elif isinstance(event, Fault):
                    ended = True
                    yield self._fault(event, envelope)
                elif event is not None:
                    ended = isinstance(event, Reply)
                    yield event
        finally:
            if not ended and conversation.state not in ENDED:
                await self._let_go(conversation)

    async def _said(self, message: Message, call: Call) -> AclConversation:
        """Send the message, or the answer to a question, in a new conversation if the last one is not ours."""
        try:
            return await self._sent(message, call)
        except PeerRefused:
            if not self._is_resumed:
                raise
        self._is_resumed = False
        self._sender = None
        self._conversations.pop(call.conversation, None)
        await self.aclose()
        return await self._sent(message, call)

    async def _sent(self, message: Message, call: Call) -> AclConversation:
        messenger = self._messenger(call)
        waiting = self._waiting.pop(call.conversation, None)
        if waiting is not None and waiting.state == "waiting":
            await waiting.answer(answer_payload(message)["answer"])
            return waiting
        payload, _ = request_of(message)
        agent, place = await self._agent(), self._place(call)
        if messenger.is_open(place, agent):  # several concurrent turns without their own conversation
            place = str(uuid4())
        more: dict[str, Any] = {"conversation_id": place, "hops": call.hops}
        if call.key is not None:
            more["message_id"] = str(uuid5(_IDS, f"{self._own}/{call.key}"))
        return await messenger.open("TASK_REQUEST", agent, payload, **more)

    async def _next(self, conversation: AclConversation, clock: Clock) -> Envelope:
        try:
            async with asyncio.timeout(clock.left):
                return await anext(conversation)
        except TimeoutError:
            raise PeerUnavailable(self.address, "no answer in time") from None
        except StopAsyncIteration:
            raise PeerUnreadable(self.address, "it ended without an answer") from None

    def _fault(self, fault: Fault, envelope: Envelope) -> Event:
        """A remote failure in the form of other peers: in the answer (FAILURE), or before there was one."""
        if fault.code == "cancelled":
            return Fault.of(Cancelled(fault.reason))
        if envelope.performative == "FAILURE":
            return fault
        if fault.code == "unavailable":
            raise PeerUnavailable(self.address, fault.reason)
        code = envelope.payload.get("reason_code")
        raise PeerRefused(self.address, fault.reason, str(code) if code else None)

    async def _let_go(self, conversation: AclConversation) -> None:
        """Cancel the remote task, because nobody waits any more."""
        with suppress(SabirError, TimeoutError):
            async with asyncio.timeout(_GOODBYE):
                await conversation.cancel("the caller has left")

    async def _agent(self) -> str:
        if self.agent is None:
            await self.discover()
        if self.agent is None:
            raise PeerUnreadable(self.address, "it lists no agent")
        return self.agent

    def _link_options(self, headers: Mapping[str, str]) -> dict[str, Any]:
        ours = self.options
        return {
            "identities": ours.identities,
            "headers": {**(ours.headers or {}), **headers},
            "verify": ours.verify,
            "on_wire": ours.on_wire,
        }

    def _messenger(self, call: Call) -> Messenger:
        """Our messenger at the remote gateway, one per identity: an inbox belongs to one."""
        key = () if call.anonymous else tuple(sorted(call.headers.items()))
        known = self._messengers.get(key)
        if known is None:
            options = self._link_options(dict(key))
            if call.anonymous:
                options["identities"] = ()
            name = self._sender if self._sender and not key else f"sabir-{new_id()[:16]}"
            known = self._messengers[key] = Messenger(self.url, name, **options)
            known.start()
        return known

    def _place(self, call: Call) -> str:
        """The remote id of a conversation."""
        known = self._conversations.get(call.conversation)
        if known is None:
            known = self._conversations[call.conversation] = str(uuid4())
            if len(self._conversations) > _MAX_CONVERSATIONS:
                self._conversations.popitem(last=False)
        return known

    def _left(self) -> Any:
        conversation, messenger = self._conversations.get(""), self._messengers.get(())
        if conversation is None or messenger is None:
            return None
        waiting = self._waiting.get("")
        question = None if waiting is None else waiting.export()
        return {"conversation": conversation, "sender": messenger.name, "question": question}

    def _restore_state(self, left: Any) -> None:
        if left is None:
            return
        known = msgspec.convert(left, _Left)
        self._conversations[""] = known.conversation
        if self._sender is None:  # an inbox belongs to its name: answers go to the one that asked
            self._sender = known.sender
            self._is_resumed = True
        if known.question is not None:
            try:
                self._waiting[""] = self._messenger(Call()).resume(known.question)
            except BadInput as exc:
                raise msgspec.ValidationError(str(exc)) from None


class _Left(msgspec.Struct):
    """The state of our own conversation, for the next process."""

    conversation: str
    sender: str
    question: dict[str, Any] | None = None
