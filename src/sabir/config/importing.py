"""Imports objects that a configuration names as ``module:name``, or as a file and a function in it."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from typing import Any, Final

from sabir.errors import ConfigError, MissingExtra

SABIR: Final = Path(__file__).parents[1]
STANDARD_LIBRARY: Final = Path(traceback.__file__).parent
INSTALLED: Final = frozenset({"site-packages", "dist-packages"})


def imported(use: str, beside: Path | None, place: str) -> Any:
    """The object that ``module:name`` refers to; the folder ``beside`` is searched first.

    Raises:
        ConfigError: it cannot be imported.
    """
    module, _, name = use.partition(":")
    folders = [str(folder) for folder in dict.fromkeys([(beside or Path()).resolve(), Path.cwd()])]
    before = sys.path[:]
    sys.path[:0] = folders
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as exc:
        absent = isinstance(exc, ModuleNotFoundError) and exc.name in (module, module.partition(".")[0])
        looked = f"; looked in {', in '.join(folders)} and among the installed packages" if absent else ""
        if absent and (module.endswith(".py") or "/" in module):
            looked = f"; expected a module without .py and folders, such as {Path(module).stem}:{name}"
        at = f" ({place_of(exc)})" if not absent and place_of(exc) else ""
        raise ConfigError(f"{place}: cannot import {use}: {exc}{at}{looked}") from None
    except MissingExtra:  # already says what to install
        raise
    except Exception as exc:
        raise ConfigError(f"{place}: cannot import {use}: {mistake(exc)}") from None
    finally:
        sys.path[:] = before


def mistake(exc: BaseException) -> str:
    """What is wrong in a file that was run, and where: ``shop.py:12: KeyError: 'price'``."""
    if isinstance(exc, SyntaxError):
        return f"{exc.filename}:{exc.lineno}: {exc.msg}"
    words = str(exc) if isinstance(exc, ConfigError) else f"{type(exc).__name__}: {exc}"
    return ": ".join(part for part in (place_of(exc), words) if part)


def place_of(exc: BaseException) -> str:
    """The last line of the program's own code in a traceback, as ``file.py:12``, or an empty text.

    Without one, it is the last line of an installed package; it is never a line of Sabir or of Python itself.
    """
    frames = [frame for frame in traceback.extract_tb(exc.__traceback__) if not _is_ours(frame.filename)]
    own = [frame for frame in frames if not _is_installed(frame.filename)] or frames
    return f"{own[-1].filename}:{own[-1].lineno}" if own else ""


def _is_ours(file: str) -> bool:
    """Whether a file belongs to Sabir, or to Python and its import system."""
    path = Path(file)
    of_python = path.is_relative_to(STANDARD_LIBRARY) and not _is_installed(file)
    return file.startswith("<") or of_python or path.is_relative_to(SABIR)


def _is_installed(file: str) -> bool:
    return not INSTALLED.isdisjoint(Path(file).parts)


def from_file(path: Path, name: str, place: str) -> Any:
    """What a Python file defines under a name.

    Raises:
        ConfigError: the file does not exist, or does not define the name.
    """
    spec = importlib.util.spec_from_file_location(f"sabir_custom_tools_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ConfigError(f"{place}: {path}: expected a Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as exc:
        raise ConfigError(f"{place}: {path}: {mistake(exc)}") from exc
    if not hasattr(module, name):
        raise ConfigError(f"{place}: {path} defines no {name!r}")
    return getattr(module, name)
