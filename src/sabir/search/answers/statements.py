"""Answers in a sentence, from the fields of the item that a question names. Pure.

Nothing is stated that the item does not state: a yes-or-no question has three possible answers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from sabir.search.items.attributes import OPEN_AT, OPEN_ON, START_HOUR, Attributes, recalled
from sabir.search.items.item import JSON, Item
from sabir.search.items.schema_org import strings
from sabir.search.items.types import is_a
from sabir.search.query.asking import Asked, is_yes_no
from sabir.search.query.conditions import AnyOf, Condition, During, Has, In, Is, Near, Not, Range, holds
from sabir.search.query.dates import WEEKDAYS
from sabir.search.query.glossary import same_words
from sabir.search.query.hours import in_words, stated
from sabir.search.query.predicates import IDLE
from sabir.search.query.units import NUMBER_WORDS
from sabir.search.query.vocabulary import DIETS
from sabir.search.query.words import content_words, fold, sentences, spaced, squeezed, tokens

from .facts import in_language, money, value_of
from .fields import is_so_by
from .fields import written as written_in_field
from .offers import named_offer
from .polarity import refuses, says, with_sides
from .reading import KIND_OF_PEOPLE, KIND_OF_WEIGHT, has, naming, same, statements, telling

_MAX_LISTED: Final = 20
# Yes, no, and the separator between a name and a fact, by language.
_YES: Final = {"en": "Yes", "de": "Ja", "es": "Sí", "fr": "Oui", "ja": "はい"}
_NO: Final = {"en": "No", "de": "Nein", "es": "No", "fr": "Non", "ja": "いいえ"}
_STOP: Final = {"ja": "。"}
_UNSAID: Final = {
    "en": "the page does not say.", "de": "dazu steht hier nichts.", "es": "la página no lo dice.",
    "fr": "la page ne le dit pas.", "ja": "記載がありません。",
}  # fmt: skip
_DIET_FIELDS: Final = frozenset({"suitablefordiet", "keywords"})
_DIET_WORDS: Final = frozenset(value for values, _ in DIETS.values() for value in values)
_LABELS: Final = {
    "telephone": "The phone number of {name} is {value}.", "email": "The e-mail address of {name} is {value}.",
    "openinghours": "{name} is open {value}.", "price": "{name} costs {value}.",
    "pricerange": "{name} is in the price range {value}.",
    "date": "{name} is on {value}.", "time": "{name} starts {value}.",
    "endtime": "{name} ends {value}.", "enddate": "{name} ends on {value}.",
    "span": "{name} goes on {value}.", "address": "{name} is at {value}.",
    "totaltime": "{name} takes {value}.", "calories": "{name} has {value}.", "recipeyield": "{name} {value}.",
    "stars": "{name} has {value}.", "recipeingredient": "{name} is made of {value}.",
    "color": "{name} comes in {value}.",
    "size": "{name} comes in {value}.", "brand": "{name} is by {value}.", "manufacturer": "{name} is by {value}.",
    "author": "{name} is by {value}.", "organizer": "{name} is organized by {value}.",
    "performer": "{name} is performed by {value}.", "servescuisine": "{name} serves {value}.",
    "recipecuisine": "{name} is {value}.", "weight": "{name} weighs {value}.", "material": "{name} is made of {value}.",
    "artmaterial": "{name} is made of {value}.", "artmedium": "{name} is made of {value}.",
    "basesalary": "{name} pays {value}.", "estimatedsalary": "{name} pays {value}.",
    "validthrough": "{name} is open until {value}.", "applicationdeadline": "{name} is open until {value}.",
    "availabilitystarts": "{name} is available from {value}.",
    "instructor": "{name} is taught by {value}.", "datepublished": "{name} was published on {value}.",
    "datecreated": "{name} is from {value}.", "creator": "{name} is by {value}.", "artist": "{name} is by {value}.",
    "maximumattendeecapacity": "{name} has room for {value}.",
    "genre": "{name} is {value}.", "educationallevel": "{name} is for this level: {value}.",
    "publisher": "{name} is published by {value}.", "url": "{name} is at {value}",
    "isbn": "The ISBN of {name} is {value}.",
    "typicalagerange": "{name} is for ages {value}.", "employmenttype": "{name} is {value}.",
}  # fmt: skip


def yes(language: str) -> str:
    """That it is so."""
    return f"{_YES[language]}{_STOP.get(language, '.')}"


def yes_or_no(is_so: bool, language: str) -> str:
    """That it is so, or that it is not."""
    return f"{(_YES if is_so else _NO)[language]}{_STOP.get(language, '.')}"


def stated_fact(item: Item, asked: Asked, language: str = "en") -> str:
    """A sentence with the first of the fields that the item states; empty if it states none of them."""
    if asked.words and (counted := _counted(item, asked.words)):
        return f"{item.name}: {counted}"
    if "price" in asked.fields and (paid := _price_for(item, asked.about)):
        return f"{item.name}: {paid}."
    for field in asked.fields:
        if field == "pricerange" and (priced := _sentence_about(item, ("price",), asked.whole or asked.about)):
            return priced  # "costs four dollars" says more than "$"
        value = (
            in_words(item.fields, language)
            if field == "openinghours"
            else in_language(field_value(item, field), language)
        )
        if value and value == "free" and field == "price":
            return f"{item.name} is free." if language == "en" else f"{item.name}: {value}."
        if value:
            form = _LABELS.get(field) or _form_of(item, field) if language == "en" else "{name}: {value}."
            return form.format(name=item.name, value=value).replace("..", ".")
    return _sentence_about(item, asked.fields, asked.whole or asked.about)


def _price_for(item: Item, said: str) -> str:
    """The price of the offer that a question names: "how much is it for a student?"."""
    found = named_offer(item, said)
    return f"{found[0]} {found[2]}" if found is not None else ""


def _counted(item: Item, thing: str) -> str:
    """How much of a thing an item has: by its ingredients, or in a sentence with a number; empty if it does not say."""
    wanted = {key for kind in (thing, *same_words().get(fold(thing), ())) for key in tokens(kind)}
    lines = strings(item.fields.get("recipeIngredient") or item.fields.get("ingredients"))
    if found := [line for line in lines if not wanted.isdisjoint(tokens(line))]:
        return f"{', '.join(found)}."
    text = sentences(f"{item.description}\n{item.text}")
    with_figures = (sentence for sentence in text if _FIGURE.search(sentence))
    return next((sentence for sentence in with_figures if not wanted.isdisjoint(tokens(sentence))), "")


_FIGURE: Final = re.compile(
    rf"\d|\b(?:{'|'.join(word for word in NUMBER_WORDS if len(word) > 2 and ' ' not in word)})\b", re.IGNORECASE
)


# What a sentence contains that states such a thing, if no field does.
_EVIDENCE: Final = {
    "weight": KIND_OF_WEIGHT,
    "totaltime": re.compile(
        r"\b[\w-]+\s+(?:minutes?|hours?|Minuten|Stunden?|minutos|horas?|heures?|days?|Tage|weeks?|months?|years?|Wochen?)\b"
    ),
    "distance": re.compile(r"\d[\d.,]*\s?(?:km|miles?|kilomet\w+|Kilometer)\b", re.IGNORECASE),
    "price": re.compile(
        r"[$€£]\s?\d|\d\s?(?:€|euros?|dollars?|pounds?)|\b[a-z]+(?:-[a-z]+)?\s+(?:dollars|euros|pounds|cents)\b", re.I
    ),
    "telephone": re.compile(r"(?:\+|\b)\d(?:[\s()/.-]{0,2}\d){6,}\b"),
    "email": re.compile(r"\S@\S"),
    "maximumattendeecapacity": KIND_OF_PEOPLE,
    "recipeyield": re.compile(r"\b(?:serves|feeds|enough\s+for|for)\s+(?:\d+|two|four|six|eight)\b", re.IGNORECASE),
}


def _sentence_about(item: Item, fields: tuple[str, ...], about: str = "") -> str:
    """The sentence of an item that states what no field does, and has most of the words asked; empty if none does."""
    patterns = [_EVIDENCE[field] for field in fields if field in _EVIDENCE]
    if not patterns:
        return ""
    words = telling(about)
    is_page = any(is_a(kind, "CreativeWork") for kind in item.types)  # its name says what it is about
    about_it = [word for word in words if is_page or not has(naming(item), word)]
    said = sentences(f"{item.description}\n{item.text}")
    counted = [(sum(has(tokens(sentence), word) for word in words), sentence) for sentence in said]
    fitting = ([row for row in counted if pattern.search(row[1])] for pattern in patterns)
    rows = next((found for found in fitting if found), [])
    if "price" in fields and not any(count for count, _ in rows):  # "the deposit is five weeks' rent" has no amount
        figures = [row for row in counted if _FIGURE.search(row[1])]
        rows = [row for row in figures if any(has(tokens(row[1]), word) for word in about_it)] or rows
    if KIND_OF_PEOPLE in patterns:  # "Group size: 12" says more than a sentence
        named = [statement.text for statement in statements(item) if statement.field]
        rows = [(0, text) for text in named if KIND_OF_PEOPLE.search(text)] or rows
    _, found = max(rows, key=lambda row: row[0], default=(0, ""))
    return f"{item.name}: {found}" if found else ""


def _form_of(item: Item, field: str) -> str:
    """A sentence for a field without its own: "The course code of {name} is {value}."."""
    return f"The {spaced(field).lower()} of {{name}} is {{value}}."


def field_value(item: Item, field: str) -> str:
    """What an item states in a field, for people."""
    read = _READ.get(field)
    if read is not None:
        return read(item)
    written = value_of(field, recalled(item))
    if written:
        return written
    return written_in_field(item, field) or ", ".join(_labels(recalled(item), field)[:_MAX_LISTED])


def _labels(of: Attributes, field: str) -> list[str]:
    """What an item states in a nested field, such as the teacher of a course."""
    values = [value for name, values in of.labels.items() if name.casefold() == field for value in values]
    return [value.replace("_", " ").lower() if value.isupper() else value for value in values]


def _hours(item: Item) -> str:
    return in_words(item.fields)


def _date(item: Item) -> str:
    return value_of("date", recalled(item)) if "startdate" in recalled(item).dates else ""


def _date_and_time(item: Item) -> str:
    """The day of something, and when it starts, if it is on one day."""
    day, clock = _date(item), _clock(item.fields.get("startDate"))
    return f"{day}, {clock}" if day and clock and " to " not in day else day


def _time(item: Item) -> str:
    clock, day = _clock(item.fields.get("startDate")), _date(item)
    return f"at {clock}{f' on {day}' if day else ''}" if clock else ""


def _clock(value: JSON) -> str:
    return value[11:16] if isinstance(value, str) and len(value) >= 16 else ""


def _end_time(item: Item) -> str:
    """When something ends; with the day, if it differs from the start."""
    start, end = item.fields.get("startDate"), item.fields.get("endDate")
    if not (clock := _clock(end)) or not isinstance(start, str) or not isinstance(end, str):
        return ""
    day = datetime.fromisoformat(end[:10])
    return f"at {clock} on {day.day} {day:%B %Y}"


def _from_to(item: Item) -> str:
    """The start and end of something, on one day."""
    start, end = item.fields.get("startDate"), item.fields.get("endDate")
    first, last = _clock(start), _clock(end)
    one_day = isinstance(start, str) and isinstance(end, str) and start[:10] == end[:10]
    return f"from {first} to {last}" if first and last and one_day else ""


def _address(item: Item) -> str:
    place = next((item.fields[key] for key in ("address", "location", "jobLocation") if item.fields.get(key)), None)
    return ", ".join(dict.fromkeys(strings(place)))


def _ingredients(item: Item) -> str:
    return ", ".join(list(strings(item.fields.get("recipeIngredient") or item.fields.get("ingredients")))[:_MAX_LISTED])


def _day(field: str) -> Callable[[Item], str]:
    def written(item: Item) -> str:
        when = recalled(item).dates.get(field)
        if when is None:
            return ""
        day = datetime.fromtimestamp(when.start, UTC)
        if when.end - when.start > _YEAR:
            return str(day.year)
        return f"{day.day} {day:%B %Y}"

    return written


_YEAR: Final = 360 * 86_400  # seconds


def _salary(field: str) -> Callable[[Item], str]:
    def written(item: Item) -> str:
        numbers = recalled(item).numbers.get(field)
        if not numbers:
            return ""
        paid = next((value for key, value in item.fields.items() if key.casefold() == field), None)
        code = paid.get("currency") if isinstance(paid, dict) else None
        inner = paid.get("value") if isinstance(paid, dict) else None
        unit = inner.get("unitText") if isinstance(inner, dict) else None
        amounts = " to ".join(money(amount, str(code or "?")) for amount in sorted({min(numbers), max(numbers)}))
        return f"{amounts} {'an' if str(unit).lower() == 'hour' else 'a'} {str(unit).lower()}" if unit else amounts

    return written


def _price_range(item: Item) -> str:
    return ", ".join(strings(item.fields.get("priceRange")))


_READ: Final[Mapping[str, Callable[[Item], str]]] = {
    "openinghours": _hours,
    "date": _date_and_time,
    "time": _time,
    "endtime": _end_time,
    "span": _from_to,
    "address": _address,
    "recipeingredient": _ingredients,
    "pricerange": _price_range,
    "url": lambda item: item.page,
    **{
        field: _day(field)
        for field in ("validthrough", "applicationdeadline", "datepublished", "datecreated", "availabilitystarts")
    },
    **{field: _salary(field) for field in ("basesalary", "estimatedsalary")},
}


# The fields of an item that a model gets besides its text, and their names.
_DESCRIBED: Final = {
    "price": "price", "pricerange": "price range", "date": "date", "time": "starts", "openinghours": "open",
    "address": "address", "telephone": "phone", "totaltime": "takes", "recipeyield": "servings",
    "calories": "calories", "suitablefordiet": "diets", "stars": "rating", "brand": "brand", "author": "author",
    "instructor": "teacher", "color": "color", "size": "sizes", "material": "material", "basesalary": "salary",
    "validthrough": "open until", "employmenttype": "employment", "servescuisine": "cuisine",
    "recipecuisine": "cuisine", "amenityfeature": "offers", "organizer": "organizer", "performer": "performer",
    "numberofpages": "pages", "recipeingredient": "ingredients",
}  # fmt: skip


def described(item: Item) -> str:
    """The fields of an item on one line: "price: $12; open: We-Su 11:30-21:00"."""
    found = [(name, field_value(item, field)) for field, name in _DESCRIBED.items()]
    stock = _stock(item).removesuffix("its availability is not stated") if item.fields.get("offers") else ""
    stated = [f"{name}: {value}" for name, value in (*found, ("availability", stock)) if value]
    return "; ".join(dict.fromkeys(stated))


# Yes or no


def is_unsaid(statement: str) -> bool:
    """Whether a statement only says that the item does not say."""
    return statement.endswith(tuple(_UNSAID.values()))


def decides(statement: str) -> bool:
    """Whether a statement says yes or no."""
    return statement.startswith((*(f"{word}." for word in (*_YES.values(), *_NO.values())), "はい", "いいえ"))


def decided(item: Item, asked: Asked, known_diets: bool, language: str = "en") -> str:
    """Yes or no and why, or that the item does not say."""
    if (variant := _variant_in_stock(item, asked)) is not None:
        return f"{(_YES if variant else _NO)[language]}. {item.name}: {_stock(item)}."
    of = recalled(item)
    answers = [_holds(condition, item, of, known_diets) for condition in asked.conditions]
    answers += [_says(word, item) for word in asked.unread]
    if not answers or None in answers:
        return f"{item.name}: {_UNSAID[language]}"
    holds_all = all(answers)
    word = (_YES if holds_all else _NO)[language]
    if not asked.conditions:
        return _in_its_words(item, asked, word, _NO[language])
    why = _reason(item, asked.conditions, language)
    return f"{word}{_STOP.get(language, '. ')}{why}".strip()


def flagged(item: Item, is_so: bool, label: str, language: str = "en") -> str:
    """Yes or no, by a field or a feature that says so."""
    word = (_YES if is_so else _NO)[language]
    return (
        f"{word}{_STOP.get(language, '.')} {item.name}: {spaced(label).lower()}{'' if is_so else f' – {word.lower()}'}."
    )


def _variant_in_stock(item: Item, asked: Asked) -> bool | None:
    """Whether the variant that a question names is available: "is the mug in cream in stock?"."""
    if not any(isinstance(one, Is) and one.field == "availability" for one in asked.conditions):
        return None
    offers = item.fields.get("offers")
    words = set(tokens(asked.words))
    rows = [row for row in offers if isinstance(row, dict)] if isinstance(offers, list) else []
    named = [row for row in rows if any(words.issuperset(tokens(part)) for part in str(row.get("name")).split("/"))]
    stated = [str(row.get("availability")) for row in named] if len(rows) > len(named) else []
    return any(availability.endswith("InStock") for availability in stated) if stated else None


_DENIES: Final = re.compile(
    r"\b(?:not?|never|without|neither|nor|cannot|nothing|nobody|kein\w*|nicht|ohne|sin|sans|pas)\b|n['’]t\b", re.I
)


def _in_its_words(item: Item, asked: Asked, yes: str, no: str) -> str:
    """The sentence of an item that has most of the unread words; yes, where it has them all and denies nothing; no,
    where it denies them."""
    words, whole = asked.unread, list(sentences(f"{item.description}\n{item.text}"))
    best = max(whole, key=lambda sentence: len(set(words).intersection(tokens(sentence))), default="")
    said = set(words) & set(tokens(best))
    if not said:
        return f"{yes}. {described(item)}"
    is_so = says(best, with_sides(words, asked.words, best), same) if len(said) == len(words) else None
    if is_so is None:
        return f"{item.name}: {best}"
    return f"{yes if is_so else no}. {best}"


def answered_by(question: str, item: Item, language: str) -> str:
    """The answer of one of a site's own questions, with yes or no where it says so of what was asked.

    "Do you take American Express?" is answered by "We take Visa, but not American Express.".
    """
    answer = item.description
    own = set(tokens(item.name))
    words = tuple(word for word in content_words(question) if word not in IDLE and not has(own, word))
    if not is_yes_no(question) or (not words and _PLAIN_ANSWER.match(answer)):
        return answer
    said = next((one for one in sentences(answer) if all(has(tokens(one), word) for word in words)), "")
    is_so = says(said, words, same) if said and words else None
    if is_so is None and not words and is_yes_no(item.name) and refuses(answer):
        is_so = False
    if _PLAIN_ANSWER.match(answer):  # "Yes, on the mainland. Not to the islands."
        return f"{_NO[language]}. {said}" if is_so is False and not _PLAIN_ANSWER.match(said) else answer
    return answer if is_so is None else f"{(_YES if is_so else _NO)[language]}. {answer}"


_PLAIN_ANSWER: Final = re.compile(r"\W*(?:yes|no|ja|nein|s[ií]|oui|non|はい|いいえ)\b", re.IGNORECASE)


def _denied(sentence: str, words: tuple[str, ...]) -> bool:
    """Whether a sentence denies one of the words outright: "Not for induction hobs.", "never freeze it"."""
    for match in _DENIES.finditer(sentence):
        around = (
            *tokens(sentence[: match.start()])[-1:],
            *tokens(sentence[match.end() :])[:_NEAR],
        )  # "gas not included"
        if not set(words).isdisjoint(around):
            return True
    return False


_NEAR: Final = 3  # words after a denial that it is about


def _holds(condition: Condition, item: Item, of: Attributes, known_diets: bool) -> bool | None:
    match condition:
        case Not(inner):
            inside = _holds(inner, item, of, known_diets)
            return None if inside is None else not inside
        case AnyOf(inner):
            results = [_holds(one, item, of, known_diets) for one in inner]
            return True if True in results else None if all(one is None for one in results) else False
        case Is(field, values) if field in ("weekday", OPEN_ON):
            return _on_days(values, of)
        case Is(field, _) if field in _DIET_FIELDS:
            return _suits_diet(condition, item, of, known_diets)
        case Is(field, values) if field not in of.words:
            return _tells(item, values) if field != "availability" or not _gone(item) else False
        case Range(field) if not any(name == field or name.startswith(f"{field}:") for name in of.numbers):
            return None
        case During(field) if field not in of.dates:
            return None
        case In() | Near() if not of.places and of.point is None:
            return None
        case Has() if not of.has:
            return None
        case Has(words) if denies(item, words[0]):
            return False
        case Has(words) if (diets := _FREE_BY.get(words[0])) and _keeps(diets, of):
            return False
        case _:
            return holds(condition, of)


_GONE: Final = re.compile(
    r"\b(?:sold[ -]out|fully\s+booked|out\s+of\s+stock|no\s+(?:tickets|places|seats)\s+left|ausverkauft|ausgebucht"
    r"|agotad[oa]s?)\b",
    re.IGNORECASE,
)


def _gone(item: Item) -> str:
    """How an item's text says that it is no longer to be had: "Sold out; ask about returns."; empty if it does not."""
    said = _GONE.search(f"{item.description} {item.text}")
    return said[0].casefold() if said else ""


