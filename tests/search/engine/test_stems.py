"""Words in German, Spanish and French are found in their other forms, by the rules of their own language."""

from __future__ import annotations

import pytest

from sabir.search.engine.stems import stems


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
