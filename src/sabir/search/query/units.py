"""Quantities: money, time, mass, length, volume, energy and data, each in one unit. Pure."""

from __future__ import annotations

import re
from typing import Final

import msgspec

DOLLARS: Final = ("USD", "CAD", "AUD", "NZD", "SGD", "HKD")
# A sign or word for money, to its possible currencies.
CURRENCIES: Final[dict[str, tuple[str, ...]]] = {
    "$": DOLLARS, "us$": ("USD",), "dollar": DOLLARS, "dollars": DOLLARS, "buck": DOLLARS, "bucks": DOLLARS,
    "cent": DOLLARS, "cents": DOLLARS,
    "€": ("EUR",), "euro": ("EUR",), "euros": ("EUR",), "£": ("GBP",), "quid": ("GBP",), "pound sterling": ("GBP",),
    "¥": ("JPY", "CNY"), "yen": ("JPY",), "yuan": ("CNY",), "₹": ("INR",), "rupees": ("INR",), "rupee": ("INR",),
    "francs": ("CHF",), "kr": ("SEK", "NOK", "DKK"), "kronor": ("SEK",), "zł": ("PLN",), "₩": ("KRW",),
    **{code.lower(): (code,) for code in (
        "USD", "EUR", "GBP", "JPY", "CHF", "CAD", "AUD", "NZD", "SEK", "NOK", "DKK", "PLN", "CZK", "INR", "CNY",
        "KRW", "SGD", "HKD", "MXN", "BRL", "ZAR", "TRY")},
}  # fmt: skip

# A unit as written, to (dimension's unit, factor).
UNITS: Final[dict[str, tuple[str, float]]] = {
    "s": ("min", 1 / 60), "sec": ("min", 1 / 60), "secs": ("min", 1 / 60), "second": ("min", 1 / 60),
    "seconds": ("min", 1 / 60), "min": ("min", 1), "mins": ("min", 1), "minute": ("min", 1), "minutes": ("min", 1),
    "h": ("min", 60), "hr": ("min", 60), "hrs": ("min", 60), "hour": ("min", 60), "hours": ("min", 60),
    "day": ("min", 1440), "days": ("min", 1440), "week": ("min", 10080), "weeks": ("min", 10080),
    "mg": ("g", 0.001), "g": ("g", 1), "gram": ("g", 1), "grams": ("g", 1), "gr": ("g", 1), "kg": ("g", 1000),
    "kilo": ("g", 1000), "kilos": ("g", 1000), "kilogram": ("g", 1000), "kilograms": ("g", 1000),
    "oz": ("g", 28.349523), "ounce": ("g", 28.349523), "ounces": ("g", 28.349523), "lb": ("g", 453.59237),
    "lbs": ("g", 453.59237), "pound": ("g", 453.59237), "pounds": ("g", 453.59237), "t": ("g", 1e6),
    "mm": ("m", 0.001), "cm": ("m", 0.01), "m": ("m", 1), "meter": ("m", 1), "meters": ("m", 1), "metre": ("m", 1),
    "metres": ("m", 1), "km": ("m", 1000), "kilometer": ("m", 1000), "kilometers": ("m", 1000),
    "kilometre": ("m", 1000), "kilometres": ("m", 1000), "mi": ("m", 1609.344), "mile": ("m", 1609.344),
    "miles": ("m", 1609.344), "ft": ("m", 0.3048), "foot": ("m", 0.3048), "feet": ("m", 0.3048),
    "in": ("m", 0.0254), "inch": ("m", 0.0254), "inches": ("m", 0.0254), "yd": ("m", 0.9144), "yards": ("m", 0.9144),
    "ml": ("ml", 1), "cl": ("ml", 10), "dl": ("ml", 100), "l": ("ml", 1000), "liter": ("ml", 1000),
    "liters": ("ml", 1000), "litre": ("ml", 1000), "litres": ("ml", 1000), "cup": ("ml", 236.588),
    "cups": ("ml", 236.588), "pint": ("ml", 473.176), "pints": ("ml", 473.176), "gal": ("ml", 3785.41),
    "gallon": ("ml", 3785.41), "gallons": ("ml", 3785.41), "quart": ("ml", 946.353), "quarts": ("ml", 946.353),
    "kcal": ("kcal", 1), "cal": ("kcal", 1), "calorie": ("kcal", 1), "calories": ("kcal", 1),
    "kilocalories": ("kcal", 1), "kj": ("kcal", 0.239006),
    "mb": ("GB", 0.001), "gb": ("GB", 1), "tb": ("GB", 1000), "w": ("W", 1), "watt": ("W", 1), "watts": ("W", 1),
    "kw": ("W", 1000), "mah": ("mAh", 1), "v": ("V", 1), "volt": ("V", 1), "volts": ("V", 1), "%": ("%", 1),
    "percent": ("%", 1), "star": ("star", 1), "stars": ("star", 1), "serving": ("serving", 1),
    "servings": ("serving", 1), "people": ("person", 1), "persons": ("person", 1), "person": ("person", 1),
    "guests": ("person", 1), "adults": ("person", 1), "year": ("year", 1), "years": ("year", 1),
    "m²": ("m2", 1), "m2": ("m2", 1), "sqm": ("m2", 1),
    "square metre": ("m2", 1), "square metres": ("m2", 1), "square meter": ("m2", 1), "square meters": ("m2", 1),
    "sq m": ("m2", 1), "sq ft": ("m2", 0.092903), "square feet": ("m2", 0.092903), "hp": ("W", 745.7),
    "bhp": ("W", 745.7), "ps": ("W", 735.5), "kwh": ("kWh", 1), "km/h": ("km/h", 1), "kmh": ("km/h", 1),
    "mph": ("km/h", 1.609344),
}  # fmt: skip
# UN/CEFACT codes that schema.org's unitCode carries.
UNIT_CODES: Final = {"GRM": "g", "KGM": "kg", "MGM": "mg", "LBR": "lb", "ONZ": "oz", "MTR": "m", "CMT": "cm",
                     "MMT": "mm", "KMT": "km", "SMI": "mile", "INH": "in", "FOT": "ft", "LTR": "l", "MLT": "ml",
                     "MIN": "min", "HUR": "h", "DAY": "day", "SEC": "s", "E14": "kcal", "KWT": "kw", "WTT": "w",
                     "E34": "gb", "4L": "mb", "ANN": "year", "MTK": "m²", "FTK": "sq ft",
                     "KMH": "km/h", "KWH": "kwh"}  # fmt: skip

