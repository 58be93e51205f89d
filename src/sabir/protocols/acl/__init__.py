"""ACL: the agent communication language of the ElizaOS draft. ``mcp_version`` on its wire is the draft's own name."""

from sabir.protocols.protocol import DoorEntry, PeerEntry, Protocol

PROTOCOL = Protocol(
    name="acl",
    title="ACL",
    doors=(DoorEntry("acl", "sabir.protocols.acl.door.door:Acl", "/acl/{name}", "/acl/{name}"),),
    peers=(PeerEntry(("http", "https"), "sabir.protocols.acl.peer.peer:AclPeer"),),
    path="acl",
    probe="/.well-known/acl",
    probe_origin=True,
    wire="sabir.protocols.acl.wire.content",
    listing="sabir.federation.listing_acl:by_acl",
    suite="sabir.conformance.acl:check_acl",
    reserved=frozenset({"acl", "df", "gateway", "inbox", "send", "sse", "ws", "directory", "conversations"}),
)
