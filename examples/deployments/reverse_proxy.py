"""A reverse proxy: one public gateway for agents that live on other servers (DEP-MID).

Clients see one address, one policy and one set of limits; ``/nlip/sales`` and ``/nlip/support`` are answered elsewhere.
Each hop has its own tokens: a client's token is useless behind this gateway, and vice versa.
"""

import sys

from sabir import Gateway, Policy, Quotas, connect


def gateway(behind: dict[str, str], home: str = ".sabir") -> Gateway:
    peers = [connect(url, name=name) for name, url in behind.items()]
    return Gateway(
        *peers,
        home=home,
        beside=peers,
        quotas=Quotas(rate_per_address=20.0),
        facts={"policies": [Policy("privacy", "What you say goes to the agent you address, and to no one else.")]},
    )


if __name__ == "__main__":
    # NAME=URL of the agents behind; by default one that `make run` serves
    pairs = sys.argv[1:] or ["support=http://127.0.0.1:8080/nlip/echo"]
    gateway(dict(pair.split("=", 1) for pair in pairs), ".sabir-reverse-proxy").run(port=8081)
