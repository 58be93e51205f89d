"""Words in German, Spanish and French are found in their other forms, by the rules of their own language."""

from __future__ import annotations

import pytest

from sabir.search import Item, LocalIndex, SearchQuery
from sabir.search.engine.stems import stems

# The language, what an item says, and questions with another form of its word; none is found by an English stem.
FORMS = [
    ("de", "Häuser am See", "Wo ist das Haus?"),
    ("de", "Häuser am See", "places with Haus"),
    ("de", "Gebackene Äpfel", "Wie mache ich einen gebackenen Fisch?"),
    ("es", "Coplas cantadas", "¿Dónde se puede cantar?"),
    ("fr", "Chevaux de trait", "Où est le cheval ?"),
]


@pytest.mark.parametrize(("language", "said", "asked"), FORMS)
async def test_other_forms_of_a_word_are_found(language: str, said: str, asked: str) -> None:
    async with LocalIndex(None, None) as index:
        right = Item(site="a.example", id="right", name=said, types=("Article",), fields={"inLanguage": language})
        other = Item(site="a.example", id="other", name="Zebra", types=("Article",), fields={"inLanguage": language})
        await index.put([right, other])
        found = await index.search(SearchQuery(asked))
    assert [hit.item.id for hit in found.hits] == ["right"]


@pytest.mark.parametrize(
    ("language", "one", "many", "stop"),
    [
        ("de", "Kartoffel", "Kartoffeln", "nicht"),
        ("es", "canción", "canciones", "también"),
        ("fr", "cheval", "chevaux", "avec"),
    ],
)
def test_each_language_has_its_own_stems_and_stop_words(language: str, one: str, many: str, stop: str) -> None:
    assert stems(one, language) == stems(many, language) != []
    assert stems(stop, language) == []


def test_english_is_left_to_the_index() -> None:
    assert stems("potatoes", "en") == []
