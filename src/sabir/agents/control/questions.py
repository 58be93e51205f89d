"""What the caller is asked before a guess is carried out. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

Value = Mapping[str, Any]
_LIMITED: Final[Mapping[str, str]] = {
    "reply": "Limit replies to {} bytes?",
    "body": "Limit messages to {} bytes?",
    "rate_per_minute": "Accept at most {} messages per minute?",
}


def question_for(act: str, value: Value) -> str:
    """The question that names an act and its terms; empty for acts that have a question of their own or none."""
    ask = _QUESTIONS.get(act)
    return "" if ask is None else ask(value)


def _limits(value: Value) -> str:
    return " ".join(_LIMITED[name].format(_counted(number)) for name, number in value["propose"].items())


def _counted(number: float) -> str:
    """All digits of a whole number; one message an hour is a fraction of one per minute."""
    return f"{int(number):,}" if number == int(number) else f"{number:,g}"


def _listed(items: Sequence[str]) -> str:
    return ", ".join(items)


def _fixed(text: str) -> Callable[[Value], str]:
    return lambda value: text


_QUESTIONS: Final[Mapping[str, Callable[[Value], str]]] = {
    "end": _fixed("End this session?"),
    "anonymous on": _fixed("Make this conversation anonymous?"),
    "anonymous off": _fixed("End anonymous mode?"),
    "keeper server": _fixed("Shall the gateway keep the context?"),
    "keeper client": _fixed("Will you keep the context yourself?"),
    "keeper both": _fixed("Shall you and the gateway both keep the context?"),
    "stream on": _fixed("Send partial answers ahead of the whole one?"),
    "stream off": _fixed("Send only whole answers?"),
    "limits": _limits,
    "window": lambda value: f"Use a context window of {value['window']} turns?",
    "withhold": lambda value: f"Withhold your {_listed(value['attributes']['withhold'])} from agents?",
    "languages": lambda value: f"Limit replies to these languages: {_listed(value['languages'])}?",
    "formats": lambda value: f"Limit replies to these formats: {_listed(value['formats'])}?",
    "vocabulary": lambda value: f"Answer only with: {_listed(value['words'])}?",
}
