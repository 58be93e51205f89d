"""Asks the person at the terminal an agent's question: field by field, until the answers are valid."""

from __future__ import annotations

import asyncio
import io
import math
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final

from sabir.events import Field, Question
from sabir.message import Message, json_part

from .printing import say

Read = Callable[[str], Awaitable[str | None]]  # prompts and returns a line; None: the person declines
Show = Callable[[str], object]

YES: Final = frozenset({"y", "yes", "true", "1"})
NO: Final = frozenset({"n", "no", "false", "0"})
PROMPT: Final = "> "
PLAIN: Final = "answer"  # the field of a question without fields, if a protocol needs one
DECLINED: Final = ""  # the text that declines a question


async def answer_of(question: Question, read: Read, show: Show) -> Message:
    """The person's answer; an empty text if they decline."""
    if not question.fields:
        show(question.text)
        words = await read(PROMPT)
        return Message.text(DECLINED if words is None else words)
    if not _asks_once(question):
        show(question.text)
    values: dict[str, Any] = {}
    for field in question.fields:
        value = await _value(field, question, read, show)
        if value is not None:
            values[field.id] = value
        elif field.required:
            return Message.text(DECLINED)
    return Message.text(in_words(values), parts=(json_part(values, label="answer"),))


async def at_terminal(question: Question) -> Message:
    """The answer from standard input; the question is printed to standard error."""
    return await answer_of(question, _read_line, _print_prompt)


def in_words(values: dict[str, Any]) -> str:
    """The answer as text, for agents that read no JSON: ``large, yes, sugar and cinnamon``."""
    return ", ".join(_word(value) for value in values.values())


def asked(field: Field) -> str:
    """The prompt of a field: ``With milk? [y/n]``."""
    notes = {
        "boolean": "y/n",
        "number": "a number",
        "single_select": f"1-{len(field.options)}" if field.options else "",
        "multi_select": f"1-{len(field.options)}, several with commas" if field.options else "several with commas",
    }
    note = ", ".join(item for item in (notes.get(field.kind, ""), "" if field.required else "Enter skips it") if item)
    return f"{field.text or field.id} [{note}]" if note else field.text or field.id


def choices(field: Field) -> list[str]:
    """The options of a field, numbered."""
    return [f"  {number}. {option}" for number, option in enumerate(field.options, 1)]


def value_of(words: str, field: Field) -> Any:
    """The typed value.

    Raises:
        ValueError: it is invalid; says what was expected.
    """
    if field.kind == "boolean":
        return _boolean(words)
    if field.kind == "number":
        return _number(words)
    if field.kind == "multi_select":
        return [_option(word.strip(), field) for word in words.split(",") if word.strip()]
    return _option(words, field) if field.options else words


def _asks_once(question: Question) -> bool:
    """Whether the only field adds nothing to the question. Over MCP the field of a plain question is ``answer``."""
    if len(question.fields) != 1:
        return False
    field = question.fields[0]
    return field.text in question.text or field.id == field.text == PLAIN


async def _value(field: Field, question: Question, read: Read, show: Show) -> Any:
    """The value of a field; None if it was skipped or declined."""
    words_before = asked(field)
    if _asks_once(question):
        words_before = words_before.replace(field.text, question.text, 1) if field.text else question.text
    while True:
        show(words_before)
        for line in choices(field):
            show(line)
        words = await read(PROMPT)
        if words is None:
            return None
        if not words and not field.required:
            return None
        if not words:
            show("  This one is required. Ctrl-D declines the whole question.")
            continue
        try:
            return value_of(words, field)
        except ValueError as exc:
            show(f"  {exc}")


def _boolean(words: str) -> bool:
    word = words.lower()
    if word not in YES | NO:
        raise ValueError(f"{words!r} is neither yes nor no: type y or n")
    return word in YES


def _number(words: str) -> int | float:
    try:
        number = int(words) if words.lstrip("+-").isdecimal() else float(words)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{words!r} is not a number: type one such as 2 or 1.5")
    return number


def _option(word: str, field: Field) -> str:
    if not field.options:
        return word
    by_word = {option.lower(): option for option in field.options}
    if word.lower() in by_word:
        return by_word[word.lower()]
    if word.isdecimal() and 1 <= int(word) <= len(field.options):
        return field.options[int(word) - 1]
    near = [option for option in field.options if option.lower().startswith(word.lower())]
    if len(near) == 1:
        return near[0]
    raise ValueError(f"{word!r} is not one of the choices: type a number from 1 to {len(field.options)}, or the words")


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return " and ".join(map(str, value))
    return str(value)


async def _read_line(prompt: str) -> str | None:
    say(prompt, end="", file=sys.stderr, flush=True)
    await _typed()
    line = sys.stdin.readline()
    return line.strip() if line else None


async def _typed() -> None:
    """Wait for a line in the event loop: a thread that reads could not be interrupted, and Ctrl-C would wait for it."""
    try:
        keyboard = sys.stdin.fileno()
    except io.UnsupportedOperation:  # not a file: it can be read without waiting
        return
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(keyboard, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(keyboard)


def _print_prompt(text: str) -> None:
    say(text, file=sys.stderr)