NUMBER_WORDS: Final = {
    "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
    "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16, "seventeen": 17,
    "eighteen": 18, "nineteen": 19, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70,
    "eighty": 80, "ninety": 90, "hundred": 100, "a": 1, "an": 1, "half": 0.5, "half an": 0.5, "half a": 0.5,
    "a dozen": 12, "a hundred": 100, "a thousand": 1000,
}  # fmt: skip
# Behind these, "1.250" and "1 250" are more than a thousand.
_OF_EUROPE = "€|eur|euros?|chf|francs?|franken|kr|sek|nok|dkk|zł|pln|kč|czk"
# Bounded, and never starting within a run of digits: a pattern with several numbers stays linear on long ones.
NUMBER: Final = (
    r"(?<!\d)(?:\d{1,3}(?:,\d{3}){1,5}(?![\d,])(?:\.\d{1,6})?|\d{1,3}(?:[.’'\u00a0\u202f ]\d{3}){1,5},\d{1,2}(?!\d)"
    r"|\d{1,3}(?:[’'\u00a0\u202f]\d{3}){1,5}(?!\d)(?:\.\d{1,2}(?!\d))?"
    rf"|\d{{1,3}}(?:[.’'\u00a0\u202f ]\d{{3}}){{1,5}}(?=\s?(?:{_OF_EUROPE})(?!\w))"
    r"|\d{1,12},\d{1,2}(?![\d,])|\d{1,15}(?:\.\d{1,6})?|\.\d{1,6})"
)


class Quantity(msgspec.Struct, frozen=True):
    """A number in the unit of its dimension. ``unit`` is ``""`` for a bare one; money has ``currencies``."""

    value: float
    unit: str = ""
    currencies: tuple[str, ...] = ()


_DURATION: Final = re.compile(
    r"P(?!$)(?:(\d+(?:\.\d+)?)Y)?(?:(\d+(?:\.\d+)?)M)?(?:(\d+(?:\.\d+)?)W)?(?:(\d+(?:\.\d+)?)D)?"
    r"(?:T(?:(\d+(?:\.\d+)?)H)?(?:(\d+(?:\.\d+)?)M)?(?:(\d+(?:\.\d+)?)S)?)?",
    re.IGNORECASE,
)
_DURATION_MINUTES: Final = (525_600.0, 43_800.0, 10_080.0, 1_440.0, 60.0, 1.0, 1 / 60)

