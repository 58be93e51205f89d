"""Content blocks from anybody are read or rejected in the protocol's own form (issue 11, D16)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from conftest import Served, serving
from sabir import Gateway
from sabir.agents.echo import echo
from sabir.errors import BadMessage
from sabir.protocols.mcp.wire.content import PART, part_of

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
said = st.dictionaries(st.sampled_from(["label", "format", "subformat", "content", "extra"]), values, max_size=4)
metas = values | st.dictionaries(st.sampled_from([PART, "x"]), values | said, max_size=2)
resources = values | st.dictionaries(st.sampled_from(["uri", "text", "blob", "mimeType", "_meta"]), values | metas)
blocks = values | st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["text", "image", "audio", "resource", "resource_link", "x"]) | values,
        "text": values,
        "data": values | st.sampled_from(["AAAA", "%%%"]),
        "mimeType": values,
        "uri": values,
        "name": values,
        "resource": resources,
        "_meta": metas,
        "annotations": values,
    },
)


@given(blocks)
@example("x")
@example({"type": "text", "text": "hi", "_meta": "x"})
@example({"type": "text", "text": "hi", "_meta": {PART: "x"}})
@settings(max_examples=400, deadline=None)
def test_a_content_block_is_read_or_rejected(block: Any) -> None:
    try:
        part_of(block)
    except BadMessage as rejected:
        assert "expected" in str(rejected)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(Gateway(echo, home=tmp_path_factory.mktemp("content"), store="memory:")) as served:
        yield served


@pytest.mark.parametrize("content", [["x"], [1], [None], [[]], "x", {"type": "text"}, [{"type": "text", "_meta": "x"}]])
def test_invalid_content_is_not_our_error(served: Served, content: object) -> None:
    arguments = {"text": "hi", "content": content}
    body = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "echo", "arguments": arguments}}
    headers = {"accept": "application/json, text/event-stream"}
    said = httpx2.post(f"{served.url}/mcp", json=body, headers=headers)
    assert said.status_code < 500
    assert "content" in said.text and "Traceback" not in said.text
    assert said.json().get("error", {}).get("code") == -32602 or said.json()["result"]["isError"]
