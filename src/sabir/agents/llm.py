"""A language model as an Agent, and the little that models have in common.

``Model`` is what every model is asked and what it answers; ``OpenAIModel`` asks any service that speaks OpenAI's
chat completions (OpenAI, Ollama, vLLM, LM Studio, and most vendors beside their own protocol). ``LLM`` makes an
Agent of a Model. ``Service`` is the pooled way to one such service, and carries embeddings, too.

A key comes from the configuration or the environment; it is sent to its service and shown nowhere.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from types import TracebackType
from typing import Any, Final, Literal, Protocol, Self

import httpx2
import msgspec

from .. import _version
from ..card import Card, Skill
from ..errors import BadSetup, PeerError, PeerRefused, PeerUnavailable, PeerUnreadable
from ..events import Delta, Event, Reply
from ..message import Message, text_part
from ..peers.base import Clock, without_credentials
from ..turn import Turn

SECONDS: Final = 60.0  # how long a model may take for the whole answer
TRIES: Final = 3
_MOST: Final = 4 * 1024 * 1024  # bytes of an answer
_PAST: Final = 20  # earlier turns that the model sees
# Not begun yet, so asking again does nothing twice.
_AGAIN: Final = frozenset({429, 502, 503, 529})

# Services by the name that a configuration gives them: where they are, and the variable that holds the key.
SERVICES: Final[Mapping[str, tuple[str, str]]] = {
    "openai": ("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "claude": ("https://api.anthropic.com/v1", "ANTHROPIC_API_KEY"),
    "gemini": ("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
    "ollama": ("http://127.0.0.1:11434/v1", ""),
    "lmstudio": ("http://127.0.0.1:1234/v1", ""),
}


class BackendSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A language model, as it stands in the configuration file."""

    type: str = "openai"  # one of SERVICES; any other service that speaks as OpenAI's does: openai, with base_url
    model: str = ""
    base_url: str | None = None
    api_key: str | None = None  # may be written env:NAME
    api_key_env: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    seconds: float = SECONDS

    def __repr__(self) -> str:
        return f"BackendSettings(type={self.type!r}, model={self.model!r})"  # never the key


class Line(msgspec.Struct, frozen=True):
    """One thing said to a model, and by whom."""

    role: Literal["system", "user", "assistant"]
    content: str


class Used(msgspec.Struct, frozen=True):
    """What an answer took."""

    tokens: int = 0


class Model(Protocol):
    """A model of language."""

    def answer(self, said: Sequence[Line], *, seconds: float) -> AsyncGenerator[str | Used, None]:
        """The answer in pieces; ``Used`` last, where the service tells it.

        Raises:
            PeerError: no connection, no answer in time, a refusal, or not an answer.
        """
        ...

    async def aclose(self) -> None: ...


class LLM:
    """An Agent that answers with a model: its system message, the conversation so far, the question."""

    def __init__(
        self, name: str, model: Model, *, system_message: str = "", description: str = "", seconds: float = SECONDS
    ) -> None:
        self.model = model
        skill = Skill("chat", "Chat", "Answers questions in plain words", tags=("llm",))
        self.card = Card(name, description or "Answers with a language model", skills=(skill,), reads=("text",))
        self._system, self._seconds = system_message, seconds

    async def __call__(self, turn: Turn, /) -> AsyncIterator[Event]:
        turn.spend(calls=1)
        pieces: list[str] = []
        try:
            seconds = min(self._seconds, turn.remaining)
            async with aclosing(self.model.answer(self._lines(turn), seconds=seconds)) as answer:
                async for piece in answer:
                    if isinstance(piece, Used):
                        turn.spend(tokens=piece.tokens)
                    else:
                        pieces.append(piece)
                        yield Delta(text_part(piece))
        except PeerError as wrong:
            raise self._told(wrong) from None
        if not pieces:
            raise PeerUnreadable(self.card.name, "it said nothing")
        yield Reply(Message.of(text_part("".join(pieces))))

    def _lines(self, turn: Turn) -> list[Line]:
        lines = [Line("system", self._system)] if self._system else []
        for past in turn.conversation.turns[-_PAST:]:
            lines += [Line("user", past.asked.text), Line("assistant", past.answered.text)]
        return [*(line for line in lines if line.content), Line("user", turn.text)]

    def _told(self, wrong: PeerError) -> PeerError:
        """The same by the agent's name: where its model is, is not the caller's affair."""
        words = wrong.reason.removeprefix(f"{wrong.peer}: ")
        if isinstance(wrong, PeerRefused):
            return PeerRefused(self.card.name, words, wrong.status)
        return type(wrong)(self.card.name, words)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, wrong: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.model.aclose()


