"""Calendars (iCalendar, RFC 5545) as events. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from itertools import islice
from typing import Any, Final

from sabir.errors import MissingExtra
from sabir.search.items.item import JSON, Item, Problem
from sabir.search.items.schema_org import items

from .anchors import anchored
from .numbering import numbered

try:
    from dateutil.rrule import rrulestr
    from icalendar import Calendar, Component
except ImportError as missing:
    raise MissingExtra("reading calendars", "search") from missing

MAX_REPEATS: Final = 60  # dates of one recurring event
_MAX_PAST: Final = 20_000  # earlier dates of one recurring event
_BY_DAYS: Final = frozenset({"DAILY", "WEEKLY", "MONTHLY", "YEARLY"})
_COST: Final = re.compile(
    r"(?P<before>[$€£]|[A-Z]{3}\s)?\s?(?P<amount>\d{1,9}(?:[.,]\d{1,2})?)\s?(?P<after>[$€£]|[A-Z]{3}\b)?"
)
_CURRENCY: Final = {"$": "USD", "€": "EUR", "£": "GBP"}
_STATUS: Final = {"CANCELLED": "EventCancelled", "TENTATIVE": "EventPostponed", "CONFIRMED": "EventScheduled"}
_FREE: Final = frozenset({"free", "gratis", "kostenlos", "gratuit", "frei", "0", "無料"})


def calendar_items(
    text: str, *, site: str, url: str, source: str, place: str, today: date | None = None
) -> Iterator[Item | Problem]:
    """The events of a calendar. An event with more than ``MAX_REPEATS`` dates gets those from this month on."""
    try:
        calendars = Calendar.from_ical(text, multiple=True)
    except ValueError as exc:
        yield Problem(place, f"not a calendar: {exc}")
        return
    month = (today or datetime.now(UTC).date()).replace(day=1)
    events = [event for calendar in calendars for event in calendar.walk("VEVENT")]
    changed = _changed(events)

    def found() -> Iterator[Item | Problem]:
        for number, event in enumerate(events, 1):
            at = f"{place}#event[{number}]"
            start = _moment(event, "DTSTART")
            if start is None:
                stated = "DTSTART" in event
                yield Problem(at, "an event whose start is not a date" if stated else "an event without a start")
                continue
            days = _schedule(event, start, changed.get(str(event.get("UID")), set()), month)
            yield from items(_event(event, start, days, url), site=site, base=url, source=source, place=at)

    yield from numbered(found())
    if not events:
        yield Problem(place, "a calendar without events")


def _changed(events: Iterable[Component]) -> dict[str, set[date]]:
    """The dates of recurring events that the calendar lists on their own, because they were moved or cancelled."""
    found: dict[str, set[date]] = {}
    for event in events:
        moment = _moment(event, "RECURRENCE-ID")
        if moment is not None:
            found.setdefault(str(event.get("UID")), set()).add(_day(moment))
    return found


def _moment(event: Component, name: str) -> date | None:
    """The date or time that a property states; None if it states none."""
    value = _content(event.get(name), "dt")
    return value if isinstance(value, date) else None


def _content(stated: Any, attribute: str) -> Any:
    """What a property contains; None if it has no such content, or cannot be read."""
    try:
        return getattr(stated, attribute, None)
    except ValueError:  # a property of another form than its name requires
        return None


def _day(moment: date) -> date:
    return moment.date() if isinstance(moment, datetime) else moment


def _event(event: Component, start: date, days: list[str], calendar: str) -> dict[str, JSON]:
    end = _end(event, start)
    address = str(event.get("URL") or "")
    name = str(event.get("SUMMARY") or "")
    identity = address or str(event.get("UID") or f"{name} {start}")
    moved = _moment(event, "RECURRENCE-ID")
    node = {
        "@type": "Event",
        "@id": f"{identity}#{_day(moved).isoformat()}" if moved is not None else identity,
        "url": address or anchored(str(event.get("UID") or ""), calendar),
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
        "eventSchedule": days,
    }
    return {key: value for key, value in node.items() if value not in ("", None, [], {})}


def _end(event: Component, start: date) -> date | None:
    """The end; an all-day event states the day after its last one."""
    end = _moment(event, "DTEND")
    if end is None:
        lasts = _content(event.get("DURATION"), "dt")
        end = start + lasts if isinstance(lasts, timedelta) else None
    if end is None or isinstance(start, datetime):
        return end
    return max(start, _day(end) - timedelta(days=1))


def _location(event: Component) -> JSON:
    words = str(event.get("LOCATION") or "")
    if not words:
        return None
    name, *rest = [piece.strip() for piece in words.split(",")]
    place: dict[str, JSON] = {"@type": "Place", "name": name}
    if rest:
        place["address"] = _address(rest)
    geo = event.get("GEO")
    latitude, longitude = _content(geo, "latitude"), _content(geo, "longitude")
    if latitude is not None and longitude is not None:
        place["geo"] = {"@type": "GeoCoordinates", "latitude": latitude, "longitude": longitude}
    return place


def _address(pieces: list[str]) -> dict[str, JSON]:
    """Street, town and country: a piece with a house number is the street, and the piece after it is the town."""
    streets = [at for at, piece in enumerate(pieces) if _is_street(piece)]
    known = streets[-1] + 1 if streets else max(0, len(pieces) - 2)
    street, rest = pieces[:known], pieces[known:]
    address: dict[str, JSON] = {"@type": "PostalAddress"}
    if street:
        address["streetAddress"] = ", ".join(street)
    if rest:
        address["addressLocality"] = rest[0]
    if len(rest) > 1:
        address["addressCountry"] = rest[-1]
    return address


def _is_street(piece: str) -> bool:
    """Whether there is a house number: at the end, as in German, or at the start, as in English."""
    first, *more = piece.split() or [""]
    if not more:
        return False
    number = _NUMBER.fullmatch(first)
    if number:  # "8001 Zürich" is a town
        return len(number[1]) < 4 or len(more) > 1
    return not first.isdigit() and bool(_NUMBER.fullmatch(more[-1]))


_NUMBER: Final = re.compile(r"(\d{1,4})[a-zA-Z]?")


def _name(organizer: Any) -> str:
    if organizer is None:
        return ""
    params = _content(organizer, "params")
    return str(organizer) if params is None else str(params.get("CN", ""))


def _categories(event: Component) -> list[str]:
    found = event.get("CATEGORIES")
    lists = found if isinstance(found, list) else [found] if found is not None else []
    return [str(word) for item in lists for word in _content(item, "cats") or ()]


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


def _schedule(event: Component, start: date, changed: set[date], month: date) -> list[str]:
    """The dates of a recurring event, as ISO dates, without those on which it does not take place."""
    extra = _dates(event, "RDATE", start)
    days = [*_repeats(event, start, month), *extra]
    if not days:
        return []
    left_out = _dates(event, "EXDATE", start) | changed
    return sorted({day.isoformat() for day in days if day not in left_out})


def _repeats(event: Component, start: date, month: date) -> list[date]:
    """The dates by the rule; of a rule with many, those from this month on."""
    rule = event.get("RRULE")
    frequency = rule.get("FREQ", ()) if isinstance(rule, dict) else ()
    if not frequency or not _BY_DAYS.issuperset(map(str, frequency)):
        return []
    first = datetime.combine(_day(start), start.time() if isinstance(start, datetime) else time())
    try:
        dates = rrulestr(rule.to_ical().decode(), dtstart=first, ignoretz=True)
    except ValueError:
        return []
    found = [item.date() for item in islice(dates, MAX_REPEATS + 1)]
    if len(found) <= MAX_REPEATS or found[0] >= month:
        return found[:MAX_REPEATS]
    coming = (item.date() for item in islice(dates, _MAX_PAST) if item.date() >= month)
    return list(islice(coming, MAX_REPEATS))


def _dates(event: Component, name: str, start: date) -> set[date]:
    """The days that a property lists, in the time zone of the event."""
    given = event.get(name)
    zone = start.tzinfo if isinstance(start, datetime) else None
    rows = given if isinstance(given, list) else [given]
    moments = (entry.dt for row in rows for entry in _content(row, "dts") or ())
    found: set[date] = set()
    for moment in moments:
        first = moment[0] if isinstance(moment, tuple) else moment
        if isinstance(first, datetime) and first.tzinfo and zone:
            first = first.astimezone(zone)
        if isinstance(first, date):
            found.add(_day(first))
    return found
