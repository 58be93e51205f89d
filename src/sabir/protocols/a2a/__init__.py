"""A2A 1.0 and 0.3: JSON-RPC, HTTP+JSON, gRPC."""

from sabir.protocols.protocol import DoorEntry, PeerEntry, Protocol

PROTOCOL = Protocol(
    name="a2a",
    title="A2A",
    doors=(DoorEntry("a2a", "sabir.protocols.a2a.door.routes:A2aDoor", "/a2a/{name}", "/a2a/{name}", extra="a2a"),),
    peers=(PeerEntry(("http", "https"), "sabir.protocols.a2a.peer.peer:A2aPeer", "a2a"),),
    path="a2a",
    marks=("agent-card.json",),
    probe="/.well-known/agent-card.json",
    probe_origin=True,
    wire="sabir.protocols.a2a.wire.content",
    listing="sabir.federation.listing_a2a:by_a2a",
    extra="a2a",
)
