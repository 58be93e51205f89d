"""The parameters of a Python function as JSON Schema, and arguments checked against them.

Types come from the annotations, descriptions from the docstring (Google's ``Args:`` or Sphinx's ``:param name:``).
A parameter without an annotation takes any JSON value; one without a default is required.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec

from sabir.errors import BadInput, ConfigError
from sabir.misfits import expected_in_words

_SPHINX: Final = re.compile(r":param\s(?:[\w\[\], |.]*\s)?(\w+):\s*(.*)")
_GOOGLE: Final = re.compile(r"\s+\*{0,2}(\w+)(?:\s*\([^)]*\))?:\s*(.*)")
_SECTIONS: Final = ("Args:", "Arguments:", "Parameters:")


@dataclass(frozen=True, slots=True)
class Signature:
    """What a function takes: a JSON Schema, and arguments parsed by it."""

    kind: type[msgspec.Struct]
    schema: Mapping[str, Any]
    summary: str  # the docstring without its parameters

    @classmethod
    def of(cls, function: Callable[..., Any], *, without: frozenset[str] = frozenset()) -> Signature:
        """The signature of a function, without the parameters that are not for callers.

        Raises:
            ConfigError: a parameter cannot be passed by name, or has a type that JSON cannot carry.
        """
        summary, described = described_in(inspect.getdoc(function) or "")
        hints = typing.get_type_hints(function, include_extras=True)
        fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
        for name, parameter in inspect.signature(function).parameters.items():
            if name in without:
                continue
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
                raise ConfigError(f"{function.__qualname__}: parameter {name!r} cannot be passed by name")
            annotation = hints.get(name, Any)
            if name in described:
                annotation = Annotated[annotation, msgspec.Meta(description=described[name])]
            if parameter.default is parameter.empty:
                fields.append((name, annotation))
            else:
                fields.append((name, annotation, _default(parameter.default)))
        try:
            kind = msgspec.defstruct("Arguments", fields, forbid_unknown_fields=True, kw_only=True)
            schema = _flat(msgspec.json.schema(kind))
        except TypeError as exc:
            raise ConfigError(f"{function.__qualname__}: {exc}") from exc
        return cls(kind, schema, summary)

    def read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments in the function's types.

        Raises:
            BadInput: one is missing, unknown or has the wrong type; names it and says what was expected.
        """
        try:
            read = msgspec.convert(arguments, self.kind, strict=False)
        except msgspec.ValidationError as exc:
            raise self._invalid(str(exc)) from None
        return {name: getattr(read, name) for name in self.kind.__struct_fields__}

    def check(self, name: str, value: Any) -> None:
        """Check a single argument.

        Raises:
            BadInput: it has the wrong type.
        """
        hints = typing.get_type_hints(self.kind, include_extras=True)
        try:
            msgspec.convert(value, hints[name], strict=False)
        except msgspec.ValidationError as exc:
            place, dots, rest = str(exc).partition(" - at `$")
            raise self._invalid(f"{place} - at `$.{name}{rest if dots else '`'}") from None

    def _invalid(self, problem: str) -> BadInput:
        """msgspec's message as an error with a path and what was expected."""
        words, _, path = problem.partition(" - at `$")
        where = f"${path.rstrip('`')}"
        if words.startswith("Object missing required field"):
            return BadInput("arguments", f"{where}.{_named_in(words)}", "a value, because it is required")
        if words.startswith("Object contains unknown field") and where == "$":
            known = ", ".join(self.kind.__struct_fields__) or "no arguments"
            return BadInput("arguments", f"{where}.{_named_in(words)}", f"only {known}")
        if words.startswith("Invalid enum value"):
            given = words.removeprefix("Invalid enum value ")
            schema = self.schema.get("properties", {}).get(where.removeprefix("$."), {})
            known = ", ".join(str(value) for value in _choices(schema, self.schema.get("$defs", {})))
            return BadInput(
                "arguments", where, f"one of {known}, not {given}" if known else f"a value other than {given}"
            )
        return BadInput("arguments", where, expected_in_words(words))

    def missing(self, arguments: Mapping[str, Any]) -> list[str]:
        """The missing required arguments."""
        return [name for name in self.schema.get("required", ()) if name not in arguments]


def described_in(docstring: str) -> tuple[str, dict[str, str]]:
    """The text of a docstring, and the descriptions of its parameters by name."""
    summary: list[str] = []
    described: dict[str, str] = {}
    current = ""
    in_section = False
    for line in docstring.splitlines():
        if line.strip() in _SECTIONS:
            in_section = True
            continue
        sphinx = _SPHINX.match(line.strip())
        google = _GOOGLE.fullmatch(line) if in_section else None
        found = sphinx or google
        if found is not None:
            current = found[1]
            described[current] = found[2].strip()
        elif in_section and line.startswith((" ", "\t")) and current:
            described[current] = f"{described[current]} {line.strip()}".strip()
        elif not in_section and not line.strip().startswith((":return", ":raises", ":rtype")):
            summary.append(line)
        elif in_section and line.strip() and not line.startswith((" ", "\t")):
            in_section = False  # the next section: returns and raises are not for callers
            break
    return "\n".join(summary).strip(), described


def _default(value: Any) -> Any:
    """A default for a struct: mutable ones are copied each time."""
    if isinstance(value, list | dict | set):
        return msgspec.field(default_factory=lambda: type(value)(value))
    return value


def _flat(schema: dict[str, Any]) -> dict[str, Any]:
    """msgspec's schema of a struct, inlined from ``$defs`` and without its title."""
    definitions = schema.get("$defs", {})
    name = schema["$ref"].rpartition("/")[2]
    flat = {key: value for key, value in definitions.pop(name).items() if key != "title"}
    if definitions:
        flat["$defs"] = definitions
    return flat


def _named_in(words: str) -> str:
    return words.partition("`")[2].partition("`")[0]


def _choices(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> list[Any]:
    """The values that a schema lists, or None."""
    if "$ref" in schema:
        schema = definitions.get(schema["$ref"].rpartition("/")[2], {})
    if "enum" in schema:
        return list(schema["enum"])
    return [value for option in schema.get("anyOf", ()) for value in _choices(option, definitions)]
