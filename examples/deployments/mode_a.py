"""Mode A: NLIP in front, a vendor protocol behind (TR-9). Here the tools of an MCP server, asked in plain words."""

import sys

from sabir import Gateway, connect


def gateway(mcp_url: str, home: str = ".sabir") -> Gateway:
    tools = connect(mcp_url, protocol="mcp", name="tools")
    return Gateway(tools, home=home, beside=[tools])


if __name__ == "__main__":
    gateway(sys.argv[1]).run()
