"""The access log writes one line for each request, whatever the path holds."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from sabir.gateway.access_log import MAX_PATH, AccessLog


async def answer(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 404, "headers": []})


async def nothing(*_: Any) -> Any:
    return {}


async def logged(caplog: pytest.LogCaptureFixture, path: str) -> str:
    scope = {"type": "http", "method": "GET", "path": path, "client": ("203.0.113.7", 1), "headers": []}
    with caplog.at_level(logging.INFO, logger="sabir.access"):
        await AccessLog(answer)(scope, nothing, nothing)
    return caplog.records[-1].getMessage()


async def test_a_line_break_in_a_path_forges_no_entry(caplog: pytest.LogCaptureFixture) -> None:
    text = await logged(caplog, "/x\n203.0.113.8 GET /admin 200 1.0 ms\x1b[2J")
    assert text.startswith("203.0.113.7 GET /x%0A203.0.113.8%20GET%20/admin%20200%201.0%20ms%1B%5B2J 404 ")


async def test_a_long_path_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    text = await logged(caplog, "/" + "x" * 10_000)
    assert len(text) < MAX_PATH + 100
