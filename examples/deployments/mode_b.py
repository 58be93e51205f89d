"""Mode B: NLIP between agents of different vendor protocols (TR-9): A2A on one side, MCP on the other.

Two gateways of two owners. The remote one has MCP tools behind it and serves NLIP. The near one accepts A2A clients and
forwards their questions over NLIP. Neither knows the other's vendor protocol.
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
    if sys.argv[1:2] == ["far"]:
        far(*(sys.argv[2:] or ["http://127.0.0.1:8080/mcp"]), home=".sabir-far").run(port=8081)
    elif sys.argv[1:2] == ["near"]:
        near(*(sys.argv[2:] or ["http://127.0.0.1:8081"]), home=".sabir-near").run(port=8082)
    else:
        sys.exit("usage: mode_b.py far [MCP_URL], and in another terminal: mode_b.py near [NLIP_URL]")
