"""Reads the documentation as data: its pages, code blocks, links, and the marks that say which blocks are run.

A mark is an HTML comment on the line before a block: ``<!-- file: app.py -->`` writes it to a file of that name,
``<!-- run -->`` runs it, in a folder that all blocks of the page share; ``<!-- run after: COMMAND -->`` runs a command
before it that the page takes for granted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

_BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>[^\n]*?) -->\n)?```(?P<kind>\w*)[^\n]*\n(?P<text>.*?)^```", re.DOTALL | re.MULTILINE
)
_LINK = re.compile(r"\]\((?!https?:|mailto:)([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A code block of a page."""

    page: Path
    number: int
    kind: str
    text: str
    mark: str

    @property
    def name(self) -> str:
        return f"{self.page.relative_to(ROOT)}-{self.number}"


def blocks(page: Path, *kinds: str) -> list[Block]:
    found = _BLOCK.finditer(page.read_text(encoding="utf-8"))
    every = [Block(page, i, m["kind"], m["text"], m["mark"] or "") for i, m in enumerate(found, 1)]
    return [block for block in every if not kinds or block.kind in kinds]


def all_blocks(*kinds: str) -> list[Block]:
    return [block for page in PAGES for block in blocks(page, *kinds)]


def links(page: Path) -> list[str]:
    """The links of a page to files of this repository; code is left out."""
    text = _BLOCK.sub("", page.read_text(encoding="utf-8"))
    return _LINK.findall(re.sub(r"`[^`\n]*`", "", text))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = _BLOCK.sub("", page.read_text(encoding="utf-8"))
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in _HEADING.findall(text)]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in plain}
