"""Agent: one async callable that answers a Turn with Events; and ``@agent``, which makes one from a function."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import logging
import queue
import re
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any, Protocol, TypeAlias, overload, runtime_checkable

import msgspec

from .aio import Closing
from .card import Card, Policy, Skill
from .errors import ConfigError, Refused, TurnFailed
from .events import Delta, Event, Fault, Progress, Question, Reply
from .message import Message, Part, json_part, text_part
from .signature import Signature
from .turn import Turn
from .typed import arguments_of

logger = logging.getLogger("sabir")


@runtime_checkable
class Agent(Protocol):
    """Anything that answers.

    Called with a Turn, it yields any number of Delta, Progress and Question events, then exactly one Reply or Fault. It
    keeps no state of a turn outside the call: many run concurrently.
    """

    card: Card

    def __call__(self, turn: Turn, /) -> AsyncIterator[Event]: ...


# What a function may return: text, a JSON object, a Message, a Part, or an Event.
Given: TypeAlias = str | dict[str, Any] | list[Any] | Message | Part | Event | None
Function: TypeAlias = Callable[[Turn], Any]

_EVENTS = (Delta, Progress, Question, Reply, Fault)


async def why_not_anonymous(agents: Iterable[Agent], conversation: str) -> str | None:
    """The first objection to anonymity of agents that another passes questions to; None if nobody objects (PAPER-ANON).

    Whoever passes questions on agrees only if everyone behind it does.
    """
    for item in agents:
        propose = getattr(item, "propose_anonymous", None)
        why = await propose(conversation) if propose is not None else None
        if why is not None:
            return f"{item.card.name}: {why}"
    return None


class FunctionAgent:
    """An Agent made from a function, which may return, await or yield, and may be sync.

    Its return value is the Reply; yielded pieces are joined into the Reply at the end.
    Sync functions run off the event loop.
    """

    def __init__(self, function: Function, card: Card, signature: Signature | None = None) -> None:
        """``signature`` describes the parameters after the Turn, if there are any."""
        self.card = card
        self.function = function
        self._signature = signature
        self._run = _runner(function) if signature is None else functools.partial(_typed, function, signature)
        functools.update_wrapper(self, function, updated=())

    def with_card(self, card: Card) -> FunctionAgent:
        """The same function with another card."""
        return FunctionAgent(self.function, card, self._signature)

    def __call__(self, turn: Turn, /) -> AsyncIterator[Event]:
        return self._run(turn)

    def __repr__(self) -> str:
        return f"<agent {self.card.name}>"


@overload
def agent(function: Function, /) -> FunctionAgent: ...
@overload
def agent(
    *,
    name: str | None = None,
    description: str | None = None,
    version: str = "1.0",
    skills: tuple[Skill, ...] = (),
    policies: tuple[Policy, ...] = (),
    languages: tuple[str, ...] = (),
    remembers: bool = True,
    repeatable: bool = False,
    card: Card | None = None,
) -> Callable[[Function], FunctionAgent]: ...
def agent(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    version: str = "1.0",
    skills: tuple[Skill, ...] = (),
    policies: tuple[Policy, ...] = (),
    languages: tuple[str, ...] = (),
    remembers: bool = True,
    repeatable: bool = False,
    card: Card | None = None,
) -> FunctionAgent | Callable[[Function], FunctionAgent]:
    """Make an Agent from a function that takes a Turn.

    The function may return (or yield) a string, a Message, a Part, a JSON object or an Event.
    Its name and docstring become the Card's, unless given. Further parameters with types are arguments: they become the
    input schema of its skill, arrive parsed, and the caller is asked for a missing one.

    Raises:
        ConfigError: a parameter has a type that JSON Schema cannot describe.
    """

    def make(function: Function) -> FunctionAgent:
        _check_function(function)
        signature = _signature_of(function)
        doc = signature.summary if signature is not None else inspect.getdoc(function) or ""
        words = description if description is not None else doc
        title = name or re.sub(r"[^A-Za-z0-9_.-]", "-", getattr(function, "__name__", "agent")).strip("-_.") or "agent"
        made = card or Card(
            name=title,
            description=words,
            version=version,
            skills=skills or _skills_of(title, words, signature),
            policies=policies,
            languages=languages,
            remembers=remembers,
            repeatable=repeatable,
        )
        return FunctionAgent(function, made, signature)

    return make if function is None else make(function)


def _check_function(function: Any) -> None:
    """Raises:
    ConfigError: it is not a function that takes a Turn.
    """
    name = getattr(function, "__name__", repr(function))
    if inspect.isclass(function):
        raise ConfigError(f"@agent: {name} is a class; decorate a function, or pass an instance with a card to Gateway")
    if not callable(function):
        raise ConfigError(f"@agent: expected a function that takes a turn, not {type(function).__name__}")
    kinds = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.VAR_POSITIONAL,
    )
    if not any(parameter.kind in kinds for parameter in inspect.signature(function).parameters.values()):
        raise ConfigError(f"@agent: {name} takes no turn; write it as {name}(turn)")


async def reply_of(events: AsyncIterator[Event]) -> Message:
    """Consume an agent's events and return its reply.

    Raises:
        TurnFailed: the agent ended with a Fault, or without a reply.
    """
    async with Closing(events):
        async for event in events:
            match event:
                case Reply(message):
                    return message
                case Fault(reason, code):
                    raise Refused(reason) if code == "refused" else TurnFailed(reason)
                case _:
                    continue
    raise TurnFailed("the agent ended without a reply")


def _signature_of(function: Function) -> Signature | None:
    """The signature of the parameters after the Turn; None if none can be passed by name."""
    parameters = list(inspect.signature(function).parameters.values())
    behind = parameters[1:]
    if not behind or any(item.kind in (item.VAR_POSITIONAL, item.VAR_KEYWORD) for item in behind):
        return None
    return Signature.of(function, without=frozenset({parameters[0].name}))


def _skills_of(name: str, words: str, signature: Signature | None) -> tuple[Skill, ...]:
    if signature is None:
        return ()
    return (Skill(name, name, words, input_schema=dict(signature.schema), asks=True),)


async def _typed(function: Function, signature: Signature, turn: Turn) -> AsyncIterator[Event]:
    given = await arguments_of(turn, signature)
    async with Closing(_runner(functools.partial(function, **given), like=function)(turn)) as events:
        async for event in events:
            yield event


def _runner(function: Function, like: Function | None = None) -> Callable[[Turn], AsyncIterator[Event]]:
    """The runner of the function; ``like`` is what it wraps, if that differs."""
    kind = function if like is None else like
    target = kind if inspect.isroutine(kind) else getattr(kind, "__call__", kind)  # noqa: B004
    if inspect.isasyncgenfunction(target):
        return functools.partial(_pieces, function)
    if inspect.iscoroutinefunction(target):
        return functools.partial(_Awaited, function)
    if inspect.isgeneratorfunction(target):
        return functools.partial(_pieces_off_loop, function)
    return functools.partial(_off_loop, function)


class _Awaited(msgspec.Struct, eq=False):
    """The one event of a coroutine function.

    An async generator would do the same; but the event loop keeps a registry of those, and registering costs more than
    the rest of calling the agent.
    """

    _function: Function | None
    _turn: Turn

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        function, self._function = self._function, None
        if function is None:
            raise StopAsyncIteration
        event = _end(await function(self._turn))
        if event is NOTHING:
            _warn_of_nothing(function)
        return event


async def _off_loop(function: Function, turn: Turn) -> AsyncIterator[Event]:
    result = await in_thread(function, turn)
    event = _end(await result if isinstance(result, Awaitable) else result)
    if event is NOTHING:
        _warn_of_nothing(function)
    yield event


@functools.cache
def _warn_of_nothing(function: Function) -> None:
    """Warn once per function that it returned nothing, which is rarely intended."""
    name = getattr(function, "__name__", None) or getattr(getattr(function, "func", None), "__name__", "an agent")
    logger.warning("Agent %s returned nothing; is a return missing? Return an empty string to answer nothing", name)


async def _pieces(function: Function, turn: Turn) -> AsyncIterator[Event]:
    said: list[Part] = []
    async with Closing(function(turn)) as pieces:
        async for given in pieces:
            event = _piece(given)
            yield event
            if isinstance(event, Reply | Fault):
                return
            if isinstance(event, Delta):
                said.append(event.part)
    yield Reply(joined(said))


_SPENT = object()


async def _pieces_off_loop(function: Function, turn: Turn) -> AsyncIterator[Event]:
    said: list[Part] = []
    steps: Iterator[Given] = function(turn)
    while (given := await in_thread(next, steps, _SPENT)) is not _SPENT:
        event = _piece(given)
        yield event
        if isinstance(event, Reply | Fault):
            return
        if isinstance(event, Delta):
            said.append(event.part)
    yield Reply(joined(said))


async def in_thread(function: Callable[..., Any], *args: Any) -> Any:
    """Run a user's function, which may block or never return, off the event loop."""
    context = contextvars.copy_context()
    return await asyncio.wrap_future(_workers.submit(functools.partial(context.run, function, *args)))


