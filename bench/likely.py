"""How often the likeliest sentence has the fact that is asked for, and the weights that find it.

Run it from the project's root: ``python -m bench.likely``. For every question of the question sets that asks for a
fact, the candidates of ``agents/site/likely.py`` are compared; the weights are fitted to all sites but a fifth, and
tried on these. The last line has the weights fitted to all sites.
"""

from __future__ import annotations

import asyncio
import random
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from tests.search import asking

from sabir.agents.site import likely
from sabir.search import SearchQuery
from sabir.search.query.glossary import glossed, language_of

PARTS = 5
STEPS = 400
RATE = 0.1
PENALTY = 1e-3
LIMITS = (0.3, 0.4, 0.5, 0.7)


class Row(NamedTuple):
    site: str
    features: NDArray[np.float64]
    has_fact: NDArray[np.bool_]


async def rows_of(site: str) -> list[Row]:
    """The questions about a site that ask for a fact of the site, and their candidates."""
    asked = [judged for judged in asking.questions(site) if judged.fact and not judged.before]
    if not asked:
        return []
    index = await asking.opened(site)
    rows: list[Row] = []
    try:
        for judged in asked:
            english = glossed(judged.question, language_of(judged.question))
            pages = (await index.search(SearchQuery(judged.question, (), 0, 8))).hits
            found = likely.candidates(pages, english)
            similar = await index.similarities(judged.question, [candidate.written for candidate in found])
            if not found or similar is None:
                continue
            has_fact = [all(fact.casefold() in one.written.casefold() for fact in judged.fact) for one in found]
            rows.append(Row(site, np.array(list(likely.features(found, english, similar))), np.array(has_fact)))
    finally:
        await index.close()
    return rows


def fitted(rows: list[Row]) -> NDArray[np.float64]:
    """Weights with which the sentences that have the fact are the likeliest (softmax regression, by Adam)."""
    rows = [row for row in rows if row.has_fact.any()]
    weights = np.zeros(rows[0].features.shape[1])
    mean, square = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(1, STEPS + 1):
        gradient = PENALTY * weights
        for row in rows:
            chance = shares(row.features @ weights)
            wanted = chance * row.has_fact
            gradient = gradient + row.features.T @ (chance - wanted / wanted.sum()) / len(rows)
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.99 * square + 0.01 * gradient**2
        weights = weights - RATE * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.99**step)) + 1e-8)
    return weights


def shares(worth: NDArray[np.float64]) -> NDArray[np.float64]:
    powers = np.exp(worth - worth.max())
    return powers / powers.sum()


def main() -> None:
    rows = [row for site in asking.SOURCES for row in asyncio.run(rows_of(site))]
    sites = sorted({row.site for row in rows})
    random.Random(3).shuffle(sites)
    tried: list[tuple[float, bool]] = []
    for part in range(PARTS):
        apart = set(sites[part::PARTS])
        weights = fitted([row for row in rows if row.site not in apart])
        for row in rows:
            if row.site in apart:
                chance = shares(row.features @ weights)
                tried.append((float(chance.max()), bool(row.has_fact[chance.argmax()])))
    there = np.mean([row.has_fact.any() for row in rows])
    print(f"{len(rows)} questions; the fact is in a candidate of {there:.1%}")
    print(f"the likeliest has it: {np.mean([has for _, has in tried]):.1%}, on sites that were left out of the fit")
    for limit in LIMITS:
        sure = [has for chance, has in tried if chance >= limit]
        print(
            f"confidence of at least {limit}: {len(sure) / len(tried):.1%} of the questions, {np.mean(sure):.1%} right"
        )
    print("weights:", ", ".join(f"{weight:.1f}" for weight in fitted(rows)))


if __name__ == "__main__":
    main()
