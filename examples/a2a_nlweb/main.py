"""A2A in front of NLWeb: a site that speaks NLWeb only becomes an agent with an A2A card."""

import asyncio

import httpx2

from sabir import Message, Turn, agent, connect, json_part
from sabir.testing import served

ROOMS = {"Lake view": 120, "Garden": 90}


@agent(description="Rooms of the hotel")
async def hotel(turn: Turn) -> Message:
    found = [{"@type": "HotelRoom", "name": name, "price": price} for name, price in ROOMS.items()]
    return Message.text("We have two rooms.", parts=[json_part(room, label="result") for room in found])


async def main() -> None:
    only_nlweb = dict.fromkeys(("nlip-http", "nlip-ws", "mcp", "a2a", "acl"), False)
    with served(hotel, doors=only_nlweb) as site:
        rooms = connect(f"{site}/ask", protocol="nlweb", name="rooms")
        with served(rooms, beside=[rooms]) as url:
            card = httpx2.get(f"{url}/.well-known/agent-card.json").json()
            print(f"card: {card['name']}, {card['supportedInterfaces'][0]['protocolBinding']}")
            async with connect(url, protocol="a2a") as client:
                reply = await client.ask("Which rooms do you have?")
                for part in reply.parts:
                    if part.label == "result":
                        print(f"{part.content['name']}: {part.content['price']} EUR")


if __name__ == "__main__":
    asyncio.run(main())
