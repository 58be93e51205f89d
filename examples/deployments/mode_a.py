"""Mode A: NLIP in front, a vendor protocol behind (TR-9). Here the tools of an MCP server, asked in plain words."""

import sys

from sabir import Gateway, connect


def gateway(mcp_url: str, home: str = ".sabir") -> Gateway:
    tools = connect(mcp_url, protocol="mcp", name="tools")
    return Gateway(tools, home=home, beside=[tools])


if __name__ == "__main__":
    mcp_url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080/mcp"  # what `make run` serves
    gateway(mcp_url, ".sabir-mode-a").run(port=8081)
