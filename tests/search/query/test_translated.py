"""Questions in the words of a site in another language (issue 15)."""

from __future__ import annotations

import pytest

from sabir.search.query.glossary import FUNCTION_WORDS, glossed, language_of
from sabir.search.query.translated import in_words_of, parts, translations


async def _asked(question: str, language: str, words: str, *, is_foreign: bool = True) -> str:
    site = frozenset(words.split())

    async def is_here(forms: tuple[str, ...]) -> bool:
        return not site.isdisjoint(forms)

    return await in_words_of(question, language, is_here, is_foreign=is_foreign)


@pytest.mark.parametrize(
    ("question", "language", "words", "asked"),
    [
        ("Elektroautos", "de", "electric car", "electric cars"),
        ("Hundelizenz", "de", "dog licence", "dog licence"),
        ("installiere", "de", "install", "install"),
        ("Klapprad", "de", "folding bike", "folding bike"),
        ("vélo de route", "fr", "road bike", "road bike"),
        ("vélo route", "fr", "road bike", "road bike"),  # its function words are dropped before
        ("don sang", "fr", "blood donation test", "blood donation"),
        ("signaler nid-de-poule", "fr", "report pothole", "report pothole"),
        ("cambio tema", "es", "change theme", "change theme"),
        ("vacuna contra gripe", "es", "vaccine flu", "vaccine contra flu"),
        ("プラグインの作り方", "ja", "plugin make", "plugin make"),
        ("clases de natación", "es", "swimming class", "class de swimming"),
        ("plantes d'intérieur", "fr", "houseplant", "houseplant"),
        ("バイオリンのレッスン", "ja", "geige unterricht", "geige unterricht"),
        ("Diesel", "de", "diesel", "diesel"),
        ("Boise", "fr", "boise wood", "Boise"),
        ("Zebra", "de", "horse", "Zebra"),
    ],
)
async def test_a_question_is_put_into_the_words_of_a_site_in_another_language(
    question: str, language: str, words: str, asked: str
) -> None:
    assert await _asked(question, language, words) == asked


@pytest.mark.parametrize(
    ("question", "words", "asked"),
    [
        ("the choir", "chor", "the chor"),
        ("the choir", "choir chor", "the choir"),
        ("a zebra saddle", "chor", "a zebra saddle"),
    ],
)
async def test_an_english_word_is_replaced_only_if_the_site_has_the_other(
    question: str, words: str, asked: str
) -> None:
    assert await _asked(question, "en", words, is_foreign=False) == asked


async def test_a_compound_of_the_site_s_own_language_is_taken_apart_only_if_it_has_both_parts() -> None:
    assert await _asked("Klavierkurse", "de", "klavier kurse", is_foreign=False) == "klavier kurse"
    assert await _asked("lieferbar", "de", "liefer bar", is_foreign=False) == "lieferbar"
    assert parts("Klavierkurse") == ("klavier", "kurse")


@pytest.mark.parametrize(
    ("question", "language"),
    [
        ("Elektroautos", "de"),
        ("voitures rouges", "fr"),
        ("plantes d'intérieur", "fr"),
        ("semillas de girasol", "es"),
        ("concerts in Boise", "en"),
        ("job applications closing in november", "en"),
        ("pain relief", "en"),
        ("a gift for the chef", "en"),
        ("bandstand sandbox", "en"),
        ("sandbox administration", "en"),
        ("premier college journal", "en"),
        ("casa marina salon", "en"),
        ("golden land", "en"),
    ],
)
def test_a_language_is_known_by_its_words_for_things(question: str, language: str) -> None:
    assert language_of(question) == language


async def test_a_compound_in_the_table_is_taken_apart_if_the_site_has_only_its_parts() -> None:
    assert await _asked("Sprachkurse", "de", "sprach kurse", is_foreign=False) == "sprach kurse"


@pytest.mark.parametrize(
    ("question", "language", "english"),
    [
        ("Konzerte außer Orgel", "de", "concerts except Orgel"),
        ("Konzert an Silvester", "de", "concerts on new year's eve"),
        ("Wo kann ich mit meinem Hund übernachten?", "de", "where can i stay with my Hund ?"),
        ("¿Tienen recetas?", "es", "do you have recipes ?"),
        ("clases los martes", "es", "clases on tuesdays"),
        ("Quelle voiture a sept places", "fr", "which voiture a 7 places"),
        ("La piscine est-elle ouverte ?", "fr", "is piscine open ?"),
        ("Wie teuer ist der Helm?", "de", "how much is Helm?"),
        ("溶接の料金はいくらですか", "ja", "how much is 溶接?"),
    ],
)
def test_what_a_question_requires_is_read_in_its_language(question: str, language: str, english: str) -> None:
    assert glossed(question, language) == english


def test_every_language_has_function_words_and_translations() -> None:
    assert set(FUNCTION_WORDS) == {"de", "es", "fr"}
    for word, language in (("Garten", "de"), ("jardín", "es"), ("jardin", "fr"), ("庭", "ja")):
        assert "garden" in translations(word, language)
