"""The examples of ``docs/testing.md`` run as they stand."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "testing.md"
MADE: dict[str, Any] = {"__name__": "testing_page"}
exec("\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)), MADE)
TESTS = [name for name in MADE if name.startswith("test_")]


def test_the_page_has_examples() -> None:
    assert len(TESTS) >= 5


@pytest.mark.parametrize("name", TESTS)
async def test_an_example_of_the_page_runs(name: str, tmp_path: Path) -> None:
    wanted = inspect.signature(MADE[name]).parameters
    await MADE[name](**({"tmp_path": tmp_path} if "tmp_path" in wanted else {}))
