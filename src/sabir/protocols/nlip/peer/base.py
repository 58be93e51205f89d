"""What the NLIP peers share, whatever the transport: tokens by conversation, questions, failures."""

from __future__ import annotations

import secrets
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final, Unpack
from urllib.parse import urlsplit

import msgspec

from sabir.card import Card
from sabir.errors import PeerError, PeerRefused, PeerUnreadable, Unavailable
from sabir.events import Delta, Event, Progress, Question, Reply
from sabir.message import CONTROL, ERROR, Message, Part, json_part, text_part
from sabir.protocols.nlip.wire import json as nlip
from sabir.protocols.peer import Call, Peer, PeerOptionNames, PeerOptions, message_of

from .terms import HISTORY, PeerTerms
from .token_store import KeptTokens, StoredTokens
from .tokens import PeerTokens

_MAX_CONVERSATIONS: Final = 10_000
_REASON_LENGTH: Final = 500


class NlipOptionNames(PeerOptionNames, total=False):
    """The options of every NLIP peer, besides those of every peer."""

    identity: str  # a word in our own token, to distinguish it from the server's
    conversation: PeerTokens | None  # the state of an earlier conversation, to resume it
    envelope: bool  # use envelopes of the MassGen design; one that came in is passed on with its fields (MW-73)


