"""Private parts of the official SDK that are used, and the version bound that goes with them."""

from __future__ import annotations

import ast
import inspect
import tomllib
from importlib.metadata import version
from pathlib import Path

from mcp.client import ClientSession

import sabir

ROOT = Path(__file__).resolve().parents[3]
PRIVATE = {"_stamp", "_dispatcher"}  # of the SDK's client sessions


def used_of_sessions() -> set[str]:
    """The private attributes of the SDK's sessions that the source touches."""
    found: set[str] = set()
    for file in (Path(sabir.__file__).parent / "protocols" / "mcp").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
                continue
            if node.value.id in ("session", "client") and node.attr.startswith("_"):
                found.add(node.attr)
    return found


def test_no_other_private_part_is_used() -> None:
    assert used_of_sessions() == PRIVATE


def test_the_private_parts_are_there() -> None:
    source = inspect.getsource(ClientSession)
    assert all(f"self.{name}" in source for name in PRIVATE)


def test_the_version_is_bounded_at_the_next_minor_one() -> None:
    """The installed version is the one that all tests of this directory have run with."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (wanted,) = project["optional-dependencies"]["mcp"]
    major, minor = version("mcp").split(".")[:2]
    assert wanted == f"mcp>={major}.{minor},<{major}.{int(minor) + 1}"
