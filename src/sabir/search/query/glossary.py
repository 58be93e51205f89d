"""Questions in other languages: common words are translated to English, so that one set of rules reads them all. Pure.

The words of each language are data (``glossaries/*.txt``). Only the constraints of a question are rewritten ("Wie
lange", "sin gluten", "am Dienstag"); its subject stays as written, because the site's items are in that language, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.resources import files
from typing import Final

import msgspec

from .dates import MONTHS
from .translated import is_english, is_homograph, knows
from .vocabulary import ALIKE
from .word_order import asks_first
from .words import STOPWORDS, fold, fold_length_kept

LANGUAGES: Final = ("de", "es", "fr", "ja")
_JAPANESE: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_NUMBER: Final = "{n}"


class Glossary(msgspec.Struct, frozen=True):
    """The words of one language."""

    words: frozenset[str]  # function words, by which it is recognised
    terms: Mapping[str, str]  # a folded term, to English
    pattern: re.Pattern[str]


@cache
def glossary(language: str) -> Glossary:
    words: frozenset[str] = frozenset()
    terms: dict[str, str] = {}
    for line in _lines(f"{language}.txt"):
        if line.startswith("words:"):
            words = frozenset(fold(word) for word in line.removeprefix("words:").split())
            continue
        said, _, english = line.partition("=")
        for term in (item.strip() for item in said.split("|")):
            if term not in _ACCENTED:
                terms[fold(term)] = english.strip()
            terms[fold(_kept_apart(term))] = english.strip()
    phrases = "|".join(_phrase(term) for term in sorted(terms, key=len, reverse=True))
    bounded = phrases if language == "ja" else rf"(?<!\w)(?:{phrases})(?!\w)"
    return Glossary(words, terms, re.compile(bounded))


@cache
def words_of(language: str) -> frozenset[str]:
    """Every word of a glossary, folded: none of them is misspelt."""
    known = glossary(language)
    return known.words | {word for term in known.terms for word in re.findall(r"[^\W\d_]+", term)}


# Words of one letter or two that another word is without the accent: "où" is where, "ou" is or.
_ACCENTED: Final = {"où": "ouu", "à": "aa"}
_ACCENT: Final = re.compile(r"(?<!\w)(?:où|à)(?!\w)", re.IGNORECASE)


def _kept_apart(text: str) -> str:
    """The text with such words told apart, which folding would make the same."""
    return _ACCENT.sub(lambda match: _ACCENTED[match.group().lower()], text)


@cache
def same_words() -> Mapping[str, tuple[str, ...]]:
    """For each word, its translations in other languages."""
    found: dict[str, tuple[str, ...]] = {}
    for line in _lines("same.txt"):
        group = line.split()
        for word in group:  # a word may have several meanings: "carte" is a card and a map
            others = (*found.get(word, ()), *(other for other in group if other != word))
            found[word] = tuple(dict.fromkeys(others))
    return found


# Words by which a text is known to be in a language, most frequent first.
FUNCTION_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "de": ("und", "der", "die", "das", "mit", "für", "ist", "ein", "im", "von"),
    "es": ("los", "las", "una", "para", "con", "y", "por", "sin", "más", "tu"),
    "fr": ("les", "une", "est", "avec", "pour", "et", "au", "dans", "sur", "vous"),
}


def without_idle(text: str, language: str) -> str:
    """The text without the function words of its language, except those that are English words, too."""
    if language in ("en", "ja"):
        return text
    idle = glossary(language).words
    kept = (
        word
        for word in text.split()
        if (key := _ELISION.sub("", fold(word.strip(_MARKS)))) not in idle or key in STOPWORDS
    )
    return " ".join(kept)


_ELISION: Final = re.compile(r"^(?:l|d|qu|n|s)['’]")


@cache
def likenesses() -> Mapping[str, tuple[str, ...]]:
    """For each word, its synonyms, in its own language or another."""
    words = {*ALIKE, *same_words()}
    return {word: (*ALIKE.get(word, ()), *same_words().get(word, ())) for word in words}


def heads_of(word: str) -> list[str]:
    """The possible last parts of a German compound, longest first: what the thing is."""
    return [word[at:].capitalize() for at in range(4, len(word) - 3)]


def language_of(question: str) -> str:
    """The language of a question, ``"en"`` by default."""
    return detected_language(question) if len(question) <= _KEPT_LENGTH else detected_language.__wrapped__(question)


_KEPT_LENGTH: Final = 400  # characters of a question whose language is kept: several parts of an answer ask for it


@lru_cache(maxsize=256)
def detected_language(question: str) -> str:
    """The same, kept for a while."""
    if _JAPANESE.search(question):
        return "ja"
    said = re.findall(r"[\w'’-]+", fold(question))
    highest, best = 0, "en"
    written = re.findall(r"[\w'’-]+", question.casefold())  # "thé" is not "the"
    english = sum(word in STOPWORDS for word in (written if len(written) == len(said) else said))
    for language in LANGUAGES[:-1]:
        known = [word for word in said if word not in _ENGLISH and _is_of(word, language)]
        may_be_english = is_english if len(said) > 1 else is_homograph
        if (
            all(map(may_be_english, known))
            and (len(known) < len(said) or len(said) == 1)
            and not _ACCENTED_WORD.search(question)
        ):
            continue  # "woolly hat" is English
        if len(known) > highest and len(known) > english:
            highest, best = len(known), language
    return best


# "Café" is English, too.
_ACCENTED_WORD: Final = re.compile(r"(?!caf[ée]s?\b)\b[a-z]*[à-öø-ÿ]", re.IGNORECASE)


def _is_of(word: str, language: str) -> bool:
    known = glossary(language)
    return word in known.words or known.terms.get(word, word) != word or knows(word, language)


def telling(question: str) -> str:
    """The question without the function words of its language; unchanged, if it has no others."""
    language = language_of(question)
    idle = STOPWORDS if language == "en" else glossary(language).words
    kept = [word for word in question.split() if fold(word).strip(_MARKS) not in idle]
    return " ".join(kept) or question


_MARKS: Final = " ?!.,;:¿¡\"'()"
_ENGLISH: Final = frozenset({"vegan", "restaurant", "restaurants", "free", "minutes", "dessert", "desserts", "open"})


def glossed(question: str, language: str) -> str:
    """The question with its constraints in English."""
    if language == "en":
        return question
    known = glossary(language)

    def english(match: re.Match[str]) -> str:
        said = match.group()
        number = re.search(r"\d+", said)
        key = said.replace(number.group(), _NUMBER, 1) if number and said not in known.terms else said
        meant = known.terms.get(key, said)
        return f" {meant.replace(_NUMBER, number.group()) if number else meant} "

    text = question.replace("¿", " ").replace("¡", " ").replace("？", "?").replace("ß", "ss")
    if language == "ja":
        text = _YEAR.sub(r" in \1 ", _MONTH_DAY.sub(_spelt_month, text))
    else:
        text = _DAY_MONTH.sub(_spelt_day, text)
    text = _INVERTED.sub(r"\g<verb> \g<who> ", text, count=1) if language == "fr" else text
    text = _TAKEN_ALONG.sub(r"ist \g<who> erlaubt \g<where>", text, count=1) if language == "de" else text
    text = _NOUN_FOR.sub(r"\g<thing> ", text) if language == "fr" else text
    text = _WHETHER.sub("do you have ", text, count=1)
    text = _ALLOWED.sub("is allowed ", text, count=1)
    text = _kept_apart(text) if language == "fr" else text
    plain = fold_length_kept(text)
    pieces: list[str] = []
    at = 0
    for match in known.pattern.finditer(plain):
        pieces += [text[at : match.start()], english(match)]
        at = match.end()
    pieces.append(text[at:])
    english_words = " ".join("".join(pieces).split())
    if language == "de":
        english_words = _VERB_LAST.sub(r"\g<can> \g<verb> \g<what>", english_words)
    if language != "ja":
        return asks_first(_OF.sub(" ", english_words) if language in ("fr", "es") else english_words)
    turned = _THERE_LAST.sub(r"is there \1?", _AFTER.sub(r"\2 \1", english_words))
    return " ".join(_PARTICLE.sub(" ", _COST_LAST.sub(r"how much is \1?", turned)).split())


_OF: Final = re.compile(r"\s(?:de|d['’]|l['’])\s|\s(?:d|l)['’](?=[^\W\d_]{3})", re.IGNORECASE)


def _spelt_day(match: re.Match[str]) -> str:
    """ "Samstag, den 28.11." as "on 28 November": the day of the month says more than that of the week."""
    year = f" 20{match['year'][-2:]}" if match["year"] else ""
    return f" on {int(match['day'])} {MONTHS[int(match['month']) - 1]}{year} "


_DAY_MONTH: Final = re.compile(
    r"(?:(?:\b(?:am|le|el|du|vom|den)\s+)?(?:\b(?:montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonnabend|sonntag|lundi|mardi|mercredi"
    r"|jeudi|vendredi|samedi|dimanche|lunes|martes|mi[eé]rcoles|jueves|viernes|s[aá]bado|domingo)\b,?\s+)?(?:\b(?:am|den|dem|le|el|du|vom)\s+)?)"
    r"\b(?P<day>0?[1-9]|[12]\d|3[01])[./]\s?(?P<month>0?[1-9]|1[0-2])(?:(?P<year>(?<=\d)[./]\s?(?:20)?\d\d)|\.(?!\d)|(?<=/\d\d)(?!\d))",
    re.IGNORECASE,
)


# "¿Tienen …?" asks whether there is something here, not what something contains.
_WHETHER: Final = re.compile(
    r"^\W*(?:tienen\s+(?:ustedes\s+)?|ten[ée]is\s+|venden\s+|avez-vous\s+|vendez-vous\s+|habt\s+ihr\s+|haben\s+sie\s+|verkauft\s+ihr\s+)",
    re.IGNORECASE,
)
# "¿Se admiten …?" asks whether something is allowed.
_ALLOWED: Final = re.compile(
    r"^\W*(?:se\s+(?:admit|permit|acept)en?|admit[eí]n?s?|acept[aá][ni]s?|acceptez-vous|accepte-t-on|est-ce\s+que\s+vous\s+acceptez"
    r"|erlauben\s+sie|erlaubt\s+ihr|akzeptieren\s+sie|akzeptiert\s+ihr)\s+",
    re.IGNORECASE,
)
# French asks "the pool is it open?".
_INVERTED: Final = re.compile(
    r"^\W*(?P<who>(?:l[ea]s?\s|l['’]|une?\s|mes\s|mon\s|ma\s|ce\s|cette\s)[^?!.,;:]{1,60}?)\s+(?P<verb>est|sont)-(?:ils?|elles?)\s+",
    re.IGNORECASE,
)
# German asks "may my dog with in the garden?".
_TAKEN_ALONG: Final = re.compile(
    r"\b(?:darf|dürfen|kann|können)\s+(?P<who>(?:(?:mein|unser|ein|der|die|das)\w*\s+)?\w+)\s+(?:auch\s+)?mit"
    r"(?:kommen)?(?:\s+(?P<where>(?:in|ins|zu|zum|zur|auf|nach|an)\b)|(?=\W*$))",
    re.IGNORECASE,
)
# "Tasse à thé" is a kind of cup, and in no tea.
_NOUN_FOR: Final = re.compile(
    r"\b(?P<thing>\w{3,})\s+à\s+(?=(?:thé|pain|eau|vin|bière|lait|fromage|gâteaux?|glace|linge|outils?|main|dents|roulettes|chaussures"
    r"|livres?|vélos?|bagages?|voile|rames?|moteur|air|gaz|bois|coudre|tricoter|manger|laver|dessin|gravure)\b)",
    re.IGNORECASE,
)
# 12月5日 is the fifth of December, 2027年3月 is March 2027.
_MONTH_DAY: Final = re.compile(
    r"(?<!\d)(?:(?P<year>(?:19|20)\d\d)年\s?)?(?P<month>1[0-2]|0?[1-9])月(?:(?P<day>3[01]|[12]\d|0?[1-9])日)?"
)
_YEAR: Final = re.compile(r"(?<!\d)((?:19|20)\d\d)年(?!間)")


def _spelt_month(match: re.Match[str]) -> str:
    if not match["year"] and not match["day"]:
        return match.group()
    month = MONTHS[int(match["month"]) - 1]
    if not match["day"]:
        return f" in {month} {match['year']} "
    if match["year"]:
        return f" {int(match['day'])} {month} {match['year']} "
    return f" {month} {int(match['day'])} "  # "5 december events" are five


# German says "where can I with my dog stay?".
_VERB_LAST: Final = re.compile(
    r"\b(?P<can>(?:where\s+)?can\s+i)\s+(?P<what>[^?]{1,80}?)\s+(?P<verb>stay|übernachten|eat|essen|buy|kaufen|rent|mieten|borrow|park|parken|bring|swim|schwimmen)(?=\W*$)",
    re.IGNORECASE,
)
# Japanese says "eggs without"; English the other way round.
# Only from the start of a run, so that a long run without spaces is read once and not from each of its characters.
_AFTER: Final = re.compile(r"(?<![\u3040-\u30ff\u3400-\u9fff])([\u3040-\u30ff\u3400-\u9fff]+)\s(without|with|except)\b")


# And "an electric car is there?".
_THERE_LAST: Final = re.compile(r"^([^?]{1,80}?)[はがも]?\s+is\s+there\s*\?[?\s]*$")


# And "the course fee is how much?".
_COST_LAST: Final = re.compile(r"^([^?]{1,80}?)の?(?:料金|値段|価格|費用)?[はがも]?\s+how\s+much\s*\?+$")


# A particle that is left between two translated words says nothing.
_PARTICLE: Final = re.compile(r"(?<!\S)[のはがをにでへ](?!\S)")


def _phrase(term: str) -> str:
    return re.escape(term).replace(re.escape(_NUMBER), r"\d{1,4}")


def _lines(name: str) -> list[str]:
    text = (files(__package__) / "glossaries" / name).read_text(encoding="utf-8")
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
