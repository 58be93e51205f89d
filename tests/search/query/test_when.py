"""Words for when: parts of months and of days, seasons, Easter, the next and the last of something."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from sabir.search import Fields, Item, from_text
from sabir.search.items.attributes import recalled
from sabir.search.query import dates
from sabir.search.query.conditions import During, OfType, Range, holds
from sabir.search.query.glossary import glossed, language_of
from sabir.search.query.relaxing import inner

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
KNOWN = Fields(
    types=frozenset({"Event", "MusicEvent", "JobPosting"}),
    words=frozenset({"name"}),
    numbers=frozenset({"price", "starthour"}),
    dates=frozenset({"date", "startdate", "enddate", "validthrough"}),
    places=frozenset(),
)


@pytest.mark.parametrize(
    ("words", "first", "last"),
    [
        ("first week of March", "2027-03-01", "2027-03-07"),
        ("the last week of february", "2027-02-22", "2027-02-28"),
        ("first weekend of December", "2026-12-05", "2026-12-06"),
        ("last weekend of May", "2027-05-29", "2027-05-30"),
        ("second half of March", "2027-03-16", "2027-03-31"),
        ("second Tuesday of January", "2027-01-12", "2027-01-12"),
        ("end of November", "2026-11-21", "2026-11-30"),
        ("late April 2027", "2027-04-21", "2027-04-30"),
        ("mid-May", "2027-05-11", "2027-05-20"),
        ("spring 2027", "2027-03-01", "2027-05-31"),
        ("summer", "2027-06-01", "2027-08-31"),
        ("Easter", "2027-03-28", "2027-03-28"),
        ("Easter Monday", "2027-03-29", "2027-03-29"),
        ("Good Friday", "2027-03-26", "2027-03-26"),
    ],
)
def test_parts_of_the_year(words: str, first: str, last: str) -> None:
    span = dates.span(words, NOW)
    assert span is not None
    days = [datetime.fromtimestamp(at, UTC).date().isoformat() for at in (span.start, span.end - 1)]
    assert days == [first, last]


@pytest.mark.parametrize(
    "year, day", [(2024, "03-31"), (2025, "04-20"), (2026, "04-05"), (2030, "04-21"), (2038, "04-25")]
)
def test_easter_is_on_the_day_that_calendars_show(year: int, day: str) -> None:
    span = dates.span("easter", datetime(year, 1, 2, tzinfo=UTC))
    assert span is not None
    assert datetime.fromtimestamp(span.start, UTC).date().isoformat() == f"{year}-{day}"


@pytest.mark.parametrize(
    ("question", "low", "high"),
    [("evening events in January", 17, 24), ("morning events", 5, 12), ("concerts on Friday evening", 17, 24)],
)
def test_a_part_of_the_day_is_the_clock_at_which_it_starts(question: str, low: float, high: float) -> None:
    assert Range("starthour", low, high, with_high=False) in from_text(question, KNOWN, NOW).conditions


@pytest.mark.parametrize(
    ("question", "order"),
    [("the next event", ("date", True)), ("what is the last event in May?", ("date", False)),
     ("the first concert in March", ("date", True)), ("First Aid at Work", None)],
)  # fmt: skip
def test_the_next_and_the_last_are_an_order(question: str, order: tuple[str, bool] | None) -> None:
    assert from_text(question, KNOWN, NOW).order == order


def test_a_deadline_is_not_the_day_on_which_a_job_was_posted() -> None:
    conditions = from_text("jobs I can apply for until the end of November", KNOWN, NOW).conditions
    assert [condition.field for condition in conditions if isinstance(condition, During)] == ["validthrough"]


@pytest.mark.parametrize(("question", "is_met"), [("on Monday", True), ("on Tuesday", False), ("on Mondays", True)])
def test_what_is_weekly_without_an_end_is_on_each_such_day(question: str, is_met: bool) -> None:
    schedule = {"@type": "Schedule", "byDay": "https://schema.org/Monday", "repeatFrequency": "P1W"}
    fields = {"@type": "Course", "hasCourseInstance": {"courseSchedule": schedule}}
    choir = recalled(Item("https://a.example/1", "a.example", "Choir", ("Course",), fields=fields))
    [condition] = from_text(f"lessons {question}", Fields.of([choir]), NOW).conditions
    assert holds(condition, choir) is is_met


def _course(day: str, first: str, last: str, hour: str) -> Item:
    weekly = {"@type": "Schedule", "byDay": f"https://schema.org/{day}", "startTime": hour, "repeatFrequency": "P1W"}
    instance = {"@type": "CourseInstance", "startDate": first, "endDate": last, "courseSchedule": weekly}
    return Item(id="c", site="s", types=("Course",), name="Course", fields={"hasCourseInstance": instance})


@pytest.mark.parametrize(
    ("question", "is_met"),
    [
        ("courses on a wednesday evening", True),
        ("wednesday classes", True),
        ("Wednesday evening courses", True),
        ("classes on Saturdays", False),
        ("courses on a Wednesday morning", False),
        ("courses not in the evening", False),
        ("courses in February", True),
        ("courses that start in February", False),
        ("courses that start in January", True),
    ],
)
def test_a_course_is_on_the_days_and_at_the_hours_of_its_schedule(question: str, is_met: bool) -> None:
    of = recalled(_course("Wednesday", "2027-01-13", "2027-03-31", "18:30"))
    known = Fields(
        types=frozenset({"Event", "Course"}),
        words=frozenset({"name", "byday", "ondays"}),
        numbers=frozenset({"starthour"}),
        dates=frozenset({"date", "startdate", "enddate"}),
        places=frozenset(),
    )
    conditions = from_text(question, known, NOW).conditions
    assert len(conditions) > 1
    assert all(holds(condition, of) for condition in conditions) is is_met


TO_LET = Fields(dates=frozenset({"date", "availabilitystarts"}), types=frozenset({"Apartment", "Event"}))


@pytest.mark.parametrize(
    ("question", "last"),
    [
        ("which flat could I move into before the end of november", "2026-11-30"),
        ("flats available from january", "2027-01-31"),
        ("a house that is free by 1 December", "2026-12-01"),
        ("In welche Wohnung kann ich im Dezember einziehen?", "2026-12-31"),
        ("¿en qué piso puedo entrar a vivir en diciembre?", "2026-12-31"),
        ("dans quel appartement peut-on emménager en décembre ?", "2026-12-31"),
    ],
)
def test_what_is_to_be_had_earlier_is_to_be_had_then(question: str, last: str) -> None:
    conditions = from_text(glossed(question, language_of(question)), TO_LET, NOW).conditions
    [until] = [one for one in conditions if isinstance(one, During) and one.field == "availabilitystarts"]
    assert until.start is None and until.end is not None
    assert datetime.fromtimestamp(until.end - 1, UTC).date().isoformat() == last


@pytest.mark.parametrize(
    ("question", "first", "last"),
    [
        ("episodes since september", "2026-09-01", None),
        ("events before the end of november", None, "2026-11-30"),
        ("a show at christmas", "2026-12-18", "2027-01-01"),
        ("concerts over christmas", "2026-12-23", "2026-12-26"),
    ],
)
def test_the_words_before_a_date_say_where_it_begins_and_ends(
    question: str, first: str | None, last: str | None
) -> None:
    [when] = [one for one in inner(from_text(question, KNOWN, NOW).conditions) if isinstance(one, During)]
    days = [at and datetime.fromtimestamp(at, UTC).date().isoformat() for at in (when.start, when.end and when.end - 1)]
    assert days == [first, last]


@pytest.mark.parametrize(
    "question",
    ["anything you are putting on this month?", "what are you hosting in december?", "¿qué organizáis este mes?",
     "was veranstaltet ihr diesen Monat?", "qu'organisez-vous ce mois-ci ?"],
)  # fmt: skip
def test_what_a_house_puts_on_are_events(question: str) -> None:
    conditions = from_text(glossed(question, language_of(question)), KNOWN, NOW).conditions
    assert OfType(("Event",)) in conditions
