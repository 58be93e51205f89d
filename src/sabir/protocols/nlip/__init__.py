"""NLIP (ECMA-430): HTTP, WebSocket with CBOR, AMQP 1.0."""

from sabir.protocols.protocol import DoorEntry, PeerEntry, Protocol

PROTOCOL = Protocol(
    name="nlip",
    title="NLIP",
    doors=(
        DoorEntry("nlip-http", "sabir.protocols.nlip.door.http:NlipHttp", "/nlip", "/nlip/{name}"),
        DoorEntry("nlip-ws", "sabir.protocols.nlip.door.websocket:NlipWs", "/nlip/ws", "/nlip/{name}/ws", "ws"),
        DoorEntry("upload", "sabir.protocols.nlip.door.upload:UploadDoor"),
        DoorEntry(
            "nlip-amqp", "sabir.protocols.nlip.door.amqp:NlipAmqp", "", "/{name}", "", optional=True, extra="amqp"
        ),
    ),
    peers=(
        PeerEntry(("http", "https"), "sabir.protocols.nlip.peer.http:NlipHttpPeer"),
        PeerEntry(("ws", "wss"), "sabir.protocols.nlip.peer.websocket:NlipWsPeer"),
        PeerEntry(("amqp", "amqps"), "sabir.protocols.nlip.peer.amqp:NlipAmqpPeer", "amqp"),
    ),
    path="nlip",
    wire="sabir.protocols.nlip.wire.json",
    listing="sabir.federation.listing:by_nlip",
    suite="sabir.conformance.suites:check_nlip",
    reserved=frozenset({"ws", "tasks", "upload"}),
)
