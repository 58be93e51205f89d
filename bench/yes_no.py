"""How often the statements of a site decide a question for yes or no rightly, and the weights with which they do.

Run it from the project's root: ``python -m bench.yes_no``. The weights of ``agents/site/whether_so.py`` are fitted to
all sites but an eighth, and tried on these; the last lines have the weights fitted to all sites. Rows that are kept
apart (``held``, from the thirteenth set on) are tried, but not fitted to.

Which statement decides is not known: a statement fits as well as it leans to the right side. Of a thing that the site
does not have, saying nothing is right as well, and of what the site says nothing about, nothing else is.
"""

from __future__ import annotations

import asyncio
import random
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from tests.search import asking

from sabir.agents.site import whether_so
from sabir.agents.site.stating import SiteQuestion
from sabir.search import LocalIndex
from sabir.search.answers.leaning import leanings
from sabir.search.answers.reading import telling
from sabir.search.query.asking import asks_whether, asks_whether_there
from sabir.search.query.glossary import glossed, language_of

PARTS = 8
STEPS = 500
RATE = 0.05
PENALTY = 1.5e-3
LIMITS = (0.5, 0.58, 0.65, 0.75)
LEANS = 0.8
SHARE = 0.3
UNLIKELY = 0.03  # how right it is to say nothing of what the site decides
APART = ("thirteenth", "fourteenth", "fifteenth")
Numbers = NDArray[np.float64]


class Row(NamedTuple):
    site: str
    yes: bool | None  # None if nothing decides it
    is_apart: bool
    may_be_silent: bool
    fitting: Numbers
    doubting: Numbers
    leaning: Numbers
    is_right: NDArray[np.bool_]  # whether the statement is of a page that answers it
    is_sentence_of_thing: NDArray[np.bool_]  # which never says that the site has a thing


class Weights(NamedTuple):
    fitting: Numbers
    doubting: Numbers
    leaning: Numbers


async def rows_of(site: str) -> list[Row]:
    """The questions for yes or no about a site, and their candidates."""
    near = [judged for judged in asking.read("there") if judged.site == site]
    asked = [judged for judged in (*asking.questions(site), *near) if not judged.before]
    asked = [judged for judged in asked if judged.yes is not None or (judged.nothing and _asks(judged))]
    if not asked:
        return []
    index = await asking.opened(site)
    try:
        rows = [await _row(site, index, judged) for judged in asked]
    finally:
        await index.close()
    return [row for row in rows if row is not None]


def _asks(judged: asking.Judged) -> bool:
    return asks_whether(judged.question, glossed(judged.question, language_of(judged.question)))


async def _row(site: str, index: LocalIndex, judged: asking.Judged) -> Row | None:
    language = language_of(judged.question)
    english = glossed(judged.question, language)
    is_there = asks_whether_there(judged.question) or asks_whether_there(english)
    known = await index.fields()
    question = SiteQuestion(english, language, index, (), known, asking.NOW, is_there=is_there, asked=judged.question)
    found = await whether_so.candidates(question)
    similar = await whether_so.similarities(question, found)
    if similar is None:
        return None
    features = whether_so.features(found, english, similar, is_there=is_there)
    words = telling(english)
    ids = [one.hit.item.id.split("#")[0] for one in found]
    return Row(
        site,
        judged.yes,
        judged.held and judged.file in APART,
        judged.yes is None or (judged.file == "there" and not judged.yes),
        np.array(features),
        np.array(whether_so.doubts(features, is_there=is_there)),
        np.array([leanings(english, one.english, words, one.asked_here) for one in found]),
        np.array([not judged.first or one in judged.first for one in ids]),
        np.array([is_there and not one.asked_here for one in found]),
    )


def fitted(rows: list[Row]) -> Weights:
    """Weights with which the right answers are the likeliest (by Adam)."""
    fitting, leaning = (np.concatenate([getattr(row, name) for row in rows]) for name in ("fitting", "leaning"))
    doubting = np.stack([row.doubting for row in rows])
    row_of = np.repeat(np.arange(len(rows)), [len(row.fitting) for row in rows])
    starts = np.concatenate([[0], np.cumsum([len(row.fitting) for row in rows])[:-1]])
    says = np.array([0.0 if row.yes is None else 1.0 if row.yes else -1.0 for row in rows])[row_of]
    is_right = np.concatenate([row.is_right for row in rows])
    silent = np.array([1.0 if row.may_be_silent else UNLIKELY for row in rows])
    first, second = fitting.shape[1], fitting.shape[1] + doubting.shape[1]
    weights = np.zeros(second + leaning.shape[1])
    mean, square = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(1, STEPS + 1):
        worth, doubt = fitting @ weights[:first], doubting @ weights[first:second]
        highest = np.maximum(np.maximum.reduceat(worth, starts), doubt)
        power, none = np.exp(worth - highest[row_of]), np.exp(doubt - highest)
        total = np.add.reduceat(power, starts) + none
        share, none = power / total[row_of], none / total
        lean = 1 / (1 + np.exp(-leaning @ weights[second:]))
        right = np.where(says > 0, lean, np.where(says < 0, 1 - lean, 0.0)) * is_right
        likely, unsaid = share * right, none * silent
        total = np.add.reduceat(likely, starts) + unsaid
        likely, unsaid = likely / total[row_of], unsaid / total
        side = np.where(says > 0, 1 - lean, np.where(says < 0, -lean, 0.0))
        gradient = np.concatenate(
            [fitting.T @ (share - likely), doubting.T @ (none - unsaid), -(leaning.T @ (likely * side))]
        )
        gradient = gradient / len(rows) + PENALTY * weights
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.99 * square + 0.01 * gradient**2
        weights = weights - RATE * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.99**step)) + 1e-8)
    return Weights(weights[:first], weights[first:second], weights[second:])


def said(row: Row, weights: Weights, least: float) -> bool | None:
    """What the statements say together; None if that is not clear enough."""
    worth = np.append(row.fitting @ weights.fitting, row.doubting @ weights.doubting)
    power = np.exp(worth - worth.max())
    share = power[:-1] / power.sum()
    lean = 1 / (1 + np.exp(-row.leaning @ weights.leaning))
    yes = float(share @ lean)
    no = float(share.sum()) - yes
    side = lean if yes >= no else 1 - lean
    best = int((share * side).argmax())
    is_clear = max(yes, no) >= least and side[best] >= LEANS and share[best] >= SHARE
    return yes >= no if is_clear and not row.is_sentence_of_thing[best] else None


def main() -> None:
    rows = [row for site in asking.SOURCES for row in asyncio.run(rows_of(site))]
    sites = sorted({row.site for row in rows})
    random.Random(3).shuffle(sites)
    open_rows = [row for row in rows if not row.is_apart]
    tried: list[tuple[Row, Weights]] = []
    for part in range(PARTS):
        apart = set(sites[part::PARTS])
        weights = fitted([row for row in open_rows if row.site not in apart])
        tried += [(row, weights) for row in rows if row.site in apart]
    print(f"{len(rows)} questions, each on a site that was left out of the fit")
    for limit in LIMITS:
        answers = [(row.yes, answer) for row, weights in tried if (answer := said(row, weights, limit)) is not None]
        right = sum(yes == answer for yes, answer in answers)
        print(f"likely by {limit}: {len(answers) / len(tried):.1%} of the questions, {right / len(answers):.1%} right")
    for name, values in fitted(open_rows)._asdict().items():
        print(f"{name}:", ", ".join(f"{value:.1f}" for value in values))


if __name__ == "__main__":
    main()
