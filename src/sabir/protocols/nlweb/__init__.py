"""NLWeb 0.54: ``/ask``, ``/await``, ``/who``."""

from sabir.protocols.protocol import DoorEntry, PeerEntry, Protocol

PROTOCOL = Protocol(
    name="nlweb",
    title="NLWeb",
    doors=(DoorEntry("nlweb", "sabir.protocols.nlweb.door.routes:Nlweb", "/ask", "/ask/{name}"),),
    peers=(PeerEntry(("http", "https"), "sabir.protocols.nlweb.peer:NlwebPeer"),),
    path="ask",
    probe="/ask",
    wire="sabir.protocols.nlweb.wire.responses",
    listing="sabir.federation.listing:by_nlweb",
    suite="sabir.conformance.suites:check_nlweb",
)
