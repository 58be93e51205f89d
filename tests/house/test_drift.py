"""What no compiler compares: public names, error tables, the README's code, the command line in the docs, sizes."""

from __future__ import annotations

import importlib
import pkgutil
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import sabir
import sabir.wire
from conftest import HERE, LONGEST
from sabir.cli.main import COMMANDS, parser
from sabir.config import Settings, schema
from sabir.errors import SabirError, tree
from sabir.guard import Quotas

ROOT = Path(__file__).resolve().parent.parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_public_names_are_sorted_and_there() -> None:
    assert sabir.__all__ == sorted(sabir.__all__)
    assert len(sabir.__all__) <= 40
    for name in sabir.__all__:
        assert hasattr(sabir, name)


def test_the_public_names_are_in_the_reference() -> None:
    reference = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    missing = [name for name in sabir.__all__ if f"`{name}`" not in reference]
    assert not missing


def wires_with_codes() -> list[str]:
    found = []
    for module in pkgutil.iter_modules(sabir.wire.__path__, "sabir.wire."):
        try:
            wire = importlib.import_module(module.name)
        except ImportError:
            continue  # its extra is not installed
        if hasattr(wire, "CODES"):
            found.append(module.name)
    return found


@pytest.mark.parametrize("name", wires_with_codes())
def test_every_protocol_tells_every_error(name: str) -> None:
    codes = importlib.import_module(name).CODES
    missing = [error.__name__ for error in tree() if error not in codes and error.__module__ == "sabir.errors"]
    assert not missing


def test_the_error_tree_is_drawn_in_its_docstring() -> None:
    drawn = set(re.findall(r"[A-Z][A-Za-z]+(?= {2,}|\n|$)", importlib.import_module("sabir.errors").__doc__ or ""))
    defined = {error.__name__ for error in tree(SabirError) if error.__module__ == "sabir.errors"}
    assert defined <= drawn


def test_the_first_python_of_the_readme_is_an_example_that_is_tested() -> None:
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    example = (ROOT / "examples" / "echo.py").read_text(encoding="utf-8")
    said = [line for line in blocks[0].splitlines() if line.strip() and "Gateway(echo)" not in line]
    assert all(line.strip() in example for line in said)


def test_every_command_is_in_the_docs_with_its_help() -> None:
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    for name in COMMANDS:
        assert f"## sabir {name}" in page
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "write_docs.py"), "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_command_has_help() -> None:
    text = parser().format_help()
    for name, about in COMMANDS.items():
        assert name in text
        assert about


def test_the_configuration_has_a_schema() -> None:
    written = schema()
    assert written["$schema"].startswith("https://json-schema.org/")
    assert set(Settings.__struct_fields__) <= set(written["$defs"]["Settings"]["properties"])


def test_every_key_of_the_configuration_is_in_the_docs() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text()
    keys = {*Settings.__struct_fields__, *Quotas.__struct_fields__}
    assert sorted(key for key in keys if f"`{key}`" not in page) == []


def test_the_picture_of_the_layers_is_the_contract() -> None:
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = contract["tool"]["importlinter"]["contracts"][0]["layers"]
    picture = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").partition("## Layers")[2]
    drawn = picture.partition("```")[2].partition("```")[0].split("\n")
    assert [line for line in drawn if line] == [layer.replace("(", "").replace(")", "") for layer in layers]


def test_no_source_file_is_too_long() -> None:
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        from sizes import too_long
    finally:
        sys.path.pop(0)
    assert not too_long(ROOT)


def test_no_name_says_nothing() -> None:
    empty = {"utils.py", "helpers.py", "common.py", "manager.py", "misc.py"}
    assert not [path for path in (ROOT / "src").rglob("*.py") if path.name in empty]


def test_the_links_of_the_readme_lead_somewhere() -> None:
    for target in re.findall(r"\]\((?!http|#)([^)#]+)", README):
        assert (ROOT / target).exists(), target


def test_the_order_of_the_suite_names_files_that_are_there() -> None:
    assert [name for name in LONGEST if not (HERE / name).exists()] == []
