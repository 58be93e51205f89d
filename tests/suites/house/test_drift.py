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
import sabir.protocols
from conftest import HERE, longest
from sabir.cli.main import COMMANDS, parser
from sabir.config.schema import schema
from sabir.config.settings import Settings
from sabir.errors import SabirError, TurnFailed, tree
from sabir.guard import Quotas

ROOT = Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_public_names_are_few_and_there() -> None:
    assert len(sabir.__all__) <= 40
    for name in sabir.__all__:
        assert hasattr(sabir, name)


def test_the_public_names_are_in_the_reference() -> None:
    reference = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    missing = [name for name in sabir.__all__ if f"`{name}`" not in reference]
    assert not missing


def wires_with_codes() -> list[str]:
    found = []
    for module in pkgutil.walk_packages(sabir.protocols.__path__, "sabir.protocols."):
        try:
            wire = importlib.import_module(module.name)
        except ImportError:
            continue  # its extra is not installed
        if hasattr(wire, "CODES"):
            found.append(module.name)
    return found


@pytest.mark.parametrize("name", wires_with_codes())
def test_every_protocol_can_report_every_error(name: str) -> None:
    codes = importlib.import_module(name).CODES
    missing = [error.__name__ for error in tree() if error not in codes and error.__module__ == "sabir.errors"]
    assert not missing


@pytest.mark.parametrize("name", wires_with_codes())
def test_an_agents_own_error_is_reported_as_its_base(name: str) -> None:
    class OutOfFlour(TurnFailed): ...

    codes = importlib.import_module(name).CODES
    assert codes[OutOfFlour] == codes[TurnFailed]


def test_the_error_tree_is_drawn_in_its_docstring() -> None:
    drawn = set(re.findall(r"[A-Z][A-Za-z]+(?= {2,}|\n|$)", importlib.import_module("sabir.errors").__doc__ or ""))
    defined = {error.__name__ for error in tree(SabirError) if error.__module__ == "sabir.errors"}
    assert defined <= drawn


def test_the_first_python_of_the_readme_is_an_example_that_is_tested() -> None:
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    example = (ROOT / "examples" / "echo" / "main.py").read_text(encoding="utf-8")
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


@pytest.mark.parametrize(
    ("kind", "key", "bounds"),
    [
        ("AuditSettings", "days", {"exclusiveMinimum": 0}),
        ("TaskSettings", "running", {"minimum": 1}),
        ("ObserveSettings", "sample", {"minimum": 0, "maximum": 1}),
        ("Quotas", "daily_turns", {"minimum": 0}),
        ("BackendSettings", "max_tokens", {"minimum": 1}),
    ],
)
def test_the_schema_has_the_bounds_that_are_checked(kind: str, key: str, bounds: dict[str, int]) -> None:
    field = schema()["$defs"][kind]["properties"][key]
    numbers = [choice for choice in field.get("anyOf", [field]) if choice.get("type") in ("integer", "number")]
    assert numbers
    assert all(bounds.items() <= number.items() for number in numbers)


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


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_the_tour_of_the_source_finds_what_it_names(page: str) -> None:
    rows = re.findall(r"^\|[^|]+\| `(src/[^`]+)`[^|]*\| `(\w+)` \|$", (ROOT / page).read_text(encoding="utf-8"), re.M)
    assert len(rows) >= 5
    assert [row for row in rows if not re.search(rf"\b{row[1]}\b", (ROOT / row[0]).read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(
    "page", ["CONTRIBUTING.md", "docs/architecture.md", "docs/decisions.md", "docs/requirements.md"]
)
def test_the_links_of_a_page_lead_somewhere(page: str) -> None:
    path = ROOT / page
    links = re.findall(r"\]\((?!http|#)([^)#]+)", path.read_text(encoding="utf-8"))
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_the_architecture_names_files_that_exist() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:[a-z_0-9]+/)+[a-z_0-9]+\.py)`", page)
    assert named
    assert [name for name in named if not (ROOT / "src" / "sabir" / name).exists() and not (ROOT / name).exists()] == []


def test_the_order_of_the_suite_names_files_that_are_there() -> None:
    assert longest()
    assert [name for name in longest() if not (HERE / name).exists()] == []


def test_the_quick_tests_are_there() -> None:
    named = (ROOT / "tests" / "quick.txt").read_text(encoding="utf-8").split()
    assert named == sorted(named)
    assert [name for name in named if not (ROOT / "tests" / name).is_file()] == []


def test_the_tree_of_the_architecture_names_every_package() -> None:
    tree = (
        (ROOT / "docs" / "architecture.md")
        .read_text(encoding="utf-8")
        .partition("## The tree")[2]
        .partition("\n## ")[0]
    )
    source = ROOT / "src" / "sabir"
    packages = {path.name for path in source.iterdir() if (path / "__init__.py").is_file()}
    assert {name for name in packages if not re.search(rf"\b{name}/", tree)} == set()
    assert {name for name in re.findall(r"^  (\w+)/", tree, re.M) if not (source / name).is_dir()} == set()


def test_the_command_that_writes_the_schema_works() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    [command] = re.findall(r"`sabir (config schema)`", page)
    sabir_program = Path(sys.executable).with_name("sabir")
    done = subprocess.run([sabir_program, *command.split()], capture_output=True, text=True, check=True)
    assert '"exclusiveMinimum"' in done.stdout