class OpenAIModel:
    """A model behind ``/chat/completions``."""

    def __init__(
        self, service: Service, model: str, *, temperature: float | None = None, max_tokens: int | None = None
    ) -> None:
        self.service, self.name = service, model
        options = {"temperature": temperature, "max_tokens": max_tokens}
        self._options = {name: value for name, value in options.items() if value is not None}

    async def answer(self, said: Sequence[Line], *, seconds: float) -> AsyncGenerator[str | Used, None]:
        body = {
            "model": self.name,
            "messages": said,
            "stream": True,
            "stream_options": {"include_usage": True},
            **self._options,
        }
        clock, ended = Clock(seconds), False
        async with self.service.asked("/chat/completions", body, clock) as response:
            async for data in _events(response, clock, self.service):
                chunk = self._chunk(data)
                for choice in chunk.choices[:1]:
                    ended = ended or choice.finish_reason is not None
                    if choice.delta.content:
                        yield choice.delta.content
                if chunk.usage is not None:
                    yield Used(chunk.usage.total_tokens)
        if not ended:
            raise PeerUnreadable(self.service.place, "it stopped in the middle of its answer")

    def _chunk(self, data: bytes) -> _Chunk:
        try:
            chunk = msgspec.json.decode(data, type=_Chunk)
        except msgspec.DecodeError:
            raise PeerUnreadable(self.service.place, "its answer is not a chat completion") from None
        if chunk.error is not None:
            raise PeerRefused(self.service.place, chunk.error.message[:300] or "it failed")
        return chunk

    async def aclose(self) -> None:
        await self.service.aclose()