def _suits_diet(condition: Is, item: Item, of: Attributes, known_diets: bool) -> bool | None:
    """Whether an item suits a diet; None for a place or an event that does not say so."""
    if holds(condition, of):
        return True
    if any(is_a(kind, above) for kind in item.types for above in ("Event", "Place", "Organization")):
        said = {word for value in condition.values for word in tokens(value)[:1]}
        return True if not said.isdisjoint(tokens(f"{item.description} {item.text}")) else None
    return False if condition.field in of.words or known_diets else None


# What an item of one of these diets does not have, whatever its ingredients are called.
_FREE_BY: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("gluten", "wheat"), ("glutenfree",)),
    **dict.fromkeys(("meat", "fish", "seafood", "chicken", "beef", "pork"), ("vegetarian", "vegan")),
    **dict.fromkeys(("dairy", "milk", "cheese", "butter", "cream", "egg", "honey"), ("vegan",)),
}


def _keeps(diets: tuple[str, ...], of: Attributes) -> bool:
    """Whether an item says that it suits one of these diets."""
    said = {key.removesuffix("diet") for field in ("suitablefordiet", "keywords") for key in of.words.get(field, ())}
    return not said.isdisjoint(diets)


def _on_days(days: tuple[str, ...], of: Attributes) -> bool | None:
    """Whether a place is open on one of these days, or an event is on one of them."""
    if OPEN_ON in of.words:
        return holds(Is(OPEN_ON, days), of)
    start = of.dates.get("startdate")
    return None if start is None else WEEKDAYS[datetime.fromtimestamp(start.start, UTC).weekday()] in days


