"""Loads the settings: one YAML file, ``SABIR_…`` variables and flags.

Unknown keys are errors that suggest the nearest known one. Flags override variables, variables override the file.
``SABIR_PORT=9000`` sets ``port``; a double underscore goes one level down: ``SABIR_QUOTAS__BURST=5``.
"""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, get_args, get_origin, get_type_hints

import msgspec
import yaml

from sabir.errors import ConfigError, suggestion
from sabir.misfits import choices, setting_in_words, struct_in

from .settings import Settings
from .validate import check

DEFAULT_FILE: Final = "sabir.yaml"


PREFIX: Final = "SABIR_"


def load(path: Path | str | None = None, *, flags: Mapping[str, Any] | None = None) -> Settings:
    """Load the settings: defaults, then the file, then the environment, then flags.

    Without a path, reads the file in ``SABIR_CONFIG``, or ``sabir.yaml`` in the current folder if it exists.

    Raises:
        ConfigError: the file cannot be read, or a key or value is invalid; says which and what was expected.
    """
    file = file_of(path)
    values = _read(file) if file is not None else {}
    settings = settings_of(values, str(file))
    if more := _environment(os.environ):  # separately, so that an error names the source of the value
        _merge(values, more)
        settings = settings_of(values, _variable)
    if more := {key: value for key, value in (flags or {}).items() if value is not None}:
        _merge(values, more)
        settings = settings_of(values, "flags")
    return settings


def file_of(path: Path | str | None = None) -> Path | None:
    """The file to read: the given one, or the one in ``SABIR_CONFIG``, or ``sabir.yaml`` if it exists."""
    path = path if path is not None else os.environ.get("SABIR_CONFIG")
    if path is not None:
        return Path(path)
    return Path(DEFAULT_FILE) if Path(DEFAULT_FILE).exists() else None


def settings_of(values: Mapping[str, Any], source: str | Callable[[str], str] = "settings") -> Settings:
    """Convert plain values to typed settings.

    Raises:
        ConfigError: a key or value is invalid; says where it came from, which it is and what was expected.
    """
    try:
        return _typed(values)
    except ConfigError as exc:
        origin = source if isinstance(source, str) else source(_place_in(str(exc)))
        raise ConfigError(f"{origin}: {exc}") from None


