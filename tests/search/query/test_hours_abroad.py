"""Opening hours as sites write them in other languages than schema.org's."""

from __future__ import annotations

import time
from typing import Any

import pytest

from sabir.search.query.hours import in_words
from sabir.search.query.hours_abroad import in_codes

TUE_TO_SUN = "Tue–Sun 10:00–17:00, closed Mon"
LINES = {
    "Di-So 10:00-17:00": TUE_TO_SUN,
    "Di–So 10–17 Uhr": TUE_TO_SUN,
    "Dienstag bis Sonntag 10 bis 17 Uhr": TUE_TO_SUN,
    "Dienstags bis sonntags von 10 bis 17 Uhr": TUE_TO_SUN,
    "martes a domingo 10:00-17:00": TUE_TO_SUN,
    "de martes a domingo de 10:00 a 17:00": TUE_TO_SUN,
    "Mar-Dim 10h-17h": TUE_TO_SUN,
    "du mardi au dimanche de 10h à 17h": TUE_TO_SUN,
    "火〜日 10:00-17:00": TUE_TO_SUN,
    "火曜日から日曜日 10:00〜17:00": TUE_TO_SUN,
    "du mardi au dimanche de 9h30 à 17h": "Tue–Sun 09:30–17:00, closed Mon",
    "Mo, Mi und Fr 9.30-12.00 Uhr": "Mon, Wed, Fri 09:30–12:00",
    "lunes y jueves de 9:00 a 14:00": "Mon, Thu 09:00–14:00",
    "月・水・金 9:00-12:00": "Mon, Wed, Fri 09:00–12:00",
    "Tu-Su 10:00-17:00": TUE_TO_SUN,
    "Sa-Su 07:30-17:00": "Sat, Sun 07:30–17:00",
    "Monday 9:00-12:00": "Mon 09:00–12:00",
    "10:00-17:00": "every day 10:00–17:00",
    "täglich 10:00-17:00": "every day 10:00–17:00",
    "Mo-Su by appointment": "every day by appointment",
}


@pytest.mark.parametrize("line", LINES)
def test_a_line_of_opening_hours(line: str) -> None:
    assert in_words({"openingHours": [line]}) == LINES[line]


@pytest.mark.parametrize(("language", "day"), [("de-AT", "Tue"), ("fr", "Sun")])
def test_two_letters_are_the_day_of_the_language_of_the_item(language: str, day: str) -> None:
    assert in_words({"openingHours": "Di 10:00-12:00", "inLanguage": language}) == f"{day} 10:00–12:00"


TUE_LATE = "Mon, Wed–Fri 09:00–18:00, Tue 09:00–18:00, 19:00–20:00, closed Sat and Sun"
ITEMS: list[tuple[list[str], Any, str]] = [
    (["Di-So 10:00-17:00"], ["de", "en"], TUE_TO_SUN),
    (["Di-So 10:00-17:00"], "German", TUE_TO_SUN),
    (["Di 10:00-12:00"], [{"@type": "Language", "name": "fr"}], "Sun 10:00–12:00"),
    (["Lu-Ve 9h-18h", "Di 10h-12h"], "", "Mon–Fri 09:00–18:00, Sun 10:00–12:00, closed Sat"),
    (["Di 10h-12h", "Lu-Ve 9h-18h"], "", "Mon–Fri 09:00–18:00, Sun 10:00–12:00, closed Sat"),
    (["Lu-Sa 09:00-18:00", "Do 10:00-14:00"], "", "Mon–Sat 09:00–18:00, Sun 10:00–14:00"),
    (["Mo-Fr 09:00-18:00", "Di 19:00-20:00"], "", TUE_LATE),
    (["Lu-Ve 9h-18h", "Dienstag 19-20 Uhr"], "", TUE_LATE),
    (["Lu-Ve 9h-18h", "Di 10h-12h"], "de", "Mon–Fri 09:00–18:00, Sun 10:00–12:00, closed Sat"),
    # It is not known which days these are.
    (["Di 10:00-12:00"], "", ""),
    (["Sa 10:00-12:00", "Do 10:00-12:00"], "", ""),
    (["Ma-Do 10:00-17:00"], "nl", ""),
    (["Wo-Zo 10:00-17:00"], "nl-BE", ""),
    (["Lun-Sab 9:00-18:00"], "it", ""),
    (["Di-So 10:00-17:00 außer feiertags"], "", ""),
    # What has the codes of schema.org is known in every language.
    (["Mo-Fr 09:00-17:00"], "nl", "Mon–Fri 09:00–17:00, closed Sat and Sun"),
    (["09:00-17:00"], "nl", "every day 09:00–17:00"),
    (["Mo-Fr 09:00-17:00 op afspraak"], "nl", "Mon–Fri 09:00–17:00, closed Sat and Sun"),
    (["Mo-Fr 09:00-17:00", "So geschlossen"], "", "Mon–Fri 09:00–17:00, closed Sat and Sun"),
    (["Mar 1 - Oct 31: Mo-Fr 10:00-17:00"], "", "Mon–Fri 10:00–17:00, closed Sat and Sun"),
]


@pytest.mark.parametrize(("lines", "language", "expected"), ITEMS)
def test_the_lines_of_an_item_are_in_one_language(lines: list[str], language: Any, expected: str) -> None:
    assert in_words({"openingHours": lines, "inLanguage": language}) == expected


@pytest.mark.parametrize(
    ("days", "language", "expected"),
    [
        (["Lu", "Di"], "", "Sun, Mon 10:00–17:00"),
        (["Do"], "", ""),
        (["Monday", "lunedì"], "it", ""),
        (["https://schema.org/Monday", "PublicHolidays"], "it", "Mon 10:00–17:00"),
    ],
)
def test_the_named_days_of_an_item_are_in_one_language(days: list[str], language: str, expected: str) -> None:
    row = {"dayOfWeek": days, "opens": "10:00", "closes": "17:00"}
    assert in_words({"openingHoursSpecification": row, "inLanguage": language}) == expected


def test_a_named_day_of_a_specification() -> None:
    rows = [{"dayOfWeek": day, "opens": "10:00", "closes": "17:00"} for day in ("Dienstag", "mercredi", "jueves")]
    assert in_words({"openingHoursSpecification": rows}) == "Tue–Thu 10:00–17:00"


@pytest.mark.parametrize("line", ["Di " * 60, "1" * 190, "火" * 190, "10-" * 60, "h " * 90, "9999" * 5_000])
def test_an_odd_line_takes_no_time(line: str) -> None:
    started = time.thread_time()
    in_codes((line,))
    in_codes((line,), are_names=True)
    assert time.thread_time() - started < 0.05
