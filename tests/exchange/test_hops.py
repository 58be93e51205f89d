"""A question that went round in circles ends, by whatever door it comes."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest

from conftest import Serve
from sabir import Gateway
from sabir.agents.echo import echo

NLIP = {"format": "text", "subformat": "english", "content": "again"}
A2A = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "again"}]}}


@pytest.mark.parametrize("hops", ["9", "999", "1000", "99999999999999999999"])
def test_too_many_hops_are_too_many_however_they_are_written(serve: Serve, home: Path, hops: str) -> None:
    url = serve(Gateway(echo, home=home)).url
    for path, body in (("/nlip", NLIP), ("/a2a/echo/message:send", A2A)):
        headers = {"x-sabir-hops": hops, "a2a-version": "1.0"}
        response = httpx2.post(url + path, json=body, headers=headers)
        assert "a loop is likely" in response.text, (path, response.text)
        assert response.status_code == 403  # who asked made it so; nothing here failed


@pytest.mark.parametrize("hops", ["0", "8", "-1", "many", ""])
def test_few_hops_and_invalid_hop_counts_are_accepted(serve: Serve, home: Path, hops: str) -> None:
    url = serve(Gateway(echo, home=home)).url
    answer = httpx2.post(url + "/nlip", json=NLIP, headers={"x-sabir-hops": hops})
    assert answer.status_code == 200
