"""What the types of settings say: the Struct inside a type hint, and the values that a ``Literal`` allows.

Separate from the doors, because commands that do not serve also read settings and should not load a server.
"""

from __future__ import annotations

import re
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec


def choices(kind: type, place: str) -> str:
    """The values that a ``Literal`` at this path of a type allows, in words: ``a, b or c``."""
    *others, last = words_of(kind, place)
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