MAX_WORKERS = 64  # concurrent sync turns; more wait


class _Workers:
    """Threads for sync functions, as many as are needed at once.

    The event loop's own pool is small and shared, and blocks the end of the process until each thread has returned,
    which a stuck one never does. These do not.
    """

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._owed = 0  # queued or running jobs
        self._threads = 0

    def submit(self, function: Callable[[], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        self._jobs.put((function, future))
        with self._lock:
            self._owed += 1
            more = self._threads < min(self._owed, MAX_WORKERS)
            self._threads += more
        if more:
            threading.Thread(target=self._work, name="sabir-agent", daemon=True).start()
        return future

    def _work(self) -> None:
        while True:
            function, future = self._jobs.get()
            if future.set_running_or_notify_cancel():
                try:
                    result = function()
                except StopIteration as raised:  # which no future can hold
                    future.set_exception(RuntimeError(f"the function raised {raised!r}"))
                except BaseException as raised:  # for the awaiting caller
                    future.set_exception(raised)
                else:
                    future.set_result(result)
            del function, future
            with self._lock:
                self._owed -= 1


_workers = _Workers()


NOTHING = Reply(Message("text", "english", ""))  # the reply of a function that returns None


def _end(given: Given) -> Event:
    if isinstance(given, str):
        return Reply(Message("text", "english", given))
    if isinstance(given, Message):
        return Reply(given)
    if isinstance(given, _EVENTS):
        return given
    if given is None:
        return NOTHING
    if isinstance(given, Part):
        return Reply(Message.of(given))
    if isinstance(given, dict | list):
        return Reply(Message.json(given))
    raise TurnFailed("the agent gave something that is not a string, Message, Part, JSON object or Event")


def _piece(given: Given) -> Event:
    if isinstance(given, str):
        return Delta(text_part(given))
    if isinstance(given, Part):
        return Delta(given)
    if isinstance(given, dict | list):
        return Delta(json_part(given))
    return _end(given)


def joined(parts: list[Part]) -> Message:
    """The pieces as one message: adjacent texts of one language are joined, the rest stays in order."""
    merged: list[Part] = []
    texts: list[str] = []  # of the last run of texts, joined once and not with each piece
    for part in parts:
        if texts and part.format == "text" and part.subformat == merged[-1].subformat:
            texts.append(f"{part.content}")
            continue
        _end_run(merged, texts)
        merged.append(part)
        texts = [f"{part.content}"] if part.format == "text" else []
    _end_run(merged, texts)
    return Message.of(*merged) if merged else Message("text", "english", "")


def _end_run(merged: list[Part], texts: list[str]) -> None:
    if len(texts) > 1:
        first = merged[-1]
        merged[-1] = Part("text", first.subformat, "".join(texts), first.label)
