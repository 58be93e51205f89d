"""``MassgenModel``: a msgspec struct that validates its fields, with the pydantic methods that the design uses.

Sabir's core does not use pydantic, so ``model_copy``, ``model_dump`` and ``model_validate`` are implemented here.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, ClassVar, Literal, Self, get_args, get_origin, get_type_hints

import msgspec

from sabir.misfits import NOT_JSON

_PLAIN = (str, int, float, bool, dict, list)


class MassgenModel(msgspec.Struct, kw_only=True):
    """The base of the design's message classes. An invalid value raises ``ValueError`` and names the field."""

    model_config: ClassVar[Mapping[str, Any]] = {"extra": "ignore"}

    def __post_init__(self) -> None:
        checks = _checks_of(type(self))
        doubtful = {}
        for name, kinds, choices in checks.fields:
            value = getattr(self, name)
            if type(value) not in kinds and value not in choices:
                doubtful[name] = value
        if not doubtful:
            return
        try:
            checked = msgspec.convert(doubtful, checks.struct, strict=False)
        except msgspec.ValidationError as exc:
            words, _, place = str(exc).partition(" - at `$")
            raise ValueError(f"{type(self).__name__}{place.rstrip('`')}: {_lowered(words)}") from None
        for name, value in doubtful.items():
            found = getattr(checked, name)
            if found is not value:
                setattr(self, name, found)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with some fields changed; as in pydantic, changed fields are not validated."""
        made = copy.deepcopy(self) if deep else copy.copy(self)
        for name, value in (update or {}).items():
            setattr(made, name, value)
        return made

    def model_dump(self, *, mode: str = "python", exclude_none: bool = False) -> dict[str, Any]:
        """The message as plain values; with ``mode="json"`` only JSON types."""
        builtin = (bytes,) if mode == "python" else ()
        plain: dict[str, Any] = msgspec.to_builtins(self, builtin_types=builtin)
        return _without_none(plain) if exclude_none else plain

    def model_dump_json(self, *, exclude_none: bool = False) -> str:
        """The message as JSON text."""
        return msgspec.json.encode(self.model_dump(mode="json", exclude_none=exclude_none)).decode()

    @classmethod
    def model_validate(cls, value: Any) -> Self:
        """Build a message from plain values.

        Raises:
            ValueError: a field is missing or invalid; names it.
        """
        if isinstance(value, cls):
            return value
        try:
            return msgspec.convert(value, cls, strict=False)
        except msgspec.ValidationError as exc:
            raise ValueError(f"{cls.__name__}: {_lowered(str(exc))}") from None

    @classmethod
    def model_validate_json(cls, text: str | bytes) -> Self:
        """The same from JSON text; raises as ``model_validate`` does."""
        try:
            value = msgspec.json.decode(text)
        except NOT_JSON as exc:
            raise ValueError(f"{cls.__name__}: {_lowered(str(exc))}") from None
        return cls.model_validate(value)

    @classmethod
    def model_json_schema(cls) -> dict[str, Any]:
        """The JSON Schema of the class."""
        return msgspec.json.schema(cls)


class _Checks(msgspec.Struct, frozen=True):
    """How the fields of a class are validated."""

    # with the types that need no further check, and the values of a Literal
    fields: tuple[tuple[str, tuple[type, ...], tuple[str, ...]], ...]
    struct: type[msgspec.Struct]  # the same fields, all optional; msgspec can validate it in one call


@lru_cache(maxsize=64)
def _checks_of(cls: type[MassgenModel]) -> _Checks:
    hints = get_type_hints(cls, include_extras=True)
    names = [name for name in cls.__struct_fields__ if hints[name] is not Any]
    struct = msgspec.defstruct(cls.__name__, [(name, hints[name] | msgspec.UnsetType, msgspec.UNSET) for name in names])
    return _Checks(tuple((name, _accepted(hints[name]), _words(hints[name])) for name in names), struct)


def _words(kind: Any) -> tuple[str, ...]:
    return get_args(kind) if get_origin(kind) is Literal else ()


def _accepted(kind: Any) -> tuple[type, ...]:
    """Types without constraints and without contents to validate."""
    if kind in _PLAIN or kind is type(None):
        return (kind,)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return (kind,)
    if get_origin(kind) is dict and get_args(kind)[1] is Any:
        return (dict,)
    if hasattr(kind, "__args__") and get_origin(kind) not in (dict, list, tuple) and not hasattr(kind, "__metadata__"):
        return tuple(item for option in get_args(kind) if not isinstance(option, str) for item in _accepted(option))
    return ()


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    return [_without_none(item) for item in value] if isinstance(value, list) else value


def _lowered(text: str) -> str:
    return f"{text[:1].lower()}{text[1:]}"
