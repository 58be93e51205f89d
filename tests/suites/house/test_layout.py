"""``tests/`` mirrors ``src/sabir/``; suites over everything are in ``tests/suites``."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).resolve().parents[2]
SOURCE = TESTS.parent / "src" / "sabir"
SUITES = {"bridge", "deployments", "durability", "examples", "house", "interop", "security"}


def misplaced(tests: Path, source: Path) -> list[str]:
    """Folders with tests that mirror no package and are no suite."""
    folders = {path.parent.relative_to(tests) for path in tests.rglob("test_*.py")}
    found = []
    for folder in sorted(folders):
        is_suite = folder.parts[:1] == ("suites",) and len(folder.parts) == 2 and folder.name in SUITES
        if not is_suite and not (source / folder / "__init__.py").is_file():
            found.append(folder.as_posix())
    return found


def test_every_folder_of_tests_mirrors_a_package_or_is_a_suite() -> None:
    assert misplaced(TESTS, SOURCE) == [], "move these tests, see CONTRIBUTING.md"


def test_a_folder_without_a_package_is_found(tmp_path: Path) -> None:
    for place in ("tests/bus", "tests/hub", "tests/suites/bridge", "tests/suites/other", "src/bus"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "test_one.py").touch()
    (tmp_path / "src" / "__init__.py").touch()
    (tmp_path / "src" / "bus" / "__init__.py").touch()
    assert misplaced(tmp_path / "tests", tmp_path / "src") == ["hub", "suites/other"]


def test_no_test_puts_the_benchmarks_on_the_path() -> None:
    """``bench/search.py`` would hide ``tests/search``, depending on which files are collected first."""
    lines = ((path, line) for path in TESTS.rglob("*.py") for line in path.read_text(encoding="utf-8").splitlines())
    assert [path.name for path, line in lines if line.startswith("sys.path") and "bench" in line] == []
