"""``LLM``: a language model with tools, as an Agent.

The model gets its system message, the conversation so far, the question, and the tools that the caller may use. While
it calls tools, it is asked again with their results; its text is streamed to the caller.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import aclosing
from types import TracebackType
from typing import Any, Final, Literal, Self

import msgspec

from sabir.agent import why_not_anonymous
from sabir.card import Card, Skill
from sabir.errors import PeerError, PeerRefused, PeerUnreadable, TurnFailed
from sabir.events import Delta, Event, Progress, Reply
from sabir.message import Message, Part, json_part, text_part
from sabir.misfits import NOT_JSON
from sabir.tools import Tool, Toolbox, ToolCall, ToolResult
from sabir.turn import Turn

from .context import cut, fit_results, history_of
from .model import SECONDS, Model, ModelMessage, ModelOptions, ModelUsage, Price, specs_of

STEPS: Final = 12  # model answers in one turn
JSON_CHARACTERS: Final = 50_000  # of structured input that the model gets


class LLMOptions(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a model is used."""

    seconds: float = SECONDS  # for each answer of the model
    price: Price = Price()
    steps: int = STEPS
    past_turns: int = 20  # earlier turns that the model gets
    context_tokens: int | None = None  # size of the model's context window; None: everything is sent
    context_policy: Literal["truncate", "summarise"] = "truncate"  # for what does not fit
    schema: Mapping[str, Any] | None = None  # JSON Schema of the answer, if it must be structured


class LLM:
    """An Agent that answers with a model and, if it has any, with tools."""

    def __init__(
        self,
        name: str,
        model: Model,
        *,
        system_message: str = "",
        description: str = "",
        tools: Iterable[Tool] | Toolbox = (),
        options: LLMOptions | None = None,
    ) -> None:
        """
        Args:
            name: the agent's name, on its card.
            model: the model that answers.
            system_message: sent to the model before everything else; it never leaves this agent.
            description: for the card.
            tools: what the model may call.
            options: limits, price, and how much of the conversation the model gets.

        Raises:
            ConfigError: two tools have the same name.
        """
        self.model = model
        self.options = options or LLMOptions()
        self.toolbox = tools if isinstance(tools, Toolbox) else Toolbox(tools)
        self.final: frozenset[str] = frozenset()  # tools that end the turn
        self._system = system_message
        skill = Skill("chat", "Chat", "Answers questions in plain words", tags=("llm",))
        reads = ("text", "structured", "binary") if model.reads_images else ("text", "structured")
        self.card = Card(name, description or "Answers with a language model", skills=(skill,), reads=reads)

    async def __call__(self, turn: Turn, /) -> AsyncIterator[Event]:
        work = _Work(self, turn)
        try:
            async for event in work.events():
                yield event
        except PeerError as exc:
            raise self._by_name(exc) from None

    def _by_name(self, exc: PeerError) -> PeerError:
        """The same error under the agent's name: the address of its model is not disclosed."""
        words = exc.reason.removeprefix(f"{exc.peer}: ")
        if isinstance(exc, PeerRefused):
            return PeerRefused(self.card.name, words, exc.status)
        return type(exc)(self.card.name, words)

    def with_final_tools(self, tools: Iterable[Tool]) -> Self:
        """The same agent with more tools, each of which ends the turn when called."""
        final = tuple(tools)
        made = copy.copy(self)
        made.toolbox = self.toolbox.with_tools(final)
        made.final = frozenset(item.name for item in final)
        return made

    async def messages(self, turn: Turn) -> list[ModelMessage]:
        """What the model gets at the start of a turn."""
        system = [ModelMessage("system", self._system)] if self._system else []
        if words := turn.conversation.agreed.get("vocabulary"):  # agreed by control; the gateway enforces it
            system.append(ModelMessage("system", f"Answer only with these words and no others: {', '.join(words)}."))
        past = await history_of(self.model, turn, self.options, len(self._system))
        asked, images = question_of(turn.message, reads_images=self.model.reads_images)
        return [*system, *past, ModelMessage("user", asked, images)]

    async def propose_anonymous(self, conversation: str) -> str | None:
        """Agree to anonymity only if every agent that it uses as a tool does (PAPER-ANON)."""
        return await why_not_anonymous(self.toolbox.agents, conversation)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.model.aclose()


