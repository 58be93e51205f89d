"""The far gateway with the agents, and for each protocol a near gateway that knows them by that protocol only."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from importlib.util import find_spec

import pytest

from conftest import Served, serving
from gates import Gate
from sabir.gateway.gateway import Gateway
from sabir.protocols.a2a.peer.peer import A2aPeer
from sabir.protocols.acl.peer.peer import AclPeer
from sabir.protocols.mcp.peer.peer import McpPeer
from sabir.protocols.nlip.peer.http import NlipHttpPeer
from sabir.protocols.peer import Peer
from suites.bridge.bridge_agents import agents
from suites.bridge.bridge_clients import TALKERS, Talker

# Where an agent of the far gateway is, by protocol, and what speaks to it there.
PEERS: dict[str, tuple[str, Callable[..., Peer]]] = {
    "nlip": ("nlip", NlipHttpPeer),
    "mcp": ("mcp", McpPeer),
    "a2a": ("a2a", A2aPeer),
    "acl": ("acl", AclPeer),
}
if find_spec("sabir.protocols.nlweb.peer") is not None:
    from sabir.protocols.nlweb.peer import NlwebPeer

    PEERS["nlweb"] = ("ask", NlwebPeer)


@pytest.fixture
def peers() -> dict[str, tuple[str, Callable[..., Peer]]]:
    return PEERS


@pytest.fixture(scope="session")
def gate() -> Gate:
    return Gate()


@pytest.fixture(scope="session")
def far(gate: Gate, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(Gateway(*agents(gate), home=tmp_path_factory.mktemp("far"))) as served:
        yield served


@pytest.fixture(scope="session")
def near(far: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Served]]:
    with ExitStack() as stack:
        made: dict[str, Served] = {}
        for protocol, (path, peer) in PEERS.items():
            names = list(far.gateway.agents)
            known = [peer(f"{far.url}/{path}/{name}", name=name) for name in names]
            gateway = Gateway(*known, home=tmp_path_factory.mktemp(f"near-{protocol}"))
            made[protocol] = stack.enter_context(serving(gateway))
        yield made


@pytest.fixture
async def talker(request: pytest.FixtureRequest, near: dict[str, Served], gate: Gate) -> AsyncIterator[Talker]:
    """A client of protocol X in front of a gateway that knows the agents by protocol Y."""
    x, y = request.param
    gate.reset()
    made = TALKERS[x](near[y].url)
    yield made
    gate.open()
    await made.aclose()
