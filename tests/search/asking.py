"""The questions in ``questions/*.jsonl``, each with the answer that a careful reader would give, and their judge."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from sabir.agents.site.agent import Site, SiteAsk
from sabir.events import Reply
from sabir.message import Message, text_part
from sabir.search import LocalIndex, ingest
from sabir.search.engine.embed import MiniLM, Vectors
from sabir.search.sample import SITES
from sabir.turn import Conversation, PastTurn, Turn

HERE = Path(__file__).parent / "questions"
NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)  # a Monday
# Sets about all sites, each run once before any rule was changed for it. The second, and those from the fifth
# on, were written without looking at the rules; from the seventh on, the sets are also about sites that no rule was
# tried on. "own_sites" is about six small sites of other kinds. Its author knew the rules, and changed none before its
# first run.
UNSEEN = (
    "fresh", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "own_sites", "tenth",
    "eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth",
)  # fmt: skip
SHOWN = 5  # results that a reader looks at

# The name of each site, and what it is ingested from.
SOURCES: dict[str, dict[str, tuple[Path, ...]]] = {
    "harbour": dict(SITES),
    "shop": {"shop.example": (HERE / "sites" / "shop" / "products.json",)},
    "events": {"kilbride-arts.example": (HERE / "sites" / "events" / "calendar.ics",)},
    "kochen": {"kochen.example": (HERE / "sites" / "kochen",)},
    "radhaus": {"radhaus.example": (HERE / "sites" / "radhaus" / "products.json",)},
    "fenwick": {"fenwick.example": (HERE / "sites" / "fenwick" / "feed.jsonl",)},
    "glen": {"glen.example": (HERE / "sites" / "glen" / "feed.jsonl",)},
    "museum": {"merrow.example": (HERE / "sites" / "museum" / "feed.jsonl",)},
    "library": {
        "millbrook.example": tuple(
            HERE / "sites" / "library" / name
            for name in (
                "feed.jsonl",
                "things.csv",
                "events.ics",
                "holiday-hours.html",
                "new-elevator.html",
                "museum-passes.html",
            )
        )
    },
    "campsite": {
        "larchwater.example": tuple(
            HERE / "sites" / "campsite" / name
            for name in ("feed.jsonl", "pitches.csv", "products.json", "events.ics", "cottages")
        )
    },
    "musikschule": {
        "musikschule-lindenau.example": tuple(
            HERE / "sites" / "musikschule" / name
            for name in ("seiten", "kurse", "lehrkraefte", "raeume", "termine", "mietinstrumente.csv")
        )
    },
    **{
        kind: {f"{kind}.example": tuple(HERE / "sites" / kind / name for name in names)}
        for kind, names in (
            ("hollyoak", ("products.json", "pages")),
            ("ellery", ("courses", "people", "events", "info", "diary.ics")),
            ("belmira", ("habitaciones", "actividades.csv", "paginas")),
            ("brackenfield", ("feed.jsonl", "vaccination-days.ics")),
            ("secondgear", ("products.json", "pages")),
            ("ashwell", ("feed.jsonl", "events.ics")),
            ("quillpress", ("feed.jsonl", "docs", "blog")),
            ("wexcombe", ("whats-on.ics", "shop.xml", "visit.csv")),
            ("meadowgate", (".",)),
            ("orival", ("pages", "espaces", "activites.csv", "agenda.ics")),
            ("tarnside", ("products.json", "pages")),
            ("marlowfinch", ("feed.jsonl", "homes", "pages")),
        )
    },
    **{
        kind: {name: (HERE / "sites" / kind / "feed.jsonl",)}
        for kind, name in (
            ("clinic", "willowbank.example"),
            ("music", "kestrelmusic.example"),
            ("council", "tessel.example"),
            ("docs", "docs.quillstore.example"),
            ("cars", "ashdowncars.example"),
            ("podcast", "saltlines.example"),
        )
    },
}
Verdict = Literal["right", "partly", "wrong"]


class Judged(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question and its right answer. Exactly what is given is judged.

    ``first``: one of these comes first. ``only``: all that is shown is among these, and something is shown.
    ``without``: none of these is shown. ``fact``: the answer holds each of these. ``yes``: the answer says yes, or no.
    ``nothing``: there is nothing, and the answer says so. ``never``: the answer holds none of these.
    ``held``: kept apart while the code was written. ``site``: the site asked, in a file about several.
    ``file``: the file that the question comes from.
    """

    kind: str
    question: str
    before: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    fact: tuple[str, ...] = ()
    yes: bool | None = None
    nothing: bool = False
    never: tuple[str, ...] = ()
    held: bool = False
    site: str = ""
    file: str = ""


class Answer(msgspec.Struct, frozen=True):
    text: str
    ids: tuple[str, ...]
    scores: tuple[float, ...]


def questions(site: str) -> list[Judged]:
    """The questions about a site: those in its own file, and those about it in the files about all sites."""
    own = (site,) if (HERE / f"{site}.jsonl").exists() else ()
    return [judged for name in (*own, *UNSEEN) for judged in read(name) if judged.site in ("", site)]


