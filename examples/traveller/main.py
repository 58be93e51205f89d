"""The traveller: one client, and agents of a hotel, a conference, a taxi company and a transit company.

Each company has its own gateway. The traveller talks to each of them, and to a federator that asks all at once.
"""

import asyncio
from contextlib import ExitStack

from sabir import Federation, Turn, agent, connect
from sabir.testing import served


@agent(description="Rooms and check-in")
async def hotel(turn: Turn) -> str:
    return "Check-in is from 15:00; the hotel is at Lake Street 1."


@agent(description="The programme of the conference")
async def conference(turn: Turn) -> str:
    return "The first talk is at 9:30 in hall B."


@agent(description="Taxis in the city")
async def taxi(turn: Turn) -> str:
    return "A taxi to the conference takes 12 minutes and costs 18 EUR."


@agent(description="Buses and trams")
async def transit(turn: Turn) -> str:
    return "Tram 4 to the conference takes 25 minutes and costs 3 EUR."


async def main() -> None:
    companies = (hotel, conference, taxi, transit)
    with ExitStack() as running:
        urls = {company.card.name: running.enter_context(served(company)) for company in companies}
        for name in ("hotel", "conference"):
            async with connect(urls[name]) as company:
                print(f"{name}: {(await company.ask('When can I come?')).text}")
        peers = [connect(urls[name], name=name) for name in ("taxi", "transit")]
        federator = Federation(peers, name="ways", description="Asks every way to travel")
        url = running.enter_context(served(federator, beside=peers))
        async with connect(url) as ways:
            print((await ways.ask("How do I get to the conference?")).first.content)


if __name__ == "__main__":
    asyncio.run(main())