class _Said(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    delta: _Said = msgspec.field(default_factory=_Said)
    finish_reason: str | None = None


class _Usage(msgspec.Struct):
    total_tokens: int = 0


class _Wrong(msgspec.Struct):
    message: str = ""


class _Chunk(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: _Wrong | None = None


class Service:
    """One service that speaks as OpenAI's does: its address, our key, and a pool of connections."""

    def __init__(self, base_url: str, key: str = "", *, key_name: str = "", connections: int = 16) -> None:
        """``key_name`` is what is said to be missing when the service wants a key and there is none."""
        if not base_url.startswith(("http://", "https://")):
            raise BadSetup(f"base_url: expected a URL such as https://api.example.com/v1, not {base_url[:80]!r}")
        self.base_url = base_url.rstrip("/")
        self.place = without_credentials(self.base_url)
        self._key, self._key_name, self._connections = key, key_name, connections
        self._made: httpx2.AsyncClient | None = None

    def __repr__(self) -> str:
        return f"<service {self.place}>"  # never the key

    @property
    def _client(self) -> httpx2.AsyncClient:
        if self._made is None:  # made at first use: a process that forks must not hold connections
            self._made = httpx2.AsyncClient(
                headers={"user-agent": f"sabir/{_version.__version__}", "accept-encoding": "identity"},
                follow_redirects=False,  # a redirect would take the key elsewhere
                trust_env=False,
                limits=httpx2.Limits(max_connections=self._connections, max_keepalive_connections=self._connections),
            )
        return self._made

    async def aclose(self) -> None:
        made, self._made = self._made, None
        if made is not None:
            await made.aclose()

    @asynccontextmanager
    async def asked(self, path: str, body: Any, clock: Clock) -> AsyncIterator[httpx2.Response]:
        """The response to a body, its status 2xx, its own body still to be read. Asked again while nothing was begun.

        Raises:
            PeerError: no connection, no answer in time, or a refusal.
        """
        content = msgspec.json.encode(body)
        try:
            response = await self._answered(path, content, clock)
            try:
                yield response
            finally:
                await response.aclose()
        except (TimeoutError, httpx2.TimeoutException):
            raise PeerUnavailable(self.place, "no answer in time") from None
        except (httpx2.TransportError, httpx2.StreamError) as wrong:
            raise PeerUnavailable(self.place, f"no connection ({type(wrong).__name__})") from None

    async def _answered(self, path: str, content: bytes, clock: Clock) -> httpx2.Response:
        for attempt in range(1, TRIES + 1):
            try:
                response = await self._sent(path, content, clock)
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                if attempt == TRIES:
                    raise
                await self._pause(attempt, None, clock)
                continue
            if response.is_success:
                return response
            refused, later = await self._refusal(response, clock), response.headers.get("retry-after")
            if response.status_code not in _AGAIN or attempt == TRIES or not _soon(later, clock):
                raise refused
            await self._pause(attempt, later, clock)
        raise PeerUnavailable(self.place, "no answer")  # not reached: the last attempt returns or raises

    async def _sent(self, path: str, content: bytes, clock: Clock) -> httpx2.Response:
        headers = {"content-type": "application/json"}
        if self._key:
            headers["authorization"] = f"Bearer {self._key}"
        timeout = httpx2.Timeout(max(0.001, clock.left), connect=min(10.0, max(0.001, clock.left)))
        request = self._client.build_request(
            "POST", self.base_url + path, content=content, headers=headers, timeout=timeout
        )
        return await self._client.send(request, stream=True)

    async def _pause(self, attempt: int, later: str | None, clock: Clock) -> None:
        wait = float(later) if later is not None else 0.25 * 2**attempt * random.uniform(0.5, 1.0)
        await asyncio.sleep(min(wait, clock.left))

    async def _refusal(self, response: httpx2.Response, clock: Clock) -> PeerRefused:
        status = response.status_code
        if status in (401, 403) and not self._key and self._key_name:
            await response.aclose()
            return PeerRefused(self.place, f"it wants a key, and {self._key_name} is not set", status)
        try:
            told = msgspec.json.decode(await self.body(response, clock), type=_Chunk)
            words = told.error.message if told.error is not None else ""
        except (msgspec.DecodeError, PeerUnreadable):
            words = ""
        finally:
            await response.aclose()
        if self._key:
            words = words.replace(self._key, "…")  # some services repeat the key that they refuse
        return PeerRefused(self.place, f"it refused ({status})" + (f": {words[:300]}" if words else ""), status)

    async def body(self, response: httpx2.Response, clock: Clock) -> bytes:
        """The whole body, within bounds."""
        pieces, size = list[bytes](), 0
        async with asyncio.timeout(clock.left):
            async for piece in response.aiter_bytes():
                pieces.append(piece)
                size += len(piece)
                if size > _MOST:
                    raise PeerUnreadable(self.place, f"its answer is larger than {_MOST} bytes")
        return b"".join(pieces)


async def _events(response: httpx2.Response, clock: Clock, service: Service) -> AsyncGenerator[bytes, None]:
    """The data of a stream's events until ``[DONE]``; each is one line, as every service sends it."""
    lines, size = response.aiter_lines(), 0
    while True:
        async with asyncio.timeout(clock.left):
            line = await anext(lines, None)
        if line is None:
            return
        size += len(line)
        if size > _MOST:
            raise PeerUnreadable(service.place, f"its answer is larger than {_MOST} bytes")
        if line.startswith("data:"):
            data = line[5:].strip()
            if data == "[DONE]":
                return
            yield data.encode()


def _soon(later: str | None, clock: Clock) -> bool:
    """Whether a service's wish to be asked later leaves time for it."""
    if later is None:
        return True
    return later.isdigit() and float(later) < min(10.0, clock.left)


def secret(written: str | None, variable: str | None = None) -> str:
    """A key as it is configured: itself, ``env:NAME``, or the variable that holds it.

    Raises:
        BadSetup: a variable that is named is not set.
    """
    name = written[4:] if written and written.startswith("env:") else variable if not written else None
    if name is None:
        return written or ""
    found = os.environ.get(name, "")
    if not found:
        raise BadSetup(f"the environment variable {name} is not set")
    return found


def model_agent(name: str, backend: BackendSettings, *, system_message: str = "", description: str = "") -> LLM:
    """The agent that a configuration describes.

    Raises:
        BadSetup: it names no model or no service that is known, or a key that is not there.
    """
    if backend.type not in SERVICES:
        known = ", ".join(SERVICES)
        raise BadSetup(f"agents: {name!r}: backend.type: expected one of {known}, not {backend.type!r}")
    if not backend.model:
        raise BadSetup(f"agents: {name!r}: backend.model: expected the name of a model")
    base_url, variable = SERVICES[backend.type]
    if backend.api_key or backend.api_key_env:
        key = secret(backend.api_key, backend.api_key_env)
    else:
        # The vendor's own key goes to the vendor only.
        key = os.environ.get(variable, "") if variable and backend.base_url is None else ""
    service = Service(backend.base_url or base_url, key, key_name=variable if backend.base_url is None else "api_key")
    model = OpenAIModel(service, backend.model, temperature=backend.temperature, max_tokens=backend.max_tokens)
    return LLM(name, model, system_message=system_message, description=description, seconds=backend.seconds)
