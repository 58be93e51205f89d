"""Libraries whose private parts are used have an upper bound, and the parts are there."""

from __future__ import annotations

import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

PROJECT = Path(__file__).resolve().parents[3] / "pyproject.toml"
BOUNDED = ("uvicorn", "nats-py", "mcp")


def requirements() -> dict[str, Requirement]:
    project = tomllib.loads(PROJECT.read_text())["project"]
    listed = [
        *project["dependencies"],
        *(item for extra in project["optional-dependencies"].values() for item in extra),
    ]
    found: dict[str, Requirement] = {}
    for entry in map(Requirement, listed):
        if entry.name not in found or len(entry.specifier) > len(found[entry.name].specifier):
            found[entry.name] = entry
    return found


@pytest.mark.parametrize("name", BOUNDED)
def test_a_library_whose_private_parts_are_used_has_an_upper_bound(name: str) -> None:
    specifier = requirements()[name].specifier
    assert any(item.operator == "<" for item in specifier), f"{name}: try the next version, then raise the bound"
    assert version(name) in specifier


def test_the_parts_of_uvicorn_are_there() -> None:
    flow_control = pytest.importorskip("uvicorn.protocols.http.flow_control")
    httptools_impl = pytest.importorskip("uvicorn.protocols.http.httptools_impl")
    assert isinstance(flow_control.HIGH_WATER_LIMIT, int)
    for name in ("HEADER_RE", "HEADER_VALUE_RE", "STATUS_LINE"):
        assert hasattr(httptools_impl, name)
    for name in ("_should_upgrade", "handle_websocket_upgrade", "on_response_complete", "connection_lost", "shutdown"):
        assert callable(getattr(httptools_impl.HttpToolsProtocol, name)), name
    assert callable(httptools_impl.RequestResponseCycle.send_500_response)


def test_the_parts_of_nats_are_there() -> None:
    client = pytest.importorskip("nats.aio.client")
    parser = pytest.importorskip("nats.protocol.parser")
    for name in ("_read_loop", "_process_msg"):
        assert callable(getattr(client.Client, name)), name
    assert hasattr(client.Client(), "_pending_data_size")
    assert hasattr(parser.Parser(), "buf") and hasattr(parser, "AWAITING_CONTROL_LINE")
