"""Which reading of a question explains more of it: the one by rules, or plainly its words.

A reading by rules may be too narrow: "learn to pull noodles" is a restaurant, if "noodles" is taken for a cuisine. An
item explains a word if it has the word, or meets the condition that was read from it. If the first result leaves words
unexplained, an item that has clearly more of the question comes first, the next best follow, and the answer says which
words it could not place. A word that is in no item and in no dictionary may be a slip or a foreign one: then anything
near may be meant.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from sabir.search import Hit, OfType
from sabir.search.answers.coverage import Coverage, Measure
from sabir.search.engine.embed import is_word
from sabir.search.engine.rank import falling
from sabir.search.query.conditions import meets
from sabir.search.query.relaxing import inner, is_time, only_filters
from sabir.search.query.words import tokens

if TYPE_CHECKING:
    from .search import Finding

_CLEARLY: Final = 0.1  # more worth than the first result has
_NEARLY: Final = 0.7  # share of the worth of the first result that one beside it has
_LEAST: Final = 3  # results of an answer that does not explain the whole question


class Row(msgspec.Struct, frozen=True):
    """An item, and what it has of the question."""

    hit: Hit
    covered: Coverage

    @property
    def worth(self) -> float:
        return self.covered.share + 0.3 * (self.hit.semantic or 0.0) + 0.2 * self.hit.score / 100


def can_be_weighed(finding: Finding) -> bool:
    """Whether a list may be mended: it has results, and neither an order nor nothing but conditions that are met."""
    parsed = finding.parsed
    is_met = bool(parsed.conditions) and only_filters(parsed) and not finding.unmet
    return bool(finding.pool) and not parsed.order and not is_met


def weigh(finding: Finding, rows: list[Row], measure: Measure) -> None:
    """Mend a list whose first result leaves words of the question unexplained; ``rows``: the best first."""
    first = next((row for row in rows if _key(row.hit) == _key(finding.pool[0])), None)
    left = unexplained(first.covered, finding, measure) if first is not None else []
    if first is None or not left:
        return
    said = bool(finding.parsed.said)
    is_open = not said or any(
        not word.is_here and not is_word(word.said) for word in measure.words if word.said in left
    )
    others = [row for row in rows if row is not first and (is_open or _explains(row, left))]
    if not others:
        _show_likest(finding, first, rows, left)
        return
    best = others[0]
    is_better = finding.is_remote and best.worth > first.worth and _gains(best, first, measure)
    leads = best.worth >= first.worth + _CLEARLY or is_better
    pool = _placed(best.hit, 0, finding.pool) if leads else list(finding.pool)
    shown = {_key(hit) for hit in pool}
    beside = [row.hit for row in others if _key(row.hit) not in shown and row.worth >= _NEARLY * first.worth]
    pool += beside[: max(0, _LEAST - len(pool))]
    is_hidden = _key(best.hit) not in {_key(hit) for hit in pool[:_LEAST]}
    if is_hidden and not said and best.worth >= first.worth:
        pool = _placed(best.hit, _LEAST - 1, pool)
    if pool != list(finding.pool):
        _show(finding, pool, unexplained(best.covered, finding, measure) if leads else left)
        finding.subject = None if leads else finding.subject
    elif not leads:
        _show_likest(finding, first, rows, left)


def _show_likest(finding: Finding, first: Row, rows: Sequence[Row], left: Sequence[str]) -> None:
    """Show what is closest in meaning beside a lone result that leaves words unexplained: other words may mean it."""
    conditions = finding.parsed.conditions
    if len(finding.pool) > 1 or any(map(is_time, inner(conditions))):
        return
    types = [one for one in conditions if isinstance(one, OfType)]
    likest = max((row for row in rows if meets(row.hit.item, types)), key=lambda row: row.hit.semantic or 0.0)
    if (likest.hit.semantic or 0.0) <= (first.hit.semantic or 0.0):
        return
    if likest is not first:
        _show(finding, (*finding.pool, likest.hit), left)


def _placed(hit: Hit, place: int, pool: Sequence[Hit]) -> list[Hit]:
    """The same hits with one at this place."""
    others = [other for other in pool if _key(other) != _key(hit)]
    return [*others[:place], hit, *others[place:]]


def _show(finding: Finding, pool: Sequence[Hit], left: Sequence[str]) -> None:
    """Show these hits, and say which words could not be placed."""
    scores = falling([hit.score for hit in pool])
    finding.show_all(tuple(msgspec.structs.replace(hit, score=score) for hit, score in zip(pool, scores, strict=True)))
    finding.is_weighed = True
    if left and not finding.note:
        words = " and ".join(f'"{word}"' for word in left)
        finding.note = f"I could not place {words}; these come nearest."


def _gains(best: Row, first: Row, measure: Measure) -> bool:
    """Whether what one has more of a question than another says which thing is meant."""
    gained = set(first.covered.missing) - set(best.covered.missing)
    return not gained or any(word.said in gained and not word.is_light for word in measure.words)


def _explains(row: Row, words: list[str]) -> bool:
    return any(word not in row.covered.missing for word in words)


def unexplained(covered: Coverage, finding: Finding, measure: Measure) -> list[str]:
    """The words that say which thing is meant, and that an item neither has nor was found by."""
    said = {word for words in finding.parsed.said for word in tokens(words)}
    telling = {word.said for word in measure.words if not word.is_light and said.isdisjoint(word.forms)}
    return [word for word in covered.missing if word in telling]


def _key(hit: Hit) -> tuple[str, str]:
    return hit.item.site, hit.item.id
