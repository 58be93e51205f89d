"""The models of ``nlweb-core`` from PyPI, in an environment of their own, parse what we answer."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import httpx2
import pytest

from conftest import Served
from peers_venv import python_of
from protocols.nlweb.wire.test_wire import SEED

pytestmark = pytest.mark.timeout(900)  # the first run makes an environment
PARSE = """
import json, sys
from nlweb_core.protocol import models
for name, body in json.load(sys.stdin):
    parsed = getattr(models, name).model_validate(body)
    print(parsed.field_meta.response_type)
"""


@pytest.fixture(scope="module")
def reference() -> Path:
    return python_of("nlweb-network")


def test_every_kind_of_answer_parses(reference: Path, client: httpx2.Client, gateway: Served) -> None:
    def ask(path: str = "/ask", **sections: Any) -> Any:
        prefer = {"streaming": False, **sections.pop("prefer", {})}
        return client.post(path, json={"query": {"text": "pumpkin"}, "prefer": prefer, **sections}).json()

    bodies = [
        ("AnswerResponseChatGPT", client.post("/ask", json=SEED).json()),
        ("AnswerResponseConvSearch", ask(prefer={"response_format": "conv_search", "mode": "list,summarize"})),
        ("AnswerResponseChatGPT", ask("/ask/echo")),
        ("ElicitationResponse", ask("/ask/asker")),
        (
            "PromiseResponse",
            client.post("/ask/echo", json={"query": {"text": "x"}, "prefer": {"streaming": False, "wait": 0}}).json(),
        ),
        ("FailureResponse", client.post("/ask", json={"query": "flat"}).json()),
    ]
    run = subprocess.run(
        [str(reference), "-W", "ignore", "-c", PARSE],
        input=json.dumps(bodies),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == ["Answer", "Answer", "Answer", "Elicitation", "Promise", "Failure"]
