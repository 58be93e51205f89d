"""Hits as NLWeb result objects: schema.org fields, score, grounding and actions. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from sabir.search.engine.base import Hit
from sabir.search.items.attributes import Attributes, recalled
from sabir.search.items.item import JSON
from sabir.search.items.links import is_unsafe_link, without_unsafe_links
from sabir.search.items.types import lineage
from sabir.search.query.aspects import fitting
from sabir.search.query.words import content_words, sentences

from .extract import stands_alone

# Fields of an item that are in the result anyway, or that a list does not need.
_LEFT_OUT: Final = frozenset({"@type", "name", "url", "description", "potentialAction", "articleBody", "text"})
_READING: Final = frozenset(
    {"ReadAction", "ViewAction", "SearchAction", "WatchAction", "ListenAction", "DownloadAction"}
)
_CITED: Final = 300  # characters of a citation


def result(hit: Hit, question: str = "", matched: Mapping[str, str] | None = None) -> dict[str, JSON]:
    """One result object. Its own fields come first, so that Sabir's fields are never overwritten.

    ``matched`` are its facts about what was asked for, by field.
    """
    item = hit.item
    fields = {key: _shown(value) for key, value in item.fields.items() if key not in _LEFT_OUT}
    made: dict[str, JSON] = {
        **fields,
        "@type": item.types[0] if len(item.types) == 1 else list(item.types),
        "@id": item.id,
        "url": item.page,
        "name": item.name,
        "site": item.site,
        "score": round(hit.score, 1),
        "description": item.description or next(sentences(item.text), ""),
        "grounding": {"source_urls": [item.page], "citations": [_citation(hit, question)]},
    }
    made = {"url": "", "@id": "", **without_unsafe_links(made)}  # an index may be older than this rule of ingest
    if matched:
        made["matched"] = dict(matched)
    if acts := list(actions(item.fields)):
        made["actions"] = acts
    return made


def actions(fields: Mapping[str, JSON]) -> Iterator[dict[str, JSON]]:
    """What can be done with an item, from its ``potentialAction``."""
    given = fields.get("potentialAction")
    for action in given if isinstance(given, list) else [given]:
        if not isinstance(action, dict):
            continue
        kind = next((item for item in _listed(action.get("@type")) if isinstance(item, str)), "Action")
        for target in _listed(action.get("target")):
            point = target if isinstance(target, dict) else {"urlTemplate": target}
            endpoint = point.get("urlTemplate") or point.get("url") or point.get("@id")
            if not isinstance(endpoint, str) or is_unsafe_link(endpoint):
                continue
            method = str(point.get("httpMethod") or ("GET" if kind in _READING else "POST")).upper()
            yield {
                "@context": "http://schema.org/",
                "@type": kind,
                "name": str(action.get("name") or _snake(kind)),
                "description": str(action.get("description") or ""),
                "protocol": "HTTP",
                "method": method,
                "endpoint": endpoint,
                "params": _params(action, point, endpoint),
            }
            break  # one action, its first entry point


def reordered(hits: Sequence[Hit], order: tuple[str, bool], *, mixed: bool = False) -> tuple[Hit, ...]:
    """The good matches sorted by a field, followed by the rest unchanged. Items without the field come last.

    Only things of one kind are sorted, unless ``mixed`` ones are wanted: the price of a course on knives says nothing
    about knives.
    """
    field, ascending = order
    good = hits if mixed else comparable(hits, field)
    valued = [(value, hit) for hit in good if (value := _value(recalled(hit.item), field)) is not None]
    valued.sort(key=lambda pair: pair[0] if ascending else -pair[0])
    first = [hit for _, hit in valued]
    known = {id(hit) for hit in first}
    return (*first, *(hit for hit in hits if id(hit) not in known))


def by_coming(hits: Sequence[Hit], now: float, since: float = 0.0) -> tuple[Hit, ...]:
    """Events: upcoming ones first, soonest first; then past ones, latest first.

    An event that started before ``since``, the requested time, comes after those that start then.
    """
    dated = [(when, hit) for hit in hits if (when := recalled(hit.item).dates.get("date")) is not None]
    ends = [max(when.start, when.end) for when, _ in dated]
    coming = [place for place, end in enumerate(ends) if end >= now]
    coming.sort(key=lambda place: (dated[place][0].start < since, dated[place][0].start))
    over = sorted((place for place, end in enumerate(ends) if end < now), key=lambda place: -dated[place][0].start)
    first = [dated[place][1] for place in (*coming, *over)]
    known = {id(hit) for hit in first}
    return (*first, *(hit for hit in hits if id(hit) not in known))


def comparable(hits: Sequence[Hit], field: str) -> list[Hit]:
    """The good matches of the same kind as the best one that states the field; empty if none does."""
    good = fitting(hits)
    first = next((hit for hit in good if _value(recalled(hit.item), field) is not None), None)
    kin = lineage(first.item.types) - {"Thing"} if first is not None else frozenset()
    return [hit for hit in good if first is not None and (not kin or not kin.isdisjoint(lineage(hit.item.types)))]


def has_value(hits: Sequence[Hit], field: str, *, mixed: bool = False) -> bool:
    """Whether one of the items to be sorted by a field states it."""
    return any(_value(recalled(hit.item), field) is not None for hit in (hits if mixed else comparable(hits, field)))


def _value(of: Attributes, field: str) -> float | None:
    if field in of.dates:
        return of.dates[field].start
    numbers = of.numbers.get(field)
    return min(numbers) if numbers else None


def _citation(hit: Hit, question: str) -> dict[str, JSON]:
    """The sentence of the item that is most relevant to the question, verbatim."""
    wanted = set(content_words(question))
    text = "\n".join(part for part in (hit.item.description, hit.passage) if part)
    whole = [sentence for sentence in sentences(text) if stands_alone(sentence)]
    best = max(
        whole or sentences(text),
        key=lambda sentence: len(wanted.intersection(content_words(sentence))),
        default=hit.item.name,
    )
    shown = best if len(best) <= _CITED else best[:_CITED].rsplit(" ", 1)[0]
    return {"text": shown, "url": hit.item.page}


def _params(action: Mapping[str, JSON], point: Mapping[str, JSON], endpoint: str) -> dict[str, JSON]:
    """The inputs of an action, from schema.org's annotations and from the template of its address."""
    params: dict[str, JSON] = {
        name: {"required": operator not in ("?", "&")}  # RFC 6570: an omitted query variable is left out of the address
        for operator, names in re.findall(r"\{([?&+#/;.]?)([\w,]+)\}", endpoint)
        for name in names.split(",")
        if name
    }
    for key, value in action.items():
        if not key.endswith("-input"):
            continue
        answer = value if isinstance(value, dict) else {}
        words = value if isinstance(value, str) else ""
        name = str(answer.get("valueName") or next(iter(re.findall(r"name=(\S+)", words)), key.removesuffix("-input")))
        params[name] = {"required": bool(answer.get("valueRequired")) or "required" in words.split()}
    if "encodingType" in point:
        params["encodingType"] = point["encodingType"]
    return params


def _shown(value: JSON) -> JSON:
    """A value in schema.org's form: a single type is a string and not a list."""
    if isinstance(value, list):
        return [_shown(item) for item in value]
    if not isinstance(value, dict):
        return value
    shown = {key: _shown(item) for key, item in value.items()}
    if isinstance(kinds := shown.get("@type"), list) and len(kinds) == 1:
        shown["@type"] = kinds[0]
    return shown


def _listed(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.removesuffix("Action") or name).lower()
