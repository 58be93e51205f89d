"""The files of phrases: one line for a tag, each tag once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sabir.agents.control import languages

FILES = sorted(Path(languages.__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_line_of_a_language_is_a_tag_a_continuation_or_a_comment(file: Path) -> None:
    lines = file.read_text(encoding="utf-8").splitlines()
    invalid = [line for line in lines if not re.fullmatch(r"# .+|[a-z_]+(:\S+)? = \S.*|    \S.*", line)]
    assert invalid == []
    tags = [line.partition(" = ")[0] for line in lines if line[0] not in "# "]
    assert len(tags) == len(set(tags)), "a tag is there twice, and the second would replace the first"
    table = getattr(languages, file.stem.upper())
    assert list(table) == tags
    assert not any(mark in phrases for phrases in table.values() for mark in "()[]"), "brackets inside brackets"
    assert all(phrase.strip() for phrases in table.values() for phrase in phrases.split("|")), "an empty phrase"
