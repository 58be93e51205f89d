"""The fallbacks of the rules: what a question's words say about the items here, whatever the rules have read.

Each fallback decides by one measure, how much of the question an item accounts for (``answers.coverage``): what comes
first, what is left out, what is quoted, and whether anything here is about the question at all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from sabir.search import Hit, SearchQuery
from sabir.search.answers.coverage import Measure, measured
from sabir.search.engine.rank import falling
from sabir.search.items.types import is_a
from sabir.search.query.asking import Asked, begins_open, is_yes_no
from sabir.search.query.conditions import Condition, During, In, Near, Not, Range, meets
from sabir.search.query.glossary import glossed, language_of
from sabir.search.query.predicates import IDLE
from sabir.search.query.relaxing import asks_elsewhere, only_filters
from sabir.search.query.text import MAX_READ, is_prose
from sabir.search.query.words import tokens

from .having import has_what_is_asked
from .home import of_home
from .likely import state_likely
from .narrowing import is_period
from .sentences import quoted_from
from .subject import ASKING, Subject
from .weighing import Row, can_be_weighed, unexplained, weigh
from .whether_so import state_whether

if TYPE_CHECKING:
    from .search import Finding

_LIGHT: Final = ASKING | IDLE
_HARD: Final = (Range, During, Not)  # what does not meet these is no help
_FEW: Final = 5  # words of a question that is measured: prose is ranked best by the index alone
_SEVERAL: Final = 8  # words of a question whose readings are weighed
_LOOKED_AT: Final = 30  # hits that are measured
_WEAK: Final = 60.0  # below this score, the best may not be what is meant
_FULL: Final = 0.7  # coverage of what is plainly meant
_ENOUGH: Final = 0.3  # coverage of what may be meant
_TAIL: Final = 0.55  # share of the best coverage below which an item is left out
_HALF: Final = 0.5  # coverage from which the rules are overruled, where they found that a filter is not met
_MARGIN: Final = 0.1  # more coverage than the best of the rules
_CLEAR: Final = 1.2  # times the coverage of the next
_UNKNOWN: Final = 0.6  # share of a question that nothing here has, above which it is about something else
_LIKE: Final = 0.42  # closeness in meaning from which something is shown although no word is there
_SHOWN: Final = 3  # results that are shown only because they come closest
_ABOUT_AS_WELL: Final = 0.8  # share of the best score
_UNSURE: Final = 59.0  # of what covers it all, at most: a fallback makes nothing sure, and so no "yes" of it
_SCORE: Final = 49.0  # of what covers a question in part, at most


async def fall_back(finding: Finding) -> None:
    """Mend what the rules found, by how much of the question each item accounts for."""
    if not _is_open(finding):
        return
    if _is_short(finding, _FEW):
        await _mend(finding)
    if not finding.is_stated and can_be_weighed(finding) and await _leaves_words(finding):
        weigh(finding, *await _all_rows(finding))
    if not finding.is_stated and _TO_BUY.search(finding.question):
        _keep_sold(finding)
    await state_whether(finding)
    await state_likely(finding)


# "A loaf to buy"; not "where to buy a loaf", which may be a shop.
_TO_BUY: Final = re.compile(
    r"(?<!\bwhere)(?<!\bhow)(?<!\bwant)(?<!\blike)(?<!\bneed)(?<!\bable)\s+to\s+(?:buy|purchase)(?=\s*(?:$|[,.;?!]|(?:for|as|under)\b))"
    r"|\bfor\s+sale(?=\s*(?:$|[,.;?!]))",
    re.IGNORECASE,
)


def _keep_sold(finding: Finding) -> None:
    """Leave out what cannot be bought, if something that can be matches about as well: a recipe is no loaf to buy."""
    sold = [hit for hit in finding.pool if any(is_a(kind, "Product") for kind in hit.item.types)]
    if sold and len(sold) < len(finding.pool) and sold[0].score >= _ABOUT_AS_WELL * finding.pool[0].score:
        finding.show_all(tuple(sold))


async def _leaves_words(finding: Finding) -> bool:
    """Whether the first result does not explain the whole question."""
    measure = await _measured(finding, finding.worded or finding.question, list(finding.pool[:_LOOKED_AT]))
    return bool(unexplained(measure.of(finding.pool[0].item), finding, measure))


async def _mend(finding: Finding) -> None:
    language = finding.said_in or language_of(finding.question)
    english = glossed(finding.question, language_of(finding.question))
    if finding.subject is None and await _ask_home(finding, english, language):
        return
    if finding.is_stated and "acceptedanswer" not in finding.subject.asked.fields:  # type: ignore[union-attr]
        return
    rows, measure = await _rows(finding)
    if not measure.is_telling:
        return
    if finding.is_stated:
        _doubt_answer(finding, rows, measure)
        return
    if finding.subject is None and await _state_held(finding, rows, measure, language):
        return
    if finding.subject is None:
        _rank(finding, rows, measure)
    await _quote(finding, english, measure)


def _is_hard(condition: Condition) -> bool:
    return isinstance(condition, _HARD) or is_period(condition)


def _is_open(finding: Finding) -> bool:
    is_own = not finding.filters and finding.ask.min_score is None and not finding.start
    return is_own and _is_short(finding, _SEVERAL) and not asks_elsewhere(finding.question)


def _is_short(finding: Finding, count: int) -> bool:
    """Whether a question has few words; in another language, without those that English does not count."""
    counts = [len(finding.meant(text)) for text in (finding.question, finding.worded) if text]
    return len(finding.question) <= MAX_READ and min(counts, default=0) <= count


async def _ask_home(finding: Finding, english: str, language: str) -> bool:
    known = await finding.engine.fields()
    found = await of_home(english, finding.engine, finding.own(), known, finding.now, language)
    if found is not None:
        await finding.state(found)
    return found is not None


async def _state_held(finding: Finding, rows: Sequence[Row], measure: Measure, language: str) -> bool:
    worded = finding.worded or finding.question
    english, known = glossed(worded, language_of(worded)), await finding.engine.fields()
    found = has_what_is_asked(finding, rows, measure, english, known, finding.now, language)
    if found is not None:
        await finding.state(found)
    return found is not None


async def _rows(finding: Finding) -> tuple[list[Row], Measure]:
    """The best candidates, each with its coverage of the question, the best first; and the measure."""
    parsed = finding.parsed
    unread = [said for one, said in zip(parsed.conditions, parsed.said, strict=True) if isinstance(one, Near | In)]
    worded = finding.worded or finding.question
    text = " ".join((parsed.text or worded, *unread)) if parsed.conditions else worded
    is_met = bool(finding.pool) and not finding.unmet
    kept = [one for one in parsed.conditions if is_met or _is_hard(one)]
    hits = await _candidates(finding, text, kept)
    measure = await _measured(finding, text, hits)
    return _sorted([Row(hit, measure.of(hit.item)) for hit in hits]), measure


async def _all_rows(finding: Finding) -> tuple[list[Row], Measure]:
    """The same for the whole question except what it refuses, among all that meets its hard conditions. What meets all
    conditions has the words that they were read from."""
    parsed, text = finding.parsed, finding.worded or finding.question
    hits = await _candidates(finding, text, [one for one in parsed.conditions if _is_hard(one)])
    measure = await _measured(finding, text, hits)
    refused = [said for one, said in zip(parsed.conditions, parsed.said, strict=True) if isinstance(one, Not)]
    measure = measure.but(" ".join(refused)) if refused else measure
    read = {word for said in parsed.said for word in tokens(said)}
    met = [read if read and meets(hit.item, parsed.conditions) else () for hit in hits]
    return _sorted([Row(hit, measure.of(hit.item, words)) for hit, words in zip(hits, met, strict=True)]), measure


async def _candidates(finding: Finding, text: str, conditions: list[Condition]) -> list[Hit]:
    """What was found by rules and by the words of the question, if it meets some conditions."""
    found = {hit.item.id: hit for hit in finding.pool[:_LOOKED_AT]}
    asked = (finding.question, finding.worded or finding.question, text, finding.parsed.text)
    for words in dict.fromkeys(asked):
        for hit in (await finding.engine.search(SearchQuery(words, finding.own(), 0, _LOOKED_AT))).hits:
            found.setdefault(hit.item.id, hit)
    return [hit for hit in found.values() if meets(hit.item, conditions)]


async def _measured(finding: Finding, text: str, hits: list[Hit]) -> Measure:
    near = [hit.item for hit in hits]
    return await measured(text, language_of(text), finding.engine, finding.own(), _LIGHT, near)


def _sorted(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: -row.worth)


def _rank(finding: Finding, rows: list[Row], measure: Measure) -> None:
    """Put first what covers most of the question, and leave out what covers much less, if the rules are unsure."""
    parsed = finding.parsed
    is_sure = finding.pool and finding.pool[0].score >= _WEAK and not finding.unmet
    if is_sure or parsed.order or finding.hint or (finding.pool and only_filters(parsed)) or is_prose(parsed.text):
        return
    if not rows:
        return
    best = rows[0].covered.share
    if best < (_HALF if finding.unmet else _ENOUGH) or measure.unknown > _UNKNOWN:
        _show_closest(finding, rows)
        return
    first = next((row for row in rows if finding.pool and row.hit.item.id == finding.pool[0].item.id), None)
    if first is not None and best < first.covered.share + _MARGIN:  # no better than what the rules found
        rows = [first, *(row for row in rows if row is not first)]
    kept = [row for row in rows if row.covered.share >= _TAIL * best]
    finding.unmet, finding.is_remote = "", False
    finding.note = finding.note if rows[0].covered.missing else ""
    ranked = [msgspec.structs.replace(row.hit, score=_score(row)) for row in kept]
    shown = {(hit.item.site, hit.item.id) for hit in ranked}
    behind = [hit for hit in finding.pool if (hit.item.site, hit.item.id) not in shown] if finding.keeps_tail else []
    hits = [*ranked, *behind]
    scores = falling([hit.score for hit in hits])
    finding.show_all(tuple(msgspec.structs.replace(hit, score=score) for hit, score in zip(hits, scores, strict=True)))


def _score(row: Row) -> float:
    """The score of a hit, or one that says how much of the question it covers."""
    share = row.covered.share
    is_full = share >= _FULL and not row.covered.missing
    return max(row.hit.score, min(_UNSURE, 80 * share) if is_full else _SCORE * share)


def _show_closest(finding: Finding, rows: Sequence[Row]) -> None:
    """Show what comes closest in meaning, said to be far off, if nothing was found by words."""
    if finding.pool:
        return
    near = sorted((row.hit for row in rows if (row.hit.semantic or 0.0) >= _LIKE), key=lambda hit: -(hit.semantic or 0))
    shown = [msgspec.structs.replace(hit, score=min(hit.score, 34.0)) for hit in near[:_SHOWN]]
    if shown:
        finding.unmet, finding.is_remote = "", True
        finding.show_all(tuple(shown))


def _doubt_answer(finding: Finding, rows: Sequence[Row], measure: Measure) -> None:
    """Take back one of the site's own answers, if it covers little of the question or nothing was asked."""
    subject = finding.subject
    own = next((row for row in rows if subject and row.hit.item.id == subject.hit.item.id), None)
    if own is None or subject is None:
        return
    question = glossed(finding.question, language_of(finding.question))
    is_asked = begins_open(question) or is_yes_no(question) or "?" in question or "？" in finding.question
    if is_asked and own.covered.share >= _ENOUGH:
        return
    better = rows[0].covered.share > own.covered.share + 0.05
    if not is_asked and not better and own.covered.share >= _FULL:
        return
    finding.subject = None
    if measure.unknown > 0.45 and not is_asked:
        finding.is_remote = True
        return
    if better:
        _rank(finding, [row for row in rows if "Question" not in row.hit.item.types] or list(rows), measure)


async def _quote(finding: Finding, english: str, measure: Measure) -> None:
    """State the sentences of the clearly best item that answer the question."""
    hits = finding.pool[:_LOOKED_AT]
    if not hits or not begins_open(english):
        return
    shares = sorted((measure.of(hit.item).share for hit in hits[1:]), reverse=True)
    own = measure.of(hits[0].item).share
    is_clear = finding.subject is not None or (own >= 0.5 and own >= _CLEAR * (shares[0] if shares else 0.0))
    if is_clear and (said := quoted_from(hits[0].item, english, measure)):
        finding.subject = Subject(hits[0], Asked(("articlebody",)), finding.question, said)
        finding.unmet, finding.is_remote = "", False
        finding.lead(hits[0])
