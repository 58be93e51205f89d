"""A store or a bus that does not answer is unreachable, whatever command asks it: exit code 3, and one line."""

from __future__ import annotations

import pytest

from cli.conftest import Sabir
from free_ports import free_port
from sabir.cli.main import BAD_USAGE, UNREACHABLE


@pytest.mark.parametrize(
    "command",
    [
        "keys list --store {store}",
        "audit verify --store {store}",
        "audit export --store {store}",
        "store migrate {store}",
        "store copy {store} sqlite:///new.db",
        "bus dead clerk --bus {bus}",
    ],
)
def test_what_does_not_answer_is_unreachable(command: str, sabir: Sabir) -> None:
    port = free_port()
    addresses = {"store": f"postgresql://ann:s3cret@127.0.0.1:{port}/x", "bus": f"nats://ann:s3cret@127.0.0.1:{port}"}
    said = sabir(*command.format(**addresses).split())
    assert (said.code, said.out, said.err.count("\n")) == (UNREACHABLE, "", 1), said.err
    assert f"127.0.0.1:{port}" in said.err and "s3cret" not in said.err


@pytest.mark.parametrize(
    "command",
    [
        "store migrate postgresql://127.0.0.1:abc/x",
        "store copy postgresql://127.0.0.1:99999/x sqlite:///new.db",
        "keys list --store postgresql://127.0.0.1:abc/x",
        "bus dead clerk --bus nats://127.0.0.1:abc",
        "bus dead clerk --bus nats://",
    ],
)
def test_an_invalid_address_is_wrong_use(command: str, sabir: Sabir) -> None:
    said = sabir(*command.split())
    assert (said.code, said.out, said.err.count("\n")) == (BAD_USAGE, "", 1), said.err
