"""Calendars (iCalendar, RFC 5545) as events. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from typing import Any, Final

from sabir.errors import MissingExtra
from sabir.search.items.item import JSON, Item, Problem
from sabir.search.items.schema_org import items

try:
    from dateutil.rrule import rrulestr
    from icalendar import Calendar, Component
except ImportError as missing:
    raise MissingExtra("reading calendars", "search") from missing

MAX_REPEATS: Final = 60  # dates of one recurring event
_COST: Final = re.compile(
    r"(?P<before>[$€£]|[A-Z]{3}\s)?\s?(?P<amount>\d{1,9}(?:[.,]\d{1,2})?)\s?(?P<after>[$€£]|[A-Z]{3}\b)?"
)
_CURRENCY: Final = {"$": "USD", "€": "EUR", "£": "GBP"}
_STATUS: Final = {"CANCELLED": "EventCancelled", "TENTATIVE": "EventPostponed", "CONFIRMED": "EventScheduled"}
_FREE: Final = frozenset({"free", "gratis", "kostenlos", "gratuit", "frei", "0", "無料"})


def calendar_items(text: str, *, site: str, url: str, source: str, place: str) -> Iterator[Item | Problem]:
    """The events of a calendar."""
    try:
        calendar = Calendar.from_ical(text)
    except ValueError as exc:
        yield Problem(place, f"not a calendar: {exc}")
        return
    number = 0
    for number, event in enumerate(calendar.walk("VEVENT"), 1):
        at = f"{place}#event[{number}]"
        if "DTSTART" not in event:
            yield Problem(at, "an event without a start")
            continue
        yield from items(_event(event), site=site, base=url, source=source, place=at)
    if not number:
        yield Problem(place, "a calendar without events")


def _event(event: Component) -> dict[str, JSON]:
    start = event.decoded("DTSTART")
    end = event.decoded("DTEND") if "DTEND" in event else None
    if not isinstance(start, datetime) and isinstance(end, date):
        end -= timedelta(days=1)  # an all-day event ends the day after
    address = str(event.get("URL") or "")
    name = str(event.get("SUMMARY") or "")
    node = {
        "@type": "Event",
        "@id": address or str(event.get("UID") or f"{name} {start}"),
        "url": address,
        "name": name,
        "description": str(event.get("DESCRIPTION") or ""),
        "startDate": start.isoformat(),
        "endDate": end.isoformat() if end is not None else "",
        "location": _location(event),
        "organizer": _name(event.get("ORGANIZER")),
        "keywords": _categories(event),
        "eventStatus": f"https://schema.org/{_STATUS[status]}"
        if (status := str(event.get("STATUS", ""))) in _STATUS
        else "",
        "offers": _offer(str(event.get("X-COST") or "")),
        "eventSchedule": _schedule(event, start),
    }
    return {key: value for key, value in node.items() if value not in ("", None, [], {})}


def _location(event: Component) -> JSON:
    words = str(event.get("LOCATION") or "")
    if not words:
        return None
    name, *rest = [piece.strip() for piece in words.split(",")]
    place: dict[str, JSON] = {"@type": "Place", "name": name}
    if rest:
        towns = rest[:-1] or rest
        address = {"streetAddress": ", ".join(towns[:-1]), "addressLocality": towns[-1]}
        if len(rest) > 1:
            address["addressCountry"] = rest[-1]
        place["address"] = {"@type": "PostalAddress", **{key: value for key, value in address.items() if value}}
    geo = event.get("GEO")
    if geo is not None:
        place["geo"] = {"@type": "GeoCoordinates", "latitude": geo.latitude, "longitude": geo.longitude}
    return place


def _name(organizer: Any) -> str:
    if organizer is None:
        return ""
    return str(organizer.params.get("CN", "")) if hasattr(organizer, "params") else str(organizer)


def _categories(event: Component) -> list[str]:
    found = event.get("CATEGORIES")
    lists = found if isinstance(found, list) else [found] if found is not None else []
    return [str(word) for item in lists for word in item.cats]


def _offer(cost: str) -> JSON:
    if not cost:
        return None
    if cost.strip().casefold() in _FREE:
        return {"@type": "Offer", "price": 0}
    match = _COST.search(cost)
    if not match:
        return None
    sign = (match["before"] or match["after"] or "").strip()
    offer = {"@type": "Offer", "price": match["amount"].replace(",", ".")}
    return {**offer, "priceCurrency": _CURRENCY.get(sign, sign)} if sign else offer


def _schedule(event: Component, start: date) -> list[str]:
    """The dates of a recurring event, as ISO dates."""
    rule = event.get("RRULE")
    if rule is None:
        return []
    first = start if isinstance(start, datetime) else datetime(start.year, start.month, start.day)
    first = first.replace(tzinfo=UTC)
    try:
        dates = rrulestr(rule.to_ical().decode(), dtstart=first)
    except ValueError:
        return []
    return [item.date().isoformat() for item in islice(dates, MAX_REPEATS)]
