"""Measures how much of the newer packages their own tests run, within the suite and without slowing the rest (MW-63).

``scripts/test`` sets ``SABIR_COVERAGE_OF_NEW`` to a file and prints what came of it. Tracing runs only while tests of
these folders do. It has to begin before the packages are imported, so ``conftest.py`` imports this module first.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import coverage
import pytest

VARIABLE: Final = "SABIR_COVERAGE_OF_NEW"
PACKAGES: Final = ("sabir.tools", "sabir.agents.llm", "sabir.agents.ensemble", "sabir.massgen", "sabir.testing")
TESTS: Final = tuple(
    Path(__file__).parent / name
    for name in (
        "agents/ensemble",
        "agents/llm",
        "agents/test_calling.py",
        "agents/test_configured.py",
        "agents/test_federation_strategies.py",
        "massgen",
        "testing",
        "tools",
        "test_signature.py",
    )
)


class CoverageOfNew:
    """A plugin that traces the tests of some folders."""

    def __init__(self, data_file: str) -> None:
        self._coverage = coverage.Coverage(
            data_file=data_file, data_suffix=True, config_file=False, branch=True, source_pkgs=list(PACKAGES)
        )
        # A process whose share of the suite has none of these tests has nothing to say.
        self._coverage.set_option("run:disable_warnings", ["module-not-imported", "no-data-collected"])
        self._coverage.start()
        self._traces = True

    def pytest_runtest_logstart(self, location: tuple[str, int | None, str]) -> None:
        wanted = any((Path.cwd() / location[0]).is_relative_to(folder) for folder in TESTS)
        if wanted != self._traces:
            self._traces = wanted
            (self._coverage.start if wanted else self._coverage.stop)()

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        self._coverage.save()


_runs_tests = "PYTEST_XDIST_WORKER" in os.environ  # the process that only distributes them does not
plugin = CoverageOfNew(os.environ[VARIABLE]) if _runs_tests and os.environ.get(VARIABLE) else None


def register(config: pytest.Config) -> None:
    """Let the plugin see the tests of this process, if it runs any."""
    if plugin is not None:
        config.pluginmanager.register(plugin)
