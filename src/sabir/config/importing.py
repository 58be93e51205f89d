"""Imports objects that a configuration names as ``module:name``, or as a file and a function in it."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from typing import Any

from sabir.errors import ConfigError


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
        absent = isinstance(exc, ModuleNotFoundError) and exc.name == module.partition(".")[0]
        looked = f"; looked in {', in '.join(folders)} and among the installed packages" if absent else ""
        at = f" ({place_of(exc)})" if not absent and isinstance(exc, ImportError) and place_of(exc) else ""
        raise ConfigError(f"{place}: cannot import {use}: {exc}{at}{looked}") from None
    except SyntaxError as exc:
        raise ConfigError(f"{place}: cannot import {use}: {exc.filename}:{exc.lineno}: {exc.msg}") from None
    except ConfigError:
        raise
    except Exception as exc:
        raise ConfigError(f"{place}: cannot import {use}: {place_of(exc)}: {type(exc).__name__}: {exc}") from None
    finally:
        sys.path[:] = before


def place_of(exc: BaseException) -> str:
    """The last line of the program's own code in a traceback, as ``file.py:12``, or an empty text."""
    frames = traceback.extract_tb(exc.__traceback__)
    own = [frame for frame in frames if "importlib" not in frame.filename and frame.filename != __file__]
    return f"{own[-1].filename}:{own[-1].lineno}" if own else ""


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
        raise ConfigError(f"{place}: {path}: {type(exc).__name__}: {exc}") from exc
    if not hasattr(module, name):
        raise ConfigError(f"{place}: {path} defines no {name!r}")
    return getattr(module, name)