def denies(item: Item, word: str) -> bool:
    """Whether a sentence of an item denies a word outright: "Gas not included."."""
    return any(_denied(sentence, (word,)) for sentence in sentences(f"{item.description}\n{item.text}"))


def _tells(item: Item, values: tuple[str, ...]) -> bool | None:
    """Whether an item's text says what none of its fields states: "Yellow or black, one size."; or None."""
    words = set(tokens(f"{item.name} {item.description} {item.text}"))
    mentioned = [value for value in values if (keys := tokens(value)) and words.issuperset(keys)]
    if not mentioned or any(denies(item, key) for key in tokens(mentioned[0])):
        return None
    return True


_NAMES: Final = frozenset({"name", "brand", "manufacturer", "seller", "provider", "publisher"})


def _says(word: str, item: Item) -> bool | None:
    """Whether an item's words hold another word; that they do not says nothing."""
    words = tokens(f"{item.name} {item.description} {item.text}")
    if word in words:
        return True
    # "Wifi" stands in "Free Wi-Fi".
    stated = (label for name, labels in recalled(item).labels.items() if name not in _NAMES for label in labels)
    return True if any(word in tokens(label) or word in squeezed(label) for label in stated) else None


def _reason(item: Item, conditions: tuple[Condition, ...], language: str) -> str:
    """What the item states of what was asked."""
    for condition in _flat(conditions):
        match condition:
            case Is(field, values) if field in (OPEN_ON, "weekday"):
                is_place = OPEN_ON in recalled(item).words
                return (
                    _open_reason(item, values[0], language)
                    if is_place
                    else stated_fact(item, Asked(("date",)), language)
                )
            case Is(field) if field == OPEN_AT:
                return stated_fact(item, Asked(("openinghours",)), language)
            case Is(field, values) if field in _DIET_FIELDS and not _DIET_WORDS.isdisjoint(values):
                return _diet_reason(item, language)
            case Is(field) if field == "availability":
                return f"{item.name}: {_stock(item)}."
            case Range(field) if field == START_HOUR:
                return stated_fact(item, Asked(("time",)), language)
            case Range(field):
                value = field_value(item, field)
                return f"{item.name}: {value}." if value else ""
            case In() | Near():
                return stated_fact(item, Asked(("address",)), language)
            case During():
                return stated_fact(item, Asked(("date",)), language)
            case Has():
                return stated_fact(item, Asked(("recipeingredient",)), language)
            case Is(field) if labels := _labels(recalled(item), field):
                return f"{item.name}: {_listed(item, field, labels, language)}."
    return ""


