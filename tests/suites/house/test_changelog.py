"""The changelog: headings that people know, one entry a line, and pieces that can be folded in."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "scripts"))

import fold_changelog  # noqa: E402

CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
PIECES = sorted((ROOT / "changelog.d").glob("*.md"))


def unreleased() -> fold_changelog.Entries:
    body = CHANGELOG.partition("## Unreleased\n")[2].partition("\n## ")[0]
    return fold_changelog.read(body, "CHANGELOG.md")


def test_every_entry_is_under_a_heading_of_keep_a_changelog() -> None:
    entries = unreleased()
    assert entries
    assert re.findall(r"^### (\w+)", CHANGELOG, re.M) == [name for name in fold_changelog.HEADINGS if name in entries]


def test_no_entry_is_there_twice() -> None:
    lines = [line for section in unreleased().values() for line in section]
    assert len(lines) == len(set(lines))


def test_breaking_entries_say_what_to_change() -> None:
    assert [line for line in unreleased().get("Breaking", []) if "To change:" not in line] == []


@pytest.mark.parametrize("path", PIECES, ids=lambda path: path.name)
def test_a_piece_of_the_changelog_can_be_folded_in(path: Path) -> None:
    assert fold_changelog.read(path.read_text(encoding="utf-8"), path.name)


def test_folding_adds_entries_under_their_headings_and_only_once() -> None:
    changelog = "# Changelog\n\n## Unreleased\n\n### Added\n\n- One.\n\n## 0.1.0\n\n### Fixed\n\n- Old.\n"
    text = fold_changelog.folded(
        changelog, {"x.md": "## Fixed\n- Two.\n\n### Added\n- Three,\n  in two lines.\n- One.\n"}
    )
    assert text == (
        "# Changelog\n\n## Unreleased\n\n### Added\n\n- One.\n- Three, in two lines.\n\n### Fixed\n\n- Two.\n"
        "\n## 0.1.0\n\n### Fixed\n\n- Old.\n"
    )


@pytest.mark.parametrize(
    ("piece", "error"),
    [
        ("## Improved\n- One.\n", "x.md:1: expected one of Breaking, Added, Changed, Fixed, Removed, Security"),
        ("- One.\n", "x.md:1: expected a heading before the first entry"),
        ("## Added\nOne.\n", "x.md:2: expected a heading or an entry that begins with '- '"),
    ],
)
def test_a_piece_that_cannot_be_read_is_named_with_its_line(piece: str, error: str) -> None:
    with pytest.raises(ValueError, match=re.escape(error)):
        fold_changelog.read(piece, "x.md")
