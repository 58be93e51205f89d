"""The shape of the source stays as it is: scripts/shape.py measures it, this holds it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LIMITS = {
    "functions above complexity 12": 0,
    "class names used more than once": 0,
    "functions named _told": 0,
    "largest constructors": 10,
    "imports inside functions, but for extras": 0,
    "ids without a row": 0,
    "names that say nothing (each, most, wrong, told, tell, bury)": 0,
    "names that say nothing, in tests, benches, examples and scripts": 0,
    "paths of doors through two services": 0,
    "members of the context that the doors of one protocol use": 24,
}


@pytest.fixture(scope="module")
def measured() -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "shape.py"), str(ROOT)], capture_output=True, text=True, check=True
    )
    return dict(line.split(": ", 1) for line in done.stdout.splitlines())


@pytest.mark.parametrize("what", LIMITS)
def test_the_shape_holds(measured: dict[str, str], what: str) -> None:
    number = next(int(word) for word in measured[what].replace(",", " ").split() if word.isdigit())
    assert number <= LIMITS[what], f"{what}: {measured[what]}"
