"""Calendars as programs export them: moved and cancelled dates, rules without end, properties that are not valid."""

from __future__ import annotations

from datetime import date

import pytest

from sabir.search import Item, Problem
from sabir.search.ingest.calendars import MAX_REPEATS, calendar_items

TODAY = date(2026, 11, 19)
TRAINING = (
    "UID:training",
    "DTSTART;TZID=Europe/Berlin:20261103T180000",
    "RRULE:FREQ=WEEKLY;BYDAY=TU;UNTIL=20261231T000000Z",
    "SUMMARY:Training",
)


def events(*rows: tuple[str, ...]) -> list[Item]:
    found = read(*rows)
    assert all(isinstance(item, Item) for item in found), found
    return [item for item in found if isinstance(item, Item)]


def read(*rows: tuple[str, ...]) -> list[Item | Problem]:
    lines = ["BEGIN:VCALENDAR", *(line for row in rows for line in ("BEGIN:VEVENT", *row, "END:VEVENT"))]
    text = "\r\n".join((*lines, "END:VCALENDAR", ""))
    return list(calendar_items(text, site="s", url="", source="here", place="club.ics", today=TODAY))


@pytest.mark.parametrize(
    "left_out",
    [
        "EXDATE;TZID=Europe/Berlin:20261222T180000",
        "EXDATE:20261222T170000Z",
        "EXDATE;VALUE=DATE:20261222",
        "EXDATE:20261208T170000Z,20261222T170000Z",
    ],
)
def test_a_recurring_event_is_not_on_the_dates_that_are_left_out(left_out: str) -> None:
    [event] = events((*TRAINING, left_out))
    days = event.fields["eventSchedule"]
    assert isinstance(days, list) and "2026-12-22" not in days and "2026-12-15" in days


def test_a_date_that_was_moved_is_an_event_of_its_own_and_not_twice() -> None:
    moved = (
        "UID:training",
        "RECURRENCE-ID;TZID=Europe/Berlin:20261124T180000",
        "DTSTART;TZID=Europe/Berlin:20261126T190000",
        "SUMMARY:Training, on Thursday",
    )
    event, other = events(TRAINING, moved)
    days = event.fields["eventSchedule"]
    assert isinstance(days, list) and "2026-11-24" not in days and "2026-11-17" in days
    assert other.id != event.id and other.fields["startDate"] == "2026-11-26T19:00:00+01:00"


def test_further_dates_of_an_event_are_among_its_dates() -> None:
    [event] = events(("UID:a", "DTSTART:20261103T180000Z", "RDATE:20261110T180000Z,20261201T180000Z", "SUMMARY:Walk"))
    assert event.fields["eventSchedule"] == ["2026-11-10", "2026-12-01"]


@pytest.mark.parametrize(
    ("start", "rule", "first", "count"),
    [
        ("20190101T180000Z", "FREQ=WEEKLY", "2026-11-03", MAX_REPEATS),
        ("20261201T180000Z", "FREQ=WEEKLY", "2026-12-01", MAX_REPEATS),
        ("20260901T180000Z", "FREQ=WEEKLY;COUNT=10", "2026-09-01", 10),
    ],
)
def test_a_recurring_event_without_end_has_the_dates_that_are_to_come(
    start: str, rule: str, first: str, count: int
) -> None:
    [event] = events(("UID:a", f"DTSTART:{start}", f"RRULE:{rule}", "SUMMARY:Walk"))
    days = event.fields["eventSchedule"]
    assert isinstance(days, list) and (days[0], len(days)) == (first, count)


@pytest.mark.parametrize(("start", "until"), [(";VALUE=DATE:20261103", "20261124"), (":20261103T180000Z", "20261124")])
def test_a_rule_may_end_on_a_day_whatever_the_start_is(start: str, until: str) -> None:
    [event] = events(("UID:a", f"DTSTART{start}", f"RRULE:FREQ=WEEKLY;UNTIL={until}", "SUMMARY:Walk"))
    days = event.fields["eventSchedule"]
    assert isinstance(days, list) and days[:3] == ["2026-11-03", "2026-11-10", "2026-11-17"]


