"""The options that all peers share, as one value or by name."""

from __future__ import annotations

import inspect
import typing

import pytest

from sabir.protocols.options import PeerOptionNames, PeerOptions, known_options
from sabir.protocols.protocol import PeerEntry, load
from sabir.protocols.registry import protocols

PEERS = [(protocol, entry) for protocol in protocols().values() for entry in protocol.peers]


def test_the_value_and_the_names_are_the_same_options() -> None:
    assert typing.get_type_hints(PeerOptions) == typing.get_type_hints(PeerOptionNames)


@pytest.mark.parametrize(
    ("protocol", "entry"), PEERS, ids=lambda part: getattr(part, "factory", getattr(part, "name", ""))
)
async def test_every_peer_takes_them_together_and_by_name(protocol: typing.Any, entry: PeerEntry) -> None:
    kind = load(entry.factory, protocol.title, entry.extra)
    url = f"{entry.schemes[0]}://localhost/{protocol.path}" if entry.schemes[0] != "stdio" else "stdio:cat"
    async with kind(url, PeerOptions(name="bakery", seconds=5.0), seconds=7.0) as peer:
        assert (peer.card.name, peer.seconds) == ("bakery", 7.0)  # what is named wins
    with pytest.raises(TypeError):
        kind(url, sceonds=5.0)


def test_options_that_a_kind_of_peer_does_not_know_are_left_out() -> None:
    class Small:
        def __init__(self, url: str, *, tool: str = "", **named: object) -> None: ...

    given = {"tool": "x", "seconds": 1.0, "agent": "y"}
    assert known_options(Small, given) == {"tool": "x", "seconds": 1.0}
    assert "url" in inspect.signature(Small).parameters
