"""Checks that no source file grows too large to keep in mind."""

from __future__ import annotations

import sys
from pathlib import Path

MAX_LINES = 600
EXCHANGE = 300


def too_long(root: Path) -> list[str]:
    """Source files over their ceiling."""
    found = []
    for path in sorted((root / "src").rglob("*.py")):
        lines = len(path.read_text(encoding="utf-8").splitlines())
        limit = EXCHANGE - 1 if path.name == "exchange.py" and path.parent.name == "exchange" else MAX_LINES
        if lines > limit:
            found.append(f"{path.relative_to(root)}: {lines} lines, at most {limit}")
    return found


if __name__ == "__main__":
    found = too_long(Path(__file__).resolve().parent.parent)
    print("\n".join(found), end="\n" if found else "")
    sys.exit(bool(found))
