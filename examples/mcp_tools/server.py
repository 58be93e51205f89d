"""An MCP server as others write them, with the official SDK: two tools, over stdio."""

from mcp.server import MCPServer

server = MCPServer("office")


@server.tool()
def working_days(weeks: int) -> str:
    """How many working days some weeks have."""
    return f"{weeks} weeks have {5 * weeks} working days."


@server.tool()
def room_for(people: int) -> str:
    """The smallest room for some people."""
    return "Room 1" if people <= 4 else "Room 2"


if __name__ == "__main__":
    server.run()
