"""The agents of a Python file: what ``sabir dev app.py`` and ``sabir serve app.py:object`` serve."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from sabir.agent import Agent
from sabir.errors import ConfigError, MissingExtra
from sabir.gateway.collecting import collecting

from .importing import mistake

if TYPE_CHECKING:
    from sabir.gateway.gateway import Gateway

SUFFIX: Final = ".py"
HOME: Final = "SABIR_HOME"


def is_app(place: str | None) -> bool:
    """Whether an argument names a Python file, optionally with an object: ``app.py`` or ``app.py:echo``."""
    return place is not None and place.partition(":")[0].endswith(SUFFIX)


def path_of(place: str) -> Path:
    return Path(place.partition(":")[0])


def load_app(place: str, home: str | None = None) -> list[Agent] | Gateway:
    """The agents of a file in order of definition, or the gateway that it creates, which is not run.

    Args:
        home: where a gateway that says nothing else keeps its state (default: SABIR_HOME).

    Raises:
        ConfigError: the file cannot be read or run, or has no agent; names the line.
    """
    name = place.partition(":")[2]
    with collecting() as run, default_home(home):
        module = _run(path_of(place))
    if name:
        return _chosen(module, name, place)
    found = {id(value): value for value in vars(module).values()}.values()
    gateways = [*run, *(value for value in found if _is_gateway(value))]
    if gateways:
        first: Gateway = gateways[0]
        return first
    agents = [value for value in found if isinstance(value, Agent) and not isinstance(value, type)]
    if not agents:
        raise ConfigError(f"{path_of(place)}: no agent found; decorate a function with @agent")
    return agents


@contextmanager
def default_home(home: str | None) -> Iterator[None]:
    """Set SABIR_HOME for gateways that are created in this block."""
    before = os.environ.get(HOME)
    if home is not None:
        os.environ[HOME] = home
    try:
        yield
    finally:
        if before is not None:
            os.environ[HOME] = before
        elif home is not None:
            del os.environ[HOME]


def _chosen(module: ModuleType, name: str, place: str) -> list[Agent] | Gateway:
    value = getattr(module, name, None)
    if value is None:
        raise ConfigError(f"{place}: {path_of(place)} has no {name!r}")
    if _is_gateway(value):
        return value  # type: ignore[no-any-return]
    if isinstance(value, Agent):
        return [value]
    raise ConfigError(f"{place}: expected an agent or a Gateway, not {type(value).__name__}")


def _is_gateway(value: Any) -> bool:
    gateway = sys.modules.get("sabir.gateway.gateway")  # a file that creates a gateway has imported it
    return gateway is not None and isinstance(value, gateway.Gateway)


def _run(path: Path) -> ModuleType:
    if not path.is_file():
        raise ConfigError(f"{path}: no such file; `sabir init` writes an app.py")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)  # as `python app.py` does
    name = path.stem if path.stem.isidentifier() else "sabir_app"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    assert spec is not None and spec.loader is not None  # the name ends in .py
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except MissingExtra:  # already says what to install
        raise
    except Exception as exc:
        raise ConfigError(mistake(exc).removeprefix(f"{Path.cwd()}{os.sep}")) from None
    return module
