"""A federator: one question to several shops, the best price back (DEP-FED).

Shops are reached over NLIP or by their own function; one that is down is named and left out. ``cheapest`` can be
replaced by
``cross_check``, or by any agent that reads the answers as labelled submessages.
"""

import sys

from sabir import Federation, Gateway, Message, Turn, agent, cheapest, connect, json_part


@agent(name="corner-shop", description="Sells lamps")
async def corner_shop(turn: Turn) -> Message:
    return Message.text("A lamp is 31 EUR.", parts=[json_part({"item": "lamp", "price": 31.0})])


def gateway(shops: dict[str, str], home: str = ".sabir") -> Gateway:
    peers = [connect(url, name=name, retries=0) for name, url in shops.items()]
    best = Federation([corner_shop, *peers], integrator=cheapest, name="best-price", seconds=5.0)
    return Gateway(best, home=home, beside=peers)


if __name__ == "__main__":
    shops = dict(pair.split("=", 1) for pair in sys.argv[1:])  # NAME=URL of further shops
    gateway(shops, ".sabir-federator").run(port=8081)
