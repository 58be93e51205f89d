"""What users import: the public packages, their names, and that no page or example goes deeper."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
NAMES = Path(__file__).with_name("public_names.txt")  # changes here are changes for users: say so in the changelog
PINNED = {
    package: names.split()
    for package, _, names in (line.partition(": ") for line in NAMES.read_text(encoding="utf-8").splitlines())
}
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))
_CODE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
_IMPORT = re.compile(r"^\s*(?:from (sabir[\w.]*) import (\([^)]*\)|[^\n]*)|import (sabir[\w.]*))", re.MULTILINE)


@pytest.mark.parametrize("package", PINNED)
def test_a_public_package_has_the_names_that_are_pinned(package: str) -> None:
    module = importlib.import_module(package)
    assert sorted(module.__all__) == PINNED[package]
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


def imported(text: str) -> list[tuple[str, list[str]]]:
    """Each module of Sabir that is imported, and the names that are taken from it."""
    return [
        (found[0] or found[2], re.findall(r"\w+", re.sub(r"#.*| as \w+", "", found[1])))
        for found in _IMPORT.findall(text)
    ]


def deep(text: str) -> list[str]:
    return [
        f"{module}: {name}"
        for module, names in imported(text)
        for name in names or ["(the module)"]
        if name not in PINNED.get(module, ())
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_a_page_imports_public_names_only(page: Path) -> None:
    assert deep("\n".join(_CODE.findall(page.read_text(encoding="utf-8")))) == []


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.relative_to(ROOT / "examples")))
def test_an_example_imports_public_names_only(path: Path) -> None:
    assert deep(path.read_text(encoding="utf-8")) == []


def test_a_deep_import_would_be_seen() -> None:
    assert deep("from sabir.guard.seal import Seal") == ["sabir.guard.seal: Seal"]
    assert deep("from sabir import (\n    Gateway,\n    Seal,\n)") == ["sabir: Seal"]
    assert deep("import sabir.gateway") == ["sabir.gateway: (the module)"]


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.name != "reference.md"],  # that one shows signatures
    ids=lambda path: path.name,
)
def test_the_python_of_a_page_can_be_parsed(page: Path) -> None:
    for code in _CODE.findall(page.read_text(encoding="utf-8")):
        compile(code, page.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST)