class _Work:
    """One turn of a model: its input, and its output so far."""

    def __init__(self, agent: LLM, turn: Turn) -> None:
        self._agent = agent
        self._turn = turn
        self._said: list[str] = []
        self._files: list[Part] = []  # returned by tools

    async def events(self) -> AsyncIterator[Event]:
        agent, turn = self._agent, self._turn
        await agent.toolbox.load()
        messages = await agent.messages(turn)
        for part in unreadable(turn.message, reads_images=agent.model.reads_images):
            note = f"(I cannot read {part.subformat}.) "
            self._said.append(note)
            yield Delta(text_part(note))
        for _ in range(agent.options.steps):
            calls: list[ToolCall] = []
            spoken: list[str] = []
            async for event in self._answer(messages, calls, spoken):
                yield event
            if not calls:
                yield Reply(self._reply())
                return
            yield Progress(note=f"Calling {', '.join(call.name for call in calls)}")
            results = await agent.toolbox.call(turn, calls)
            if any(result.name in agent.final and result.status == "success" for result in results):
                yield Reply(self._reply())
                return
            messages.append(ModelMessage("assistant", "".join(spoken), calls=tuple(calls)))
            messages += [ModelMessage("tool", self._result(result), call_id=result.id) for result in results]
            fit_results(messages, agent.options.context_tokens)
        raise TurnFailed(f"{agent.card.name} did not come to an answer within {agent.options.steps} steps")

    async def _answer(
        self, messages: list[ModelMessage], calls: list[ToolCall], spoken: list[str]
    ) -> AsyncIterator[Event]:
        """One answer of the model: its text as events, its calls into ``calls``."""
        options, turn = self._agent.options, self._turn
        turn.spend(calls=1)
        asked = ModelOptions(
            seconds=min(options.seconds, turn.remaining),
            tools=specs_of(self._agent.toolbox.allowed(turn)),
            schema=options.schema,
        )
        model = self._agent.model
        with turn.timeline.span("model", self._agent.card.name):
            async with aclosing(model.answer(messages, asked)) as answer:
                async for piece in answer:
                    if isinstance(piece, ModelUsage):
                        cost = options.price.of(piece)
                        turn.spend(tokens=piece.tokens, completion_tokens=piece.completion_tokens, cost=cost)
                    elif isinstance(piece, ToolCall):
                        calls.append(piece)
                    else:
                        if self._said and not spoken and not self._said[-1].endswith((" ", "\n")):
                            piece = f"\n\n{piece}"  # text between two rounds of tools
                        spoken.append(piece)
                        self._said.append(piece)
                        yield Delta(text_part(piece))
        if not spoken and not calls:
            raise PeerUnreadable(self._agent.card.name, "it said nothing")

    def _result(self, result: ToolResult) -> str:
        """A result for the model; files are named to it and go to the caller."""
        words = []
        for part in result.parts if result.status == "success" else ():
            if part.format == "binary":
                self._files.append(part)
                words.append(f"[{part.subformat}, given to the user]")
            elif part.format == "text":
                words.append(part.content)
            else:
                words.append(_as_json(part))
        text = "\n".join(words) if result.status == "success" else result.text
        return cut(text, self._agent.toolbox.options.result_bytes)

    def _reply(self) -> Message:
        text = "".join(self._said)
        if self._agent.options.schema is None:
            return Message.of(text_part(text), *self._files)
        try:
            return Message.of(json_part(msgspec.json.decode(text)), *self._files)
        except NOT_JSON:
            raise PeerUnreadable(self._agent.card.name, "its answer is not JSON, which it was asked for") from None


def _as_json(part: Part) -> str:
    try:
        return msgspec.json.encode(part.content).decode()
    except (UnicodeEncodeError, msgspec.EncodeError):
        return "Error: the result is not valid JSON"


def question_of(message: Message, *, reads_images: bool) -> tuple[str, tuple[Part, ...]]:
    """A message for a model: text, with structured parts as JSON; and its images."""
    words = [message.text] if message.text else []
    for part in message.parts:
        if part.format == "structured" and not isinstance(part.content, str):
            words.append(msgspec.json.encode(part.content).decode()[:JSON_CHARACTERS])
        elif part.format in ("structured", "location", "generic") and part.content not in words:
            words.append(str(part.content)[:JSON_CHARACTERS])
    images = tuple(part for part in message.parts if _is_image(part)) if reads_images else ()
    words += [f"[{part.subformat} that you cannot read]" for part in unreadable(message, reads_images=reads_images)]
    return "\n".join(words), images


def unreadable(message: Message, *, reads_images: bool) -> list[Part]:
    """The parts of a message that the model cannot read."""
    binary = [part for part in message.parts if part.format == "binary"]
    return [part for part in binary if not (reads_images and _is_image(part))]


def _is_image(part: Part) -> bool:
    return part.format == "binary" and part.subformat.startswith("image/") and isinstance(part.content, bytes)
