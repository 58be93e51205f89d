"""Models without a service: one that follows a script, one that records another, one that replays a recording.

A script is a list of steps, one per answer: text, or a mapping with ``say``, ``tool_calls`` (``{"name": …, "arguments":
{…}}``), ``error`` or ``seconds`` to wait first. In Python a step may also be a function of the messages. A step with
``when`` is outside the order: it answers whenever the last message contains this text. Steps with ``answer``, ``vote``
and ``present`` make the model a member of an ensemble (``panel_script``). After the end of the script, or without one,
the model repeats its input.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from sabir.errors import ConfigError, PeerUnavailable, PeerUnreadable
from sabir.tools import ToolCall

from .model import Model, ModelMessage, ModelOptions, ModelPiece, ModelUsage
from .panel_script import PanelStep, panel_turn

_KEYS: Final = frozenset({"say", "tool_calls", "error", "seconds", "when"})
_PANEL_KEYS: Final = frozenset({"answer", "vote", "present"})


class _Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    say: str = ""
    tool_calls: tuple[dict[str, Any], ...] = ()
    error: str = ""
    seconds: float = 0.0
    when: str = ""


ScriptStep = str | Mapping[str, Any] | Callable[[Sequence[ModelMessage]], Any]


class ScriptedModel:
    """Answers from a script, step by step; ``asked`` keeps its input."""

    reads_images = True

    def __init__(self, script: Sequence[ScriptStep] = ()) -> None:
        """Raises:
        ConfigError: a step is neither text nor a mapping with known keys.
        """
        self._panel = [_panel_step_of(step) for step in script if _is_panel_step(step)]
        if self._panel and not any(step.answer for step in self._panel):
            raise ConfigError("script: a member of an ensemble needs an answer; add a step {answer: …}")
        steps = [step if callable(step) else _step_of(step) for step in script if not _is_panel_step(step)]
        self._rules = [step for step in steps if isinstance(step, _Step) and step.when]
        self._script = [step for step in steps if not isinstance(step, _Step) or not step.when]
        self._next = 0
        self._answered = 0
        self.asked: list[tuple[ModelMessage, ...]] = []
        self.options: list[ModelOptions] = []

    async def answer(
        self, messages: Sequence[ModelMessage], options: ModelOptions | None = None
    ) -> AsyncGenerator[ModelPiece, None]:
        self.asked.append(tuple(messages))
        self.options.append(options or ModelOptions())
        step = self._step(messages, options or ModelOptions())
        if step.seconds:
            await asyncio.sleep(step.seconds)
        if step.error:
            raise PeerUnavailable("mock", step.error)
        for piece in _words(step.say):
            yield piece
        self._answered += 1
        for number, call in enumerate(step.tool_calls):
            yield ToolCall(
                f"call_{self._answered}_{number}", str(call.get("name", "")), dict(call.get("arguments", {}))
            )
        yield _usage(messages, step)

    def _step(self, messages: Sequence[ModelMessage], options: ModelOptions) -> _Step:
        last = messages[-1].content if messages else ""
        for rule in self._rules:
            if rule.when in last:
                return rule
        turn = panel_turn(self._panel, last, {tool.name for tool in options.tools}) if self._panel else None
        if turn is not None:
            calls = ({"name": turn.call, "arguments": turn.arguments},) if turn.call else ()
            return _Step(turn.say, calls, turn.step.error, turn.step.seconds)
        position = self._next
        self._next += 1
        if position < len(self._script):
            step = self._script[position]
            return step if isinstance(step, _Step) else _step_of(step(messages))
        asked = next((message.content for message in reversed(messages) if message.role == "user"), "")
        return _Step(say=f"You said: {asked}")

    async def aclose(self) -> None:
        return None


def _step_of(step: Any) -> _Step:
    if isinstance(step, str):
        return _Step(say=step)
    try:
        return msgspec.convert(step, _Step)
    except msgspec.ValidationError as exc:
        known = ", ".join(sorted(_KEYS | _PANEL_KEYS))
        raise ConfigError(f"script: expected text or a mapping with {known}: {exc}") from None


def _is_panel_step(step: Any) -> bool:
    return isinstance(step, Mapping) and not _PANEL_KEYS.isdisjoint(step)


def _panel_step_of(step: Any) -> PanelStep:
    try:
        return msgspec.convert(step, PanelStep)
    except msgspec.ValidationError as exc:
        raise ConfigError(f"script: expected one of answer, vote and present, and perhaps reason: {exc}") from None


def _words(text: str) -> list[str]:
    """Split text into pieces like those a model sends."""
    return [word if number == 0 else f" {word}" for number, word in enumerate(text.split(" "))] if text else []


def _usage(messages: Sequence[ModelMessage], step: _Step) -> ModelUsage:
    """Estimate tokens: four characters each."""
    written = len(step.say) // 4 + 8 * len(step.tool_calls) + 1
    given = sum(len(message.content) for message in messages) // 4 + 1
    return ModelUsage(given + written, written)


class _Recorded(msgspec.Struct, frozen=True):
    """One line of a recording."""

    request: str
    pieces: tuple[dict[str, Any], ...]


class RecordingModel:
    """Forwards to another model, and writes its answers to a file, one per line."""

    def __init__(self, model: Model, path: Path | str) -> None:
        self._model = model
        self._path = Path(path)

    @property
    def reads_images(self) -> bool:
        return self._model.reads_images

    async def answer(
        self, messages: Sequence[ModelMessage], options: ModelOptions | None = None
    ) -> AsyncGenerator[ModelPiece, None]:
        pieces: list[dict[str, Any]] = []
        async for piece in self._model.answer(messages, options):
            pieces.append(_written(piece))
            yield piece
        line = msgspec.json.encode(_Recorded(request_key(messages, options), tuple(pieces)))
        with self._path.open("ab") as file:
            file.write(line + b"\n")

    async def aclose(self) -> None:
        await self._model.aclose()


class ReplayingModel:
    """Answers from a recording; a request that was not recorded is an error, so that tests notice it."""

    reads_images = True

    def __init__(self, path: Path | str) -> None:
        """Raises:
        ConfigError: the recording cannot be read.
        """
        self._answers: dict[str, list[tuple[dict[str, Any], ...]]] = {}
        try:
            lines = Path(path).read_bytes().splitlines()
            for line in lines:
                recorded = msgspec.json.decode(line, type=_Recorded)
                self._answers.setdefault(recorded.request, []).append(recorded.pieces)
        except (OSError, msgspec.DecodeError) as exc:
            raise ConfigError(f"{path}: not a recording: {exc}") from exc

    async def answer(
        self, messages: Sequence[ModelMessage], options: ModelOptions | None = None
    ) -> AsyncGenerator[ModelPiece, None]:
        found = self._answers.get(request_key(messages, options), [])
        if not found:
            raise PeerUnreadable("recording", "this request was not recorded; record it again")
        pieces = found.pop(0) if len(found) > 1 else found[0]  # the last answer may be repeated
        for piece in pieces:
            yield _read(piece)

    async def aclose(self) -> None:
        return None


def request_key(messages: Sequence[ModelMessage], options: ModelOptions | None) -> str:
    """What identifies a request: its messages, and the offered tools and schema."""
    chosen = options or ModelOptions()
    said = msgspec.json.encode([list(messages), list(chosen.tools), chosen.schema, chosen.must_call])
    return hashlib.sha256(said).hexdigest()


def _written(piece: ModelPiece) -> dict[str, Any]:
    if isinstance(piece, str):
        return {"text": piece}
    kind = "call" if isinstance(piece, ToolCall) else "usage"
    return {kind: msgspec.to_builtins(piece)}


def _read(piece: Mapping[str, Any]) -> ModelPiece:
    if "call" in piece:
        return msgspec.convert(piece["call"], ToolCall)
    if "usage" in piece:
        return msgspec.convert(piece["usage"], ModelUsage)
    return str(piece.get("text", ""))
