"""Folds ``changelog.d/*.md`` into the section "Unreleased" of ``CHANGELOG.md``, and removes the files.

Each file has headings (``## Added``, ``### Fixed``, …) with one entry per line below them. Entries go under the same
heading of the changelog, after the existing ones; an entry that is already there is not added again. With ``--check``,
nothing is written, and unknown headings are reported.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADINGS = ("Breaking", "Added", "Changed", "Fixed", "Removed", "Security")
UNRELEASED = "## Unreleased"

Entries = dict[str, list[str]]


def read(text: str, name: str) -> Entries:
    """The entries below each heading.

    Raises:
        ValueError: a heading is unknown, or a line is outside of any.
    """
    found: Entries = {}
    heading = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if match := re.fullmatch(r"#{2,3} (\w+)\s*", line):
            heading = match[1]
            if heading not in HEADINGS:
                raise ValueError(f"{name}:{number}: expected one of {', '.join(HEADINGS)}, not {heading}")
        elif line.startswith("- "):
            if not heading:
                raise ValueError(f"{name}:{number}: expected a heading before the first entry")
            found.setdefault(heading, []).append(line.rstrip())
        elif line.strip():
            if not heading or not found.get(heading):
                raise ValueError(f"{name}:{number}: expected a heading or an entry that begins with '- '")
            found[heading][-1] += f" {line.strip()}"  # an entry over several lines
    return found


def written(entries: Entries) -> str:
    """The sections in their usual order."""
    pieces = []
    for heading in HEADINGS:
        if entries.get(heading):
            pieces.append(f"### {heading}\n\n" + "\n".join(entries[heading]) + "\n")
    return "\n".join(pieces)


def folded(changelog: str, pieces: dict[str, str]) -> str:
    """The changelog with the entries of the pieces in its section "Unreleased"."""
    head, marker, rest = changelog.partition(f"{UNRELEASED}\n")
    if not marker:
        raise ValueError(f"CHANGELOG.md: expected a line {UNRELEASED!r}")
    body, next_release, earlier = rest.partition("\n## ")
    entries = read(body, "CHANGELOG.md")
    for name, text in sorted(pieces.items()):
        for heading, lines in read(text, name).items():
            known = entries.setdefault(heading, [])
            known += [line for line in lines if line not in known]
    return f"{head}{marker}\n{written(entries)}{next_release}{earlier}"


def main() -> int:
    files = sorted((ROOT / "changelog.d").glob("*.md"))
    path = ROOT / "CHANGELOG.md"
    try:
        text = folded(
            path.read_text(encoding="utf-8"),
            {f"changelog.d/{file.name}": file.read_text(encoding="utf-8") for file in files},
        )
    except ValueError as exc:
        print(exc, file=sys.stderr)
        return 1
    if "--check" not in sys.argv:
        path.write_text(text, encoding="utf-8")
        for file in files:
            file.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
