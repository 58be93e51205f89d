"""Order a taxi: the company asks for consent to its privacy policy before it takes a location."""

import asyncio

from sabir import Message, Part, Policy, Turn, agent, connect
from sabir.errors import PeerRefused
from sabir.testing import served

PRIVACY = Policy(
    "privacy", "Your location is used for this ride and deleted after a day.", {"retention_days": 1}, required=True
)
LOCATION = Policy("attributes", "A ride needs your location.", {"required": ["location"]})
STATION = (46.2102, 6.1424)  # where the taxis wait


@agent(description="Sends a taxi to where you are", policies=(PRIVACY, LOCATION))
async def taxi(turn: Turn) -> str:
    place = next((part for part in turn.parts if part.format == "location"), None)
    if place is None:
        return "Where are you? Send your location."
    latitude, longitude = (float(number) for number in place.content.split(","))
    north, east = (latitude - STATION[0]) * 111.2, (longitude - STATION[1]) * 77.0
    minutes = 3 + round((north**2 + east**2) ** 0.5 * 2)
    return f"A taxi is on its way and arrives in {minutes} minutes."


async def main() -> None:
    order = Message.text("A taxi, please", parts=[Part("location", "gps", "46.2330, 6.1090")])
    with served(taxi) as url:
        async with connect(f"{url}/nlip/taxi") as client:
            try:
                await client.ask(order)
            except PeerRefused as exc:
                print(f"refused ({exc.status}): a policy must be accepted first")
            print((await client.control("What are your policies?")).first.content)
            print((await client.control("I accept your privacy policy.")).first.content)
            print((await client.ask("yes")).first.content)
            print((await client.ask(order)).first.content)


if __name__ == "__main__":
    asyncio.run(main())