@pytest.mark.parametrize(
    ("start", "lasts", "end"),
    [
        (":20261205T190000Z", "DURATION:PT1H30M", "2026-12-05T20:30:00+00:00"),
        (";VALUE=DATE:20270501", "DURATION:P2D", "2027-05-02"),
        (";VALUE=DATE:20270501", "DTEND;VALUE=DATE:20270501", "2027-05-01"),
    ],
)
def test_the_end_of_an_event_is_stated_or_follows_from_its_duration(start: str, lasts: str, end: str) -> None:
    [event] = events(("UID:a", f"DTSTART{start}", lasts, "SUMMARY:Party"))
    assert event.fields["endDate"] == end


@pytest.mark.parametrize(
    ("stated", "address"),
    [
        ("Boathouse\\, Hafenstr. 3\\, Bremen", {"streetAddress": "Hafenstr. 3", "addressLocality": "Bremen"}),
        ("Barn\\, 12 Mill Lane\\, York\\, UK",
         {"streetAddress": "12 Mill Lane", "addressLocality": "York", "addressCountry": "UK"}),
        ("Town hall\\, Bremen\\, Germany", {"addressLocality": "Bremen", "addressCountry": "Germany"}),
        ("Town hall\\, Bremen", {"addressLocality": "Bremen"}),
        ("Halle\\, 8001 Zürich\\, CH", {"addressLocality": "8001 Zürich", "addressCountry": "CH"}),
        ("Rathaus\\, Am Markt 21\\, 28195 Bremen", {"streetAddress": "Am Markt 21", "addressLocality": "28195 Bremen"}),
    ],
)  # fmt: skip
def test_a_place_has_its_street_and_its_town(stated: str, address: dict[str, str]) -> None:
    [event] = events(("UID:a", "DTSTART:20261205T190000Z", f"LOCATION:{stated}", "SUMMARY:Party"))
    place = event.fields["location"]
    assert isinstance(place, dict) and place["address"] == {"@type": ["PostalAddress"], **address}


def test_events_that_share_an_address_are_all_kept() -> None:
    rows = [
        (f"UID:{day}", f"DTSTART:202612{day}T190000Z", "SUMMARY:Party", "URL:https://c.example/") for day in (11, 12)
    ]
    assert len({event.id for event in events(*rows)}) == 2


@pytest.mark.parametrize("content", ["garbage", "", "9" * 30])
@pytest.mark.parametrize(
    "name",
    ["DTSTART", "DTEND", "DURATION", "RRULE", "RDATE", "EXDATE", "RECURRENCE-ID", "GEO", "ORGANIZER", "CATEGORIES",
     "STATUS", "URL", "UID", "LOCATION", "X-COST"],
)  # fmt: skip
def test_an_invalid_property_does_not_stop_the_calendar(name: str, content: str) -> None:
    others = [line for line in TRAINING if not line.startswith(name)]
    *_, last = read((*others, f"{name}:{content}"), ("UID:b", "DTSTART:20261205T190000Z", "SUMMARY:Party"))
    assert isinstance(last, Item) and last.name == "Party"


def test_an_event_without_a_readable_start_is_reported() -> None:
    [problem] = read(("UID:a", "DTSTART:garbage", "SUMMARY:Party"))
    assert isinstance(problem, Problem) and problem.reason == "an event whose start is not a date"
    assert problem.place == "club.ics#event[1]"


def test_several_calendars_in_one_file_are_all_read() -> None:
    event = "BEGIN:VEVENT\r\nUID:{0}\r\nDTSTART:20261205T190000Z\r\nSUMMARY:{0}\r\nEND:VEVENT"
    one = f"BEGIN:VCALENDAR\r\n{event}\r\nEND:VCALENDAR\r\n"
    found = calendar_items(one.format("a") + one.format("b"), site="s", url="", source="here", place="two.ics")
    assert [item.name for item in found if isinstance(item, Item)] == ["a", "b"]
