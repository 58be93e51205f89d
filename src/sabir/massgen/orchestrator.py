"""``Orchestrator``: agents that answer, vote, and let one of them present the result (MW-42).

It is ``sabir.agents.ensemble.Ensemble`` with MassGen's name and arguments. Members may be MassGen agents,
orchestrators, or any Agent of Sabir, and so remote ones over any protocol.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final

import msgspec

from sabir.agent import Agent, reply_of
from sabir.agents.ensemble import Ensemble, EnsembleOptions
from sabir.errors import ConfigError, NotFound, SabirError
from sabir.events import Delta, Event, Fault, Progress, Reply
from sabir.http.door import typed
from sabir.message import Message
from sabir.turn import Callee, Turn

from .agent_config import AgentConfig
from .chat_agent import ChatAgent, ConfigurableAgent, turn_of
from .nlip.router import timestamp
from .nlip.schema import NLIPControlField, NLIPFormatField, NLIPMessageType, NLIPRequest, NLIPTokenField
from .stream_chunk import StreamChunk

COORDINATE: Final = "coordinate_via_nlip"


class Orchestrator(ChatAgent):
    """A panel of agents."""

    def __init__(
        self,
        agents: Sequence[Agent | ChatAgent] | Mapping[str, Agent | ChatAgent],
        enable_nlip: bool = False,
        nlip_config: Mapping[str, Any] | None = None,
        *,
        orchestrator_id: str = "orchestrator",
        **kwargs: Any,
    ) -> None:
        """
        Args:
            agents: the members, as a list or by id.
            enable_nlip: enables NLIP for every member.
            nlip_config: the keys of ``nlip``, and ``coordinate_via_nlip`` of ``orchestrator.nlip``.
            orchestrator_id: its name.
            kwargs: the limits and rules of an ensemble (``answers``, ``steps``, ``seconds``, …).

        Raises:
            ConfigError: it has no members, or a key is unknown.
        """
        self.agents = list(agents.values()) if isinstance(agents, Mapping) else list(agents)
        self.agent_id = orchestrator_id
        self.enable_nlip = enable_nlip
        self.nlip_config = dict(nlip_config or {})
        self._coordinates = bool(self.nlip_config.pop(COORDINATE, False))
        self._options = typed("orchestrator", EnsembleOptions, kwargs)
        if self.enable_nlip:
            self._init_nlip_routing()
        self.card = self._ensemble(False).card

    def _init_nlip_routing(self) -> None:
        for agent in self.agents:
            config: AgentConfig | None = getattr(agent, "_config", None)
            if config is not None:
                config.enable_nlip = True
                config.nlip_config = {**(config.nlip_config or {}), **self.nlip_config}
                config._init_nlip_router()

    async def __call__(self, turn: Turn, /) -> AsyncIterator[Event]:
        async for event in self._ensemble(self.enable_nlip)(turn):
            yield event

    async def propose_anonymous(self, conversation: str) -> str | None:
        """Agree to anonymity only if every member does (PAPER-ANON)."""
        return await self._ensemble(self.enable_nlip).propose_anonymous(conversation)

    def as_agent(self, *, routed: bool) -> Ensemble:
        return self._ensemble(routed)

    def _ensemble(self, routed: bool) -> Ensemble:
        members = [self._member(agent, routed) for agent in self.agents]
        options = msgspec.structs.replace(self._options, coordinate_via_nlip=routed and self._coordinates)
        return Ensemble(members, name=self.agent_id, options=options)

    def _member(self, agent: Agent | ChatAgent, routed: bool) -> Agent:
        if isinstance(agent, ChatAgent):
            return agent.as_agent(routed=routed)
        if not isinstance(agent, Agent):
            raise ConfigError(f"orchestrator: expected agents, not {type(agent).__name__}")
        return agent

    async def chat(
        self, messages: list[dict[str, Any]], nlip_mode: bool = False, **kwargs: Any
    ) -> AsyncGenerator[StreamChunk, None]:
        """Have the members work on the last message; their activity is ``agent_status``, the answer is ``content``.

        Raises:
            SabirError: the messages have no question; failures of members are chunks.
        """
        routed = nlip_mode and self.enable_nlip
        ensemble = self._ensemble(routed)
        turn, _ = turn_of(messages)
        if ensemble.options.coordinate_via_nlip:
            turn.siblings = NLIPSiblings({member.card.name: member for member in ensemble.members})
        try:
            async with aclosing(ensemble(turn)) as events:  # type: ignore[type-var]  # it is a generator
                spoken = False
                async for event in events:
                    if isinstance(event, Reply) and not spoken:  # of a member that does not stream
                        yield StreamChunk("content", event.message.text, source=self.agent_id)
                    chunk = self._chunk_of(event, ensemble)
                    if chunk is not None:
                        spoken = spoken or chunk.type == "content"
                        yield chunk
        except SabirError as exc:
            yield StreamChunk("error", error=str(exc), source=self.agent_id)
            return
        yield StreamChunk("done", source=self.agent_id)

    def _chunk_of(self, event: Event, ensemble: Ensemble) -> StreamChunk | None:
        if isinstance(event, Progress):
            names = [member.card.name for member in ensemble.members]
            source = next((name for name in names if event.note.startswith(f"{name} ")), self.agent_id)
            return StreamChunk("agent_status", source=source, status=event.note)
        if isinstance(event, Delta) and event.part.format == "text":
            return StreamChunk("content", event.part.content, source=self.agent_id)
        if isinstance(event, Fault):
            return StreamChunk("error", error=event.reason, source=self.agent_id)
        return None


class NLIPSiblings:
    """Members that are asked by NLIP messages, in one process; ``sent`` keeps the messages."""

    def __init__(self, members: Mapping[str, Agent]) -> None:
        self._members = members
        self.sent: list[NLIPRequest] = []

    def find(self, name: str) -> Callee:
        """Raises:
        NotFound: there is no such member.
        """
        if name not in self._members:
            raise NotFound(f"there is no agent {name!r}; choose from {', '.join(self._members)}")
        return self._members[name]

    async def dispatch(self, name: str, turn: Turn) -> Message:
        """Raises:
        SabirError: the member failed.
        """
        request = NLIPRequest(
            format=NLIPFormatField(),
            control=NLIPControlField(
                message_type=NLIPMessageType.REQUEST, message_id=str(uuid.uuid4()), timestamp=timestamp()
            ),
            token=NLIPTokenField(session_id=turn.id),
            content={"query": turn.message.text},
            metadata={"to": name},
        )
        self.sent.append(request)
        asked = msgspec.structs.replace(turn, message=Message.text(str(request.content["query"])))
        return (await reply_of(self.find(name)(asked))).without_tokens()


__all__ = ["ConfigurableAgent", "NLIPSiblings", "Orchestrator"]
