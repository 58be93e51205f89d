"""The files of phrases: one line for a tag, each tag once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sabir.agents.control import languages
from sabir.agents.control.languages.forms import FORMS

FILES = sorted(Path(languages.__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_line_of_a_language_is_a_tag_a_continuation_or_a_comment(file: Path) -> None:
    lines = file.read_text(encoding="utf-8").splitlines()
    invalid = [line for line in lines if not re.fullmatch(r"# .+|[a-z_]+(:\S+)? = \S.*|    \S.*", line)]
    assert invalid == []
    tags = [line.partition(" = ")[0] for line in lines if line[0] not in "# "]
    assert len(tags) == len(set(tags)), "a tag is there twice"
    table = languages.table_of(file.stem)
    assert {tag for tag in tags if not tag.startswith(("set:", "verbs:"))} <= set(table)
    assert not any(mark in phrases for phrases in table.values() for mark in "()[]{}"), "brackets inside brackets"
    assert all(phrase.strip() for phrases in table.values() for phrase in phrases.split("|")), "an empty phrase"


@pytest.mark.parametrize(
    ("language", "verb", "form"),
    [
        ("english", "throw…away", "throw…away"),
        ("english", "scrap:scrapp", "scrapping"),
        ("german", "weg+werfen:wirf:geworfen", "wirf…weg"),
        ("german", "weg+werfen:wirf:geworfen", "wegzuwerfen"),
        ("german", "löschen", "gelöscht"),
        ("spanish", "borrar", "bórralo"),
        ("spanish", "borrar", "borrármelo"),
        ("spanish", "limpiar", "límpialas"),
        ("spanish", "guardar", "guárdamelo"),
        ("spanish", "cerrar:cierr", "ciérralo"),
        ("spanish", "finalizar", "finalice"),
        ("spanish", "guardar", "guardarías"),
        ("english", "store", "stored"),
        ("german", "ein+schalten", "einschaltest"),
        ("german", "löschen", "löschst du"),
        ("french", "activer", "activeriez vous"),
        ("french", "effacer", "effaçais"),
        ("french", "effacer", "effaçons"),
        ("french", "jeter:jett", "jette le"),
    ],
)
def test_the_forms_of_a_verb_are_made_by_rule(language: str, verb: str, form: str) -> None:
    assert form in [made for forms in FORMS[language](verb).values() for made in forms]
