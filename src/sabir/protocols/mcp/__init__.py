"""MCP: Streamable HTTP and stdio."""

from sabir.protocols.protocol import DoorEntry, PeerEntry, Protocol

PROTOCOL = Protocol(
    name="mcp",
    title="MCP",
    doors=(DoorEntry("mcp", "sabir.protocols.mcp.door.door:Mcp", "/mcp/{name}", "/mcp/{name}", extra="mcp"),),
    peers=(PeerEntry(("http", "https", "stdio"), "sabir.protocols.mcp.peer.peer:McpPeer", "mcp"),),
    path="mcp",
    marks=("sse",),  # where servers of 2024-11-05 listen
    probe="/mcp",
    wire="sabir.protocols.mcp.wire.content",
    listing="sabir.federation.listing_mcp:by_mcp",
    extra="mcp",
)
