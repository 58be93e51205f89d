"""Clients that we did not write, from PyPI, in environments of their own, against a running gateway."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from conftest import Serve
from peers_venv import python_of
from sabir import Gateway, Turn, agent

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # the first run makes environments
HERE = Path(__file__).resolve().parent


@agent
async def listener(turn: Turn) -> str:
    kinds = ", ".join(f"{part.format}/{part.subformat}" for part in turn.parts)
    return f"{turn.conversation.count} before; heard {turn.text!r}; {kinds}"


def run(python: Path, script: str, url: str) -> list[dict[str, Any]]:
    done = subprocess.run([python, HERE / script, url], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def test_the_reference_sdk_is_read_and_reads_us(serve: Serve, home: Path) -> None:
    served = serve(Gateway(listener, home=home))
    *kinds, talk = run(python_of("nlip"), "sdk_client.py", served.url + "/nlip")
    assert len(kinds) == 19
    for line in kinds:
        assert line["status"] == 200, line
        assert line["conversation"], line  # a plain conversation token, which is all it looks for
        assert line["control"] == (line["kind"] == "control"), line
        assert line["text"], line
    everything = next(line for line in kinds if line["kind"] == "everything")
    assert everything["conversation"] == "of the client"  # its own comes first, as it expects (D-16)
    assert talk["first"].startswith("0 before")
    assert talk["second"].startswith("1 before")


def test_ag2_talks_to_us_as_to_its_own_server(serve: Serve, home: Path) -> None:
    served = serve(Gateway(listener, home=home))
    [answers] = run(python_of("nlip"), "ag2_client.py", served.url)
    assert "Hello from AG2" in answers["first"]
    assert "and again" in answers["second"]
