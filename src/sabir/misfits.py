"""Type errors in our own words: where a value does not fit its type, and what was expected there.

Libraries that check types name Python's types and quote the input. Separate from the doors, because commands that
do not serve also read settings and should not load a server.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

import msgspec

# What decoding bytes as JSON raises: msgspec lets invalid UTF-8 and deep nesting through as Python's own errors.
NOT_JSON: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_WORDS: Final[Mapping[str, str]] = {
    "str": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "object": "an object",
    "array": "an array",
    "bytes": "base64 text",
}
_TYPES: Final = re.compile(r"Expected `([a-z| ]+)`(.*)")
_SETTING: Final = re.compile(r"Expected `([a-z| ]+)`(?: (>=|<=|>|<) (-?[\d.]+))?(?:, got `([a-z]+)`)?")
_SETTING_WORDS: Final[Mapping[str, str]] = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "object": "a mapping",
    "array": "a list",
    "null": "nothing",
}
_BOUNDS: Final[Mapping[str, str]] = {">=": "of at least", "<=": "of at most", ">": "above", "<": "below"}
_FIELD: Final = re.compile(r"Object (missing required|contains unknown) field `(.*)`")


def misfit(problem: msgspec.ValidationError, kind: Any = None, start: str = "$") -> tuple[str, str]:
    """The JSON path of an error of msgspec, and what was expected there; ``kind`` is the type of the whole."""
    said, _, path = str(problem).partition(" - at `")
    path = path.partition("`")[0].removeprefix("$")
    if field := _FIELD.fullmatch(said):
        missing = field[1] == "missing required"
        return f"{start}{path}.{field[2]}", "a value, which is required" if missing else "no such field"
    if said.startswith("Invalid enum value"):
        known = "" if kind is None else choices(kind, path)
        return f"{start}{path}", known or "a known value"
    return f"{start}{path}", expected_in_words(said)


def expected_in_words(said: str) -> str:
    """What msgspec expected, in words: ``a whole number``."""
    if "out of range" in said:
        return "a smaller number"
    typed = _TYPES.fullmatch(said)
    if typed is None:
        return said.removeprefix("Expected ").removeprefix("expected ")
    names = [name for name in typed[1].split(" | ") if name != "null" or typed[1] == "null"]
    rest = typed[2].partition(", got")[0].replace("of length >=", "of at least").replace("of length <=", "of at most")
    bounds = rest.replace(">=", "from").replace("<=", "up to")
    return " or ".join(_WORDS.get(name, name) for name in names) + bounds


def setting_in_words(said: str) -> str:
    """An error of msgspec about a setting, in the words of people who write YAML: ``expected a list, not text``."""
    if missing := _FIELD.fullmatch(said):
        return (
            f"the required key {missing[2]} is missing"
            if missing[1] == "missing required"
            else f"unknown key {missing[2]}"
        )
    typed = _SETTING.fullmatch(said)
    if typed is None:
        return f"{said[:1].lower()}{said[1:]}"
    kinds, bound, number, found = typed.groups()
    names = [name for name in kinds.split(" | ") if name != "null" or kinds == "null"]
    words = " or ".join(_SETTING_WORDS.get(name, name) for name in names)
    if bound:
        words += f" {_BOUNDS[bound]} {number.removesuffix('.0')}"
    return f"expected {words}, not {_SETTING_WORDS.get(found, found)}" if found else f"expected {words}"


def choices(kind: type, place: str) -> str:
    """The values that a ``Literal`` at this path of a type allows, in words: ``a, b or c``."""
    *others, last = words_of(kind, place) or [""]
    return f"{', '.join(others)} or {last}" if others else last


def words_of(kind: type, place: str) -> list[str]:
    """The values that a ``Literal`` at this path of a type allows; none for any other type."""
    hint: Any = kind
    for step in re.findall(r"[a-z_]\w*", re.sub(r"\[[^\[\]]*\]", "", place)):
        inner = struct_in(hint)
        if inner is not None:
            hint = get_type_hints(inner, include_extras=True)[step]
    return [str(value) for value in _literals(hint)]


def struct_in(hint: Any) -> type | None:
    """The Struct inside a type hint, such as ``tuple[Rule, ...] | None``."""
    if isinstance(hint, type) and get_origin(hint) is None:
        return hint if issubclass(hint, msgspec.Struct) else None
    return next((found for arg in get_args(hint) if (found := struct_in(arg)) is not None), None)


def _literals(hint: Any) -> list[Any]:
    """The values of a ``Literal``, including one inside a union."""
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    return [value for arg in get_args(hint) for value in _literals(arg)]


# -- pydantic, which the SDKs of MCP and A2A use -----------------------------------------------------

_PYDANTIC: Final[Mapping[str, str]] = {
    "string_type": "a string",
    "string_too_short": "a longer string",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing_size": "a smaller number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a smaller number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "list_type": "an array",
    "url_type": "a URL",
    "url_parsing": "a URL",
    "missing": "a value, which is required",
    "extra_forbidden": "no such field",
}
_CHOICES: Final = ("literal_error", "enum")


def pydantic_misfit(problems: Iterable[Mapping[str, Any]], value: object, start: str = "$") -> tuple[str, str]:
    """The JSON path of the errors of pydantic in ``value``, and what was expected there.

    Where there are alternatives, the one with the fewest errors was meant.
    """
    groups: dict[tuple[str | int, ...], list[tuple[str, str]]] = {}
    for problem in problems:
        path, alternative = _place(problem["loc"], value, problem["type"] == "missing")
        groups.setdefault(alternative, []).append((path, _expected_by(problem)))
    fewest = min(map(len, groups.values()))
    meant = [group[0] for group in groups.values() if len(group) == fewest]
    where = meant[0][0]
    expected = dict.fromkeys(text for path, text in meant if path == where)
    is_simple = all(text in _WORDS.values() for text in expected)
    return f"{start}{where}", " or ".join(expected) if is_simple else next(iter(expected))


def _place(steps: Sequence[str | int], value: object, is_missing: bool) -> tuple[str, tuple[str | int, ...]]:
    """The path in the value, and which alternative it belongs to: pydantic names those that it tried, as steps."""
    path = ""
    alternative: tuple[str | int, ...] = ()
    for number, step in enumerate(steps):
        if isinstance(value, Mapping) and (step in value or (is_missing and number == len(steps) - 1)):
            path, value = f"{path}.{shown(step)}", value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            path, value = f"{path}[{step}]", value[step]
        else:
            alternative = tuple(steps[: number + 1])
    return path, alternative


def shown(name: object) -> str:
    """A name of the caller's, short and printable, so that it can stand in an error."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in str(name)[:64])


def _expected_by(problem: Mapping[str, Any]) -> str:
    if problem["type"] in _CHOICES:
        return str(problem.get("ctx", {}).get("expected", "a known value")).replace("'", "")
    return _PYDANTIC.get(problem["type"], "a value that the protocol allows here")