def _listed(item: Item, field: str, labels: list[str], language: str) -> str:
    """The values of a field; of one that only says yes or no, its name: "accepts reservations – no"."""
    is_so = is_so_by(labels[0])
    if is_so is None:
        return ", ".join(labels[:_MAX_LISTED])
    name = spaced(next((name for name in item.fields if name.casefold() == field), field)).lower()
    return name if is_so else f"{name} – {_NO[language].lower()}"


def _flat(conditions: tuple[Condition, ...]) -> list[Condition]:
    found: list[Condition] = []
    for condition in conditions:
        inner = getattr(condition, "conditions", None) or (
            (condition.condition,) if isinstance(condition, Not) else None
        )
        found += _flat(tuple(inner)) if inner else [condition]
    return found


def _open_reason(item: Item, day: str, language: str) -> str:
    hours = stated_fact(item, Asked(("openinghours",)), language)
    if language != "en" or stated(item.fields, day):
        return hours
    return f"{item.name} is closed on {day.title()}s. It is open {in_words(item.fields, with_closed=False)}."


def _diet_reason(item: Item, language: str) -> str:
    diets = [
        spaced(string.rsplit("/", 1)[-1].removesuffix("Diet")) for string in strings(item.fields.get("suitableForDiet"))
    ]
    if language != "en":
        return f"{item.name}: {', '.join(diets).lower()}." if diets else ""
    if diets:
        return f"{item.name} is marked as {', '.join(diets).lower()}."
    return f"{item.name} is not marked as suitable for a diet."


def _stock(item: Item) -> str:
    offers = item.fields.get("offers")
    rows = offers if isinstance(offers, list) else [offers]
    found: list[str] = []
    for row in rows:
        if isinstance(row, dict) and isinstance(row.get("availability"), str):
            state = spaced(row["availability"].rsplit("/", 1)[-1]).lower()
            name = row.get("name") if len(rows) > 1 else None
            found.append(f"{name} {state}" if name else state)
    return ", ".join(found[:8]) or _gone(item) or "its availability is not stated"


__all__ = ["JSON", "decided", "described", "field_value", "stated_fact"]
