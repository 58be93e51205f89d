"""Facts: what an item states about the things it was filtered or sorted by, for people. Pure.

A person who asks for tents under $400, cheapest first, wants to see the price of each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

from sabir.search.items.attributes import OPEN_AT, OPEN_ON, Attributes, recalled
from sabir.search.items.item import Item
from sabir.search.items.types import is_a
from sabir.search.query import places
from sabir.search.query.conditions import Condition, During, Has, Is, Near, Not, Range
from sabir.search.query.dates import MONTHS, WEEKDAYS
from sabir.search.query.hours import in_words, stated
from sabir.search.query.relaxing import inner
from sabir.search.query.structured import Parsed
from sabir.search.query.vocabulary import MEASURES, NUTRIENTS

_SIGNS: Final = {"usd": "$", "eur": "€", "gbp": "£", "jpy": "¥", "inr": "₹"}
_NUTRIENT: Final = {field: name for name, field in reversed(list(NUTRIENTS.items()))}
# Fields whose value is shown if they were asked for; others are obvious, or not news.
_SHOWN: Final = {"color": "color", "material": "material", "brand": "brand", "size": "size", "genre": "genre"}


def facts(item: Item, parsed: Parsed) -> dict[str, str]:
    """By field, what the item states about what was asked for; for an event always its date."""
    of = recalled(item)
    found: dict[str, str] = {}
    if any(is_a(kind, "Event") for kind in item.types) and (when := _date(of)):
        found["date"] = when
    asked = inner([item for item in parsed.conditions if not _leaves_out(item)])
    for name, text in (entry for condition in asked for entry in _stated(condition, of)):
        found.setdefault(name, text)
    for field in (*((parsed.order[0],) if parsed.order else ()), *parsed.about):
        if field == "date" and "startdate" not in of.dates and parsed.order is None:
            continue  # a publication date does not say when something happens
        if text := value_of(field, of):
            found.setdefault(field, text)
    at_a_time = any(isinstance(one_of_them, Is) and one_of_them.field == OPEN_AT for one_of_them in asked)
    if ("openinghours" in parsed.about or at_a_time) and (hours := in_words(item.fields)):
        found["openinghours"] = f"open {hours}"
    days = [
        value
        for one_of_them in asked
        if isinstance(one_of_them, Is) and one_of_them.field == OPEN_ON
        for value in one_of_them.values
    ]
    if days and (open_then := stated(item.fields, days[0])):
        found["openinghours"] = f"open {open_then}"
    return found


def _leaves_out(condition: Condition) -> bool:
    """Whether it names things that are not wanted, so that there is nothing to show."""
    return isinstance(condition, Not) and any(isinstance(one, Has | Is) for one in inner((condition,)))


def _stated(condition: Condition, of: Attributes) -> Iterator[tuple[str, str]]:
    match condition:
        case Range(field) | During(field):
            if text := value_of(field, of):
                yield field, text
        case Near(lat, lon, _, name) if of.point is not None:
            far = places.kilometres((lat, lon), of.point)
            yield "distance", f"{far:.{0 if far >= 1 else 1}f} km {f'from {name}' if name else 'away'}"
        case Is(field) if field.lower() in _SHOWN:
            if values := of.labels.get(_SHOWN[field.lower()]):
                yield field.lower(), ", ".join(values[:2])
        case _:
            return


def value_of(field: str, of: Attributes) -> str:
    """What an item states in a field, for people; empty if it states nothing."""
    if field in _NUTRIENT and (numbers := of.numbers.get(field)):
        return f"{numbers[0]:g} g {_NUTRIENT[field]}"
    written = _WRITTEN.get(field)
    return written(of) if written is not None else ""


def _price(of: Attributes) -> str:
    """The lowest, as the filter uses it, and the highest if there are several."""
    for name, numbers in of.numbers.items():
        if not name.startswith("price:"):
            continue
        if max(numbers) == 0:
            return "free"
        low, high = (money(item, name[6:]) if item else "free" for item in (min(numbers), max(numbers)))
        return low if low == high else f"{low} to {high}"
    return ""


def money(amount: float, currency: str) -> str:
    """An amount with its currency sign or code; ``?`` is an unstated currency."""
    code = currency.casefold()
    sign, suffix = _SIGNS.get(code, ""), "" if code in (*_SIGNS, "?") else f" {code.upper()}"
    return f"{sign}{_amount(amount)}{suffix}"


def _amount(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"


def _date(of: Attributes) -> str:
    field = next((item for item in ("startdate", "dateposted", "datepublished", "date") if item in of.dates), None)
    if field is None:
        return ""
    first = datetime.fromtimestamp(of.dates[field].start, UTC)
    said = f"{first:%A}, {first.day} {first:%B %Y}" if field == "startdate" else f"{first.day} {first:%B %Y}"
    ends = of.dates.get("enddate") if field == "startdate" else None
    last = datetime.fromtimestamp(ends.start, UTC) if ends is not None else first
    return said if (last - first).days < 1 else f"{said} to {last.day} {last:%B %Y}"


_DATED: Final = re.compile(
    rf"(?:(?P<weekday>{'|'.join(WEEKDAYS)}),\s)?(?P<day>\d{{1,2}})\s(?P<month>{'|'.join(MONTHS)})\s(?P<year>\d{{4}})",
    re.IGNORECASE,
)
# Names of the months and of the weekdays from Monday, and the format of a date, by language.
_NAMED: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...], str, str]]] = {
    "de": (("Januar", "Februar", "März", "April", "Mai", "Juni", "Juli", "August", "September", "Oktober", "November",
            "Dezember"), ("Montag", "Dienstag", "Mittwoch", "Donnerstag", "Freitag", "Samstag", "Sonntag"),
           "{weekday}, {day}. {month} {year}", "bis"),
    "es": (("enero", "febrero", "marzo", "abril", "mayo", "junio", "julio", "agosto", "septiembre", "octubre",
            "noviembre", "diciembre"), ("lunes", "martes", "miércoles", "jueves", "viernes", "sábado", "domingo"),
           "{weekday}, {day} de {month} de {year}", "al"),
    "fr": (("janvier", "février", "mars", "avril", "mai", "juin", "juillet", "août", "septembre", "octobre", "novembre",
            "décembre"), ("lundi", "mardi", "mercredi", "jeudi", "vendredi", "samedi", "dimanche"),
           "{weekday}, {day} {month} {year}", "au"),
    "ja": (tuple(f"{number}月" for number in range(1, 13)), tuple("月火水木金土日"),
           "{year}年{month}{day}日({weekday})", "から"),
}  # fmt: skip


def in_language(text: str, language: str) -> str:
    """The statement, with dates as they are written in this language."""
    if language not in _NAMED or not _DATED.search(text):
        return text
    months, weekdays, form, to = _NAMED[language]

    def written(match: re.Match[str]) -> str:
        weekday = weekdays[WEEKDAYS.index(match["weekday"].casefold())] if match["weekday"] else ""
        month = months[MONTHS.index(match["month"].casefold())]
        said = form.format(weekday=weekday, day=match["day"], month=month, year=match["year"])
        return said.replace("()", "").removeprefix(", ")

    return re.sub(r"(?<=\d)\sto\s|(?<=[)日])\sto\s", f" {to} ", _DATED.sub(written, text))


def _duration(field: str) -> Callable[[Attributes], str]:
    def written(of: Attributes) -> str:
        minutes = round((of.numbers.get(field) or (0.0,))[0])
        pieces = [f"{minutes // 60} h"] if minutes >= 60 else []
        return " ".join([*pieces, f"{minutes % 60} min"] if minutes % 60 or not pieces else pieces) if minutes else ""

    return written


def _counted(field: str, form: str) -> Callable[[Attributes], str]:
    def written(of: Attributes) -> str:
        numbers = of.numbers.get(field)
        return form.format(numbers[0]) if numbers else ""

    return written


def _weight(of: Attributes) -> str:
    grams = (of.numbers.get("weight") or (0.0,))[0]
    if not grams:
        return ""
    return f"{grams / 1000:g} kg" if grams >= 1000 else f"{grams:g} g"


_WRITTEN: Final[Mapping[str, Callable[[Attributes], str]]] = {
    "price": _price,
    **dict.fromkeys(("date", "startdate", "datepublished", "dateposted"), _date),
    **{field: _duration(field) for field in MEASURES["min"]},
    "stars": _counted("stars", "{:.1f} stars"),
    "calories": _counted("calories", "{:g} kcal"),
    "recipeyield": _counted("recipeyield", "serves {:g}"),
    "weight": _weight,
    "reviewcount": _counted("reviewcount", "{:g} reviews"),
    "numberofpages": _counted("numberofpages", "{:g} pages"),
}
