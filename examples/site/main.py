"""A site that answers in plain words: three recipes in a file become an agent, asked over NLWeb."""

import asyncio
from pathlib import Path

from sabir import Site, connect
from sabir.search import LocalIndex, ingest
from sabir.testing import served

RECIPES = Path(__file__).with_name("recipes.jsonl")
QUESTIONS = ("something with lemon", "soup under 30 minutes")


async def main() -> None:
    index = LocalIndex(None, None)  # in memory, by words; LocalIndex("index", MiniLM()) finds by meaning, too
    report = await ingest(index, str(RECIPES), site="kitchen")
    print(f"read {report.added} recipes")
    with served(Site(index, "kitchen", questions=False)) as url:
        async with connect(f"{url}/ask", protocol="nlweb") as site:
            for question in QUESTIONS:
                reply = await site.ask(question)
                found = [part.content["name"] for part in reply.parts if part.label == "result"]
                print(f"{question}: {', '.join(found)}")


if __name__ == "__main__":
    asyncio.run(main())