def read(name: str) -> list[Judged]:
    """The questions of one file."""
    lines = (HERE / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [msgspec.structs.replace(msgspec.json.decode(line, type=Judged), file=name) for line in lines]


class Remembering:
    """The embedder of the site agents, which reads no text twice: one for all sites and all tests."""

    def __init__(self) -> None:
        self._inner = MiniLM()
        self.name, self.size, self.floor = self._inner.name, self._inner.size, self._inner.floor
        self._known: dict[str, Vectors] = {}

    async def embed(self, texts: Sequence[str]) -> Vectors:
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if new:
            self._known |= dict(zip(new, await self._inner.embed(new), strict=True))
        return np.stack([self._known[text] for text in texts])


_EMBEDDER = Remembering()


_BY_WORDS: dict[str, LocalIndex] = {}  # read once by each process: tests only ask them


async def opened(site: str, *, vectors: bool = True) -> LocalIndex:
    """The index of a site."""
    if vectors:
        return await _ingested(site, _EMBEDDER)
    if site not in _BY_WORDS:
        _BY_WORDS[site] = await _ingested(site, None)
    return _BY_WORDS[site]


async def _ingested(site: str, embedder: Remembering | None) -> LocalIndex:
    index = LocalIndex(None, embedder)
    for name, files in SOURCES[site].items():
        for file in files:
            report = await ingest(index, str(file), site=name)
            assert not report.problems, report.problems
    await index.settled()
    return index


async def answered(index: LocalIndex, judged: Judged, limit: int | None = None) -> Answer:
    """What a site agent says, after the questions before it in the same conversation, with so many results."""
    agent = Site(index, now=lambda: NOW, questions=False)
    past: tuple[PastTurn, ...] = ()
    for text in (*judged.before, judged.question):
        message = Message.of(text_part(text), SiteAsk(limit=limit).part())
        events = [event async for event in agent(Turn(message, Conversation("c", past)))]
        assert isinstance(events[-1], Reply), events[-1]
        past = (*past, PastTurn("t", 0.0, "site", message, events[-1].message))
    reply = past[-1].answered
    found: list[dict[str, Any]] = [part.value for part in reply.parts if part.label == "result"]
    return Answer(
        reply.text, tuple(item["@id"].split("#")[0] for item in found), tuple(item["score"] for item in found)
    )


_YES = re.compile(r"^\W*yes\b|^\W*ja\b|^\W*sí\b|^\W*oui\b|^\W*はい", re.IGNORECASE)
_NO = re.compile(r"^\W*no\b|^\W*nein\b|^\W*non\b|^\W*いいえ", re.IGNORECASE)


def says_yes(text: str) -> bool:
    return _YES.match(text) is not None


def says_no(text: str) -> bool:
    return _NO.match(text) is not None


def verdict(judged: Judged, answer: Answer) -> Verdict:
    """How good an answer is. Partly: what was asked for is shown, but not stated, not first, or not alone."""
    if any(item.casefold() in answer.text.casefold() for item in judged.never):
        return "wrong"
    if judged.nothing:
        if not answer.ids or "nothing" in answer.text.casefold()[:80]:
            return "right"
        return "partly" if max(answer.scores) < 50 else "wrong"
    verdicts = [*_shown(judged, answer), *_said(judged, answer)]
    return max(verdicts, key=("right", "partly", "wrong").index, default="right")


def _shown(judged: Judged, answer: Answer) -> Iterable[Verdict]:
    if judged.first:
        place = next((n for n, item in enumerate(answer.ids) if item in judged.first), 99)
        yield "right" if place == 0 else "partly" if place < 3 else "wrong"
    shown = answer.ids[:SHOWN]
    if judged.only:
        fitting = sum(item in judged.only for item in shown)
        enough = fitting >= min(len(judged.only), SHOWN) / 2
        if shown and fitting == len(shown) and enough:
            yield "right"
        else:
            yield "partly" if fitting and fitting * 2 >= len(shown) else "wrong"
    if judged.without:
        yield "wrong" if any(item in judged.without for item in answer.ids) else "right"


def _said(judged: Judged, answer: Answer) -> Iterable[Verdict]:
    text = answer.text.casefold()
    first_lines = "\n".join(text.splitlines()[:2])
    if judged.fact:
        if all(item.casefold() in first_lines for item in judged.fact):
            yield "right"
        else:
            yield "partly"
    if judged.yes is not None:
        said = says_yes(answer.text), says_no(answer.text)
        if said == (judged.yes, not judged.yes):
            yield "right"
        else:
            yield "partly" if said == (False, False) else "wrong"


def table(verdicts: Iterable[tuple[Judged, Verdict]]) -> str:
    """How many of each kind were right, partly right and wrong."""
    counts: dict[str, Counter[str]] = {}
    for judged, found in verdicts:
        for kind in (judged.kind, "all"):
            counts.setdefault(kind, Counter())[found] += 1
    lines = [f"{'kind':14} {'n':>4} {'right':>7} {'partly':>7} {'wrong':>7}"]
    for kind, count in sorted(counts.items(), key=lambda item: item[0] == "all"):
        n = count.total()
        lines.append(f"{kind:14} {n:4} {count['right'] / n:7.1%} {count['partly'] / n:7.1%} {count['wrong'] / n:7.1%}")
    return "\n".join(lines)