_SIGNS = "".join(sign for sign in CURRENCIES if len(sign) == 1 and not sign.isalpha())
_WORD_NUMBERS = "|".join(sorted(map(re.escape, NUMBER_WORDS), key=len, reverse=True))
_MONEY_WORDS = "|".join(sorted((re.escape(word) for word in CURRENCIES if len(word) > 1), key=len, reverse=True))
# "$50 in stock" has no inches: that abbreviation must touch its number.
_UNIT_WORDS = "|".join(sorted((re.escape(unit) for unit in UNITS if unit != "in"), key=len, reverse=True))

# One quantity as people write it: "$20", "20 dollars", "half an hour", "1.5 kg", "4+ stars", "EUR 12".
QUANTITY: Final = (
    rf"(?:(?P<sign>[{_SIGNS}]|us\$|(?:usd|eur|gbp|chf|cad|aud)(?=\s?\d))\s?)?"
    rf"(?P<number>{NUMBER}|\b(?:{_WORD_NUMBERS})\b)(?P<kilo>k\b|\s?(?:grand|thousand)\b)?"
    rf"(?:\s?-?(?P<money>[{_SIGNS}]|\b(?:{_MONEY_WORDS})\b|(?<=\d)(?:usd|eur|gbp|chf)\b)"
    rf"|\s?-?(?P<unit>%|(?<=\d)in\b|(?:(?<=\d)|\b)(?:{_UNIT_WORDS})\b))?"
)
_QUANTITY: Final = re.compile(QUANTITY, re.IGNORECASE)


def duration(text: str) -> float | None:
    """An ISO 8601 duration in minutes."""
    match = _DURATION.fullmatch(text.strip())
    if not match or not any(match.groups()):
        return None
    return sum(
        float(given) * minutes for given, minutes in zip(match.groups(), _DURATION_MINUTES, strict=True) if given
    )


def number(text: str) -> float | None:
    """``1,299.50``, ``1.299,50``, ``1 299,50`` or ``twenty`` as a float."""
    text = text.strip().casefold()
    if text in NUMBER_WORDS:
        return float(NUMBER_WORDS[text])
    if re.fullmatch(r"\d+,\d{1,2}|\d{1,3}(?:[.’'\u00a0\u202f ]\d{3})+,\d{1,2}", text):  # a comma before the cents
        text = re.sub(r"[.’'\u00a0\u202f ]", "", text).replace(",", ".")
    elif re.fullmatch(r"\d{1,3}(?:[’'\u00a0\u202f ]\d{3})+(?:\.\d{1,2})?", text):
        text = re.sub(r"[’'\u00a0\u202f ]", "", text)
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def numbered(suffix: str) -> str:
    """``QUANTITY`` with a suffix on its group names, for a pattern with two."""
    return re.sub(r"\(\?P<(\w+)>", rf"(?P<\g<1>{suffix}>", QUANTITY)


_THOUSANDS: Final = re.compile(r"\d{1,3}(?:\.\d{3})+")  # no price has three decimals


def from_match(match: re.Match[str], suffix: str = "") -> Quantity | None:
    """The quantity of a match of ``QUANTITY``, or of ``numbered(suffix)``; None for a bare "a" or "one"."""
    given = match[f"number{suffix}"]
    value = number(given)
    money = match[f"sign{suffix}"] or match[f"money{suffix}"]
    if money and (match[f"money{suffix}"] or money == "€") and _THOUSANDS.fullmatch(given):
        value = float(given.replace(".", ""))
    unit = match[f"unit{suffix}"]
    if value is None or (given.casefold() in NUMBER_WORDS and not (money or unit or value >= 2)):
        return None
    kilo = (match[f"kilo{suffix}"] or "").strip().casefold()
    value *= 1000 if kilo else 1
    if money:
        if money.casefold() in ("cent", "cents"):
            value /= 100
        return Quantity(value, "money", CURRENCIES[money.casefold()])
    if unit:
        dimension, factor = UNITS[unit.casefold()]
        return Quantity(value * factor, dimension)
    return Quantity(value, "money" if kilo == "grand" else "")


def quantity(text: str) -> Quantity | None:
    """The one quantity that a text consists of, or starts with; None if it starts with another word."""
    text = text.strip()
    minutes = duration(text)
    if minutes is not None:
        return Quantity(minutes, "min")
    match = _QUANTITY.match(text)
    if not match:
        return None
    found = from_match(match)
    if found and found.unit == "min":
        rest = re.match(r"(?:\s|,|and)*", text[match.end() :])
        more = quantity(text[match.end() + (rest.end() if rest else 0) :])
        if more and more.unit == "min" and more.value < found.value:
            return Quantity(found.value + more.value, "min")
    return found