def _typed(values: Mapping[str, Any]) -> Settings:
    _check_keys(values, Settings, "")
    try:
        settings = msgspec.convert(values, Settings, strict=False)
    except msgspec.ValidationError as exc:
        raise ConfigError(_readable(str(exc), values)) from None
    check(settings)
    return settings


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as exc:
        hint = "; `sabir init` writes a sabir.yaml" if isinstance(exc, FileNotFoundError) else ""
        raise ConfigError(f"{path}: {exc.strerror or exc}{hint}") from exc
    except UnicodeDecodeError as exc:
        raise ConfigError(f"{path}: expected UTF-8; byte {exc.start} is not") from None
    try:
        values = yaml.load(text, _Once)
    except yaml.YAMLError as exc:
        mark = getattr(exc, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        raise ConfigError(f"{path}: {where}{_yaml_problem(exc)}") from exc
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: expected keys and values, such as 'port: 8080'")
    return values


_YAML_PROBLEMS: Final = {  # what the parser says, and what that means
    "<stream end>": "the file ends inside a list or a mapping; is a bracket missing?",
    "unexpected end of stream": "the file ends inside a quoted text; is a quotation mark missing?",
    "<block end>": "this line is not indented like the lines above it",
    "'\\t'": "a tab; use spaces instead",
}


def _yaml_problem(exc: yaml.YAMLError) -> str:
    """What is wrong with the file, in words for people who do not know the parts of a YAML parser."""
    problem = getattr(exc, "problem", None) or ""
    if isinstance(exc, yaml.constructor.ConstructorError):
        return problem  # a duplicate key, or a tag
    plain = next((words for part, words in _YAML_PROBLEMS.items() if part in problem), problem)
    return f"not valid YAML: {plain}" if plain else "not valid YAML"


class _Once(yaml.SafeLoader):
    """A YAML loader that rejects duplicate keys instead of dropping them, and reads dates as text: MCP versions are
    dates.
    """

    yaml_implicit_resolvers = {  # noqa: RUF012  # as its base class has it
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(None, None, f"duplicate key {key.value!r}", key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def _environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """``SABIR_A__B=c`` as ``{"a": {"b": "c"}}``; values are parsed as YAML, so numbers and lists work."""
    values: dict[str, Any] = {}
    for name, text in environ.items():
        if not name.startswith(PREFIX) or name.startswith(NOT_SETTINGS):
            continue
        *steps, last = name.removeprefix(PREFIX).lower().split("__")
        place = values
        for step in steps:
            place = place.setdefault(step, {})
            if not isinstance(place, dict):
                raise ConfigError(f"{name}: another variable gives {step} a value of its own")
        place[last] = _environment_value(text)
    return values


def _environment_value(text: str) -> Any:
    """The value of a variable, parsed as YAML, so numbers, lists and ``{key: value}`` work; ``memory:`` stays text."""
    try:
        value = yaml.safe_load(text) if text else None
    except yaml.YAMLError:
        return text
    is_mapping_by_accident = isinstance(value, dict) and not text.lstrip().startswith("{")
    return text if is_mapping_by_accident else value


# Read by commands and by our own tests; not part of the file.
NOT_SETTINGS: Final = (
    "SABIR_TOKEN",
    "SABIR_URL",
    "SABIR_CONFIG",
    "SABIR_DEV_AGAIN",
    "SABIR_TEST_",
    "SABIR_COVERAGE",
    "SABIR_CRANFIELD",
)


def _merge(values: dict[str, Any], more: Mapping[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, Mapping) and isinstance(values.get(key), dict):
            _merge(values[key], value)
        else:
            values[key] = dict(value) if isinstance(value, Mapping) else value


def _check_keys(values: Mapping[str, Any], kind: type, place: str) -> None:
    """Check that every key is known, at every typed level.

    Raises:
        ConfigError: a key is unknown; names the nearest known one.
    """
    hints = get_type_hints(kind)
    known = {field.encode_name: hints[field.name] for field in msgspec.structs.fields(kind)}
    for key, value in values.items():
        name = f"{place}{key}"
        if key not in known:
            raise ConfigError(f"unknown key {name}: {suggestion(key, sorted(known), place=place)}")
        inner = struct_in(known[key])
        if inner is None or (isinstance(value, Mapping) and _is_list(known[key])):  # validated by its type
            continue
        if isinstance(value, Mapping) and get_origin(known[key]) is dict:  # keys chosen by the user
            for entry, item in value.items():
                if isinstance(item, Mapping):
                    _check_keys(item, inner, f"{name}.{entry}.")
        elif isinstance(value, Mapping):
            _check_keys(value, inner, f"{name}.")
        elif isinstance(value, list | tuple):
            for index, item in enumerate(value):
                if isinstance(item, Mapping):
                    _check_keys(item, inner, f"{name}[{index}].")


def _is_list(hint: Any) -> bool:
    return any(get_origin(item) is tuple for item in (hint, *get_args(hint)))


_PLACE: Final = re.compile(r" - at `\$\.?([^`]*)`$")


_INNER: Final = re.compile(r"([a-z_]+): (?=expected )")


def _readable(text: str, values: Mapping[str, Any]) -> str:
    """msgspec's error in words, with the path in front: ``port: expected a whole number, not text``."""
    match = _PLACE.search(text)
    if match is None:
        return text
    place, said = match.group(1), text[: match.start()]
    said = said.removeprefix(f"{re.split(r'[.[]', place)[0]}: ")  # a check of its own may name the place, too
    if inner := _INNER.match(said):
        place, said = f"{place}.{inner.group(1)}", said[inner.end() :]
    if said.startswith("Invalid enum value"):
        said = f"expected {choices(Settings, place)}, not {said.removeprefix('Invalid enum value ')}"
    needs_quotes = said.startswith("Expected `str`, got `") and said.endswith(("`int`", "`float`", "`bool`"))
    hint = "; write it in quotes" if needs_quotes else ""
    return f"{_exact(place, text, values)}: {setting_in_words(said)}{hint}"


def _exact(place: str, text: str, values: Mapping[str, Any]) -> str:
    """The path with the key that the file uses; msgspec writes ``gateways[...].url``."""
    before, dots, after = place.partition("[...]")
    if not dots:
        return place
    steps = [int(number) if number else name for name, number in re.findall(r"(\w+)|\[(\d+)\]", before)]
    less: Any = copy.deepcopy(dict(values))
    *way, last = steps
    inside = less
    for step in way:
        inside = inside[step]
    for name, value in inside[last].items():
        inside[last] = {name: value}
        try:
            msgspec.convert(less, Settings, strict=False)
        except msgspec.ValidationError as exc:
            if str(exc) == text:
                return f"{before}.{name}{after}"
    return place


_FIRST: Final = re.compile(r"(?:unknown key )?([\w.\[\]-]+): ")


def _place_in(said: str) -> str:
    match = _FIRST.match(said)
    return match.group(1) if match else ""


def _variable(place: str) -> str:
    """The variables that may have set the invalid value at a path."""
    found = []
    for name in os.environ:
        if name.startswith(PREFIX) and not name.startswith(NOT_SETTINGS):
            path = name.removeprefix(PREFIX).lower().replace("__", ".")
            if re.match(rf"{re.escape(path)}(?![\w-])", place) or path.startswith(f"{place}."):
                found.append(name)
    return ", ".join(sorted(found)) or "SABIR_… variables"