class NlipPeer(Peer):
    """A remote NLIP endpoint. Each conversation of ours has its own tokens there, which are never mixed."""

    protocol = "nlip"

    def __init__(
        self,
        url: str,
        options: PeerOptions | None = None,
        *,
        identity: str = "sabir",
        conversation: PeerTokens | None = None,
        envelope: bool = False,
        **named: Unpack[PeerOptionNames],
    ) -> None:
        """Args besides those of every peer: see ``NlipOptionNames``."""
        super().__init__(url, options, **named)
        self.identity = identity
        self.envelope = envelope
        self._tokens: OrderedDict[str, PeerTokens] = OrderedDict()
        self._anonymous: set[str] = set()
        self._terms: dict[str, PeerTerms] = {}
        self.kept: KeptTokens | None = None  # set by a gateway, so that conversations outlive it
        if conversation is not None:
            self._tokens[""] = conversation

    @property
    def conversation(self) -> PeerTokens:
        """The state of this peer's own conversation, to resume it later."""
        return self.tokens("")

    def _left(self) -> Any:
        return self.conversation.export()

    def _restore_state(self, left: Any) -> None:
        self._tokens[""] = PeerTokens.restore(left)

    def tokens(self, conversation: str) -> PeerTokens:
        """The remote tokens of one of our conversations, new if it has none."""
        held = self._tokens.get(conversation)
        if held is None:
            held = self._tokens[conversation] = PeerTokens.begin(self.identity, secrets.token_urlsafe(18))
            if len(self._tokens) > _MAX_CONVERSATIONS:
                oldest = next(key for key in self._tokens if key)
                del self._tokens[oldest]
                self._anonymous.discard(oldest)
        else:
            self._tokens.move_to_end(conversation)
        return held

    def forget(self, conversation: str = "") -> None:
        """Start over: the next message of this conversation carries none of its old tokens."""
        self._tokens.pop(conversation, None)
        self._terms.pop(conversation, None)

    # -- control ----------------------------------------------------------------------------------

    async def control(self, said: str | Message, *parts: Part, conversation: str = "") -> Message:
        """Send a control message: ask for policies, limits, an upload address, and so on. Raises as ``ask`` does."""
        message = message_of(said).with_parts(parts).with_type(CONTROL)
        return await self.settle(message, Call(conversation, self.seconds))

    async def settle(self, message: Message, call: Call) -> Message:
        """The answer to a control message with the credentials of a call. Raises as ``ask`` does."""
        return await self._whole_answer(message, call)

    async def agree_limits(self, *, conversation: str = "", **proposed: int) -> dict[str, int]:
        """Propose limits (``body``, ``reply``, ``submessages``, ``rate_per_minute``); returns those that were agreed.

        From then on nothing larger is sent, and nothing larger than ``reply`` is accepted.
        """
        wish = json_part({"propose": proposed}, label="limits")
        answer = await self.control("Can we agree on these limits?", wish, conversation=conversation)
        part = answer.labelled("limits")
        return self._terms.setdefault(conversation, PeerTerms()).take_limits(part.value if part is not None else None)

    async def keep_context(self, keeper: str, *, window: int | None = None, conversation: str = "") -> str:
        """Agree on who keeps the context: ``server``, ``client`` (this peer) or ``both``; returns the new keeper.

        The history kept so far is handed over, so the agent's context does not change.
        """
        terms = self._terms.setdefault(conversation, PeerTerms())
        wish: dict[str, str | int] = {"keeper": keeper, **({"window": window} if window is not None else {})}
        handed = (json_part(terms.history, label=HISTORY),) if terms.we_keep and keeper != "client" else ()
        answer = await self.control(
            f"Let the {keeper} keep the context.", json_part(wish, label="context"), *handed, conversation=conversation
        )
        result, history = answer.labelled("context"), answer.labelled(HISTORY)
        return terms.take_context(result and result.value, history and history.value)

    async def discover(self) -> None:
        """Ask by control which agents there are; ours is the one that the address names, or the first."""
        answer = await self.control(
            "What are your capabilities?", json_part({}, label="capabilities"), conversation="discover"
        )
        self.forget("discover")
        part = answer.labelled("capabilities")
        cards = part.value.get("agents") if part is not None and isinstance(part.value, dict) else None
        named = urlsplit(self.url).path.rstrip("/").rpartition("/")[2]
        try:
            known = msgspec.convert(cards or [], list[Card])
        except (msgspec.ValidationError, ValueError):
            return
        found = next((card for card in known if card.name == named), known[0] if known else None)
        if found is not None:
            self.card = msgspec.structs.replace(
                self.card,
                description=found.description,
                version=found.version,
                skills=found.skills,
                says=found.says,
                provider=found.provider,
                documentation=found.documentation,
            )

    async def propose_anonymous(self, conversation: str) -> str | None:
        """Agree on anonymity with this peer and all behind it; None, or why not (PAPER-ANON).

        It starts over: an earlier token would link the two conversations.
        """
        if self.shows_itself:
            return "its connection shows who we are"
        self.forget(conversation)
        self._anonymous.add(conversation)
        await self._keep(conversation)
        try:
            answer = await self.control(
                "Can we go on in anonymous mode?",
                json_part({"propose": True}, label="anonymous"),
                conversation=conversation,
            )
        except PeerError:
            await self._not_anonymous(conversation)
            raise
        part = answer.labelled("anonymous")
        value = part.value if part is not None else None
        if isinstance(value, dict) and value.get("accepted") is True:
            return None
        await self._not_anonymous(conversation)
        return str(value.get("refused", "it does not agree")) if isinstance(value, dict) else "it does not know how"

    async def _not_anonymous(self, conversation: str) -> None:
        self._anonymous.discard(conversation)
        await self._keep(conversation)

    async def _recall(self, conversation: str) -> None:
        """Restore what another process, or this one before its restart, knew of the conversation."""
        if self.kept is None or not conversation:
            return
        kept = await self.kept.get(self.card.name, conversation)
        if kept is not None:
            self._tokens[conversation] = kept.tokens
            (self._anonymous.add if kept.anonymous else self._anonymous.discard)(conversation)

    async def _keep(self, conversation: str) -> None:
        if self.kept is not None and conversation:
            known = StoredTokens(self.tokens(conversation), conversation in self._anonymous)
            await self.kept.put(self.card.name, conversation, known)

    def _refused(self, said: Message) -> PeerRefused:
        answer = dict.fromkeys(
            str(part.content) for part in said.parts if part.format == "text"
        )  # control has it twice
        words = "\n".join(answer)[:_REASON_LENGTH] or "it said only that it failed"
        code = nlip.code_in(said)
        if code is None:  # an error without a code, or control that asks for authentication
            return PeerRefused(self.address, words, ERROR if said.is_error else 401)
        return PeerRefused(self.address, words, code, broken=code == nlip.CODES[Unavailable])

    @property
    def shows_itself(self) -> bool:
        """Whether the connection itself identifies us."""
        return False

    @abstractmethod
    def exchange(self, message: Message, call: Call) -> AsyncGenerator[Message, None]:
        """Send one message with its tokens; yields partial messages and then the last one."""

    async def talk(self, message: Message, call: Call) -> AsyncGenerator[Event, None]:
        await self._recall(call.conversation)
        if call.anonymous and call.conversation not in self._anonymous:
            # Agreed on before this peer was restarted; the remote no longer knows us.
            why = await self.propose_anonymous(call.conversation)
            if why is not None:
                raise PeerRefused(self.address, f"anonymous mode is not agreed to any more: {why}")
        if call.conversation in self._anonymous:
            call = replace(call, anonymous=True, trace=None, headers={})
        terms = self._terms.get(call.conversation)
        asked, message = message, terms.outgoing(message) if terms is not None else message
        sent = self.tokens(call.conversation).on(_labels_kept(message))
        async with aclosing(self.exchange(sent, call)) as replies:
            async for reply in replies:
                before = self.tokens(call.conversation)
                after = self._tokens[call.conversation] = before.after(reply, sent)
                if after is not before:
                    await self._keep(call.conversation)
                said = reply.without_tokens()
                event = nlip.event_of(said)
                if terms is not None and isinstance(event, Reply):
                    terms.incoming(asked, said, self.address)
                if isinstance(event, Reply) and _refuses(said) and not message.is_control:
                    raise self._refused(said)
                yield event
                if isinstance(event, Question):
                    yield Reply(said)
                if not isinstance(event, Delta | Progress):
                    return
        raise PeerUnreadable(self.address, "it ended without an answer")


def _refuses(said: Message) -> bool:
    """Whether an answer to data is a refusal: an error, or control that asks for authentication (D-12)."""
    return said.is_error or (said.is_control and said.labelled(ERROR) is not None)


def _labels_kept(message: Message) -> Message:
    """NLIP labels submessages only, so a labelled first part, such as data for a skill, follows an empty text."""
    if message.label is None:
        return message
    return Message.of(text_part(""), *message.parts, messagetype=message.messagetype)


def is_partial(message: Message) -> bool:
    """Whether more messages of the same answer follow (D-34)."""
    return message.messagetype is not None and message.messagetype.strip().lower() == nlip.PARTIAL
