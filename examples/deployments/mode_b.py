"""Mode B: NLIP between agents of different vendor protocols (TR-9): A2A on one side, MCP on the other.

Two gateways of two owners. The far one has MCP tools behind it and speaks NLIP to the world. The near one lets A2A
clients in and passes their questions on over NLIP. Neither knows the other's vendor protocol.
"""

import sys

from sabir import Gateway, connect


def far(mcp_url: str, home: str) -> Gateway:
    tools = connect(mcp_url, protocol="mcp", name="tools")
    return Gateway(tools, home=home, beside=[tools], doors={"mcp": False, "a2a": False, "nlweb": False})


def near(nlip_url: str, home: str) -> Gateway:
    partner = connect(f"{nlip_url}/nlip", name="partner")
    return Gateway(partner, home=home, beside=[partner], doors={"mcp": False, "nlweb": False})


if __name__ == "__main__":
    side, url = sys.argv[1:3]
    {"far": far, "near": near}[side](url, f".sabir-{side}").run(port=8081 if side == "far" else 8080)
