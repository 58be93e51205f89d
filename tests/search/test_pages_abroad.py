"""What pages say in German, Spanish, French and Japanese answers questions in these languages, as it does in English
(issue 15): rules, ages, what is provided, opening hours, prices and dates that stand in sentences."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sabir.search import LocalIndex, ingest

from .asking import Judged, answered, says_no, says_yes

SITE = "https://pool.example"
# By language: the name of each page and what it says.
PAGES = {
    "en": {
        "rules": (
            "Pool Rules",
            "Bathing caps are mandatory for everyone, babies too. Smoking is forbidden on the terrace.",
        ),
        "slide": ("Giant Slide", "Forty metres of bends. Forbidden for children under 8 years."),
        "sauna": ("Finnish Sauna", "Two hot rooms and a cold tub. Reserved for adults."),
        "yoga": ("Gentle Yoga", "Slow stretching. Mats are provided."),
        "repairs": ("January Repairs", "The basins are closed from 4 to 17 January 2027. The gym stays open."),
        "contact": ("Contact Us", "Course office: 0161 496 0447, on weekdays."),
    },
    "de": {
        "rules": (
            "Badeordnung",
            "Badekappen sind für alle Pflicht, auch für Babys. Rauchen ist auf der Terrasse verboten.",
        ),
        "slide": ("Riesenrutsche", "Vierzig Meter Kurven. Für Kinder unter 8 Jahren verboten."),
        "sauna": ("Finnische Sauna", "Zwei heiße Räume und ein kaltes Becken. Nur für Erwachsene."),
        "yoga": ("Sanftes Yoga", "Langsames Dehnen. Matten werden gestellt."),
        "repairs": (
            "Revision im Januar",
            "Die Becken sind vom 4. bis 17. Januar 2027 geschlossen. Der Kraftraum bleibt offen.",
        ),
        "contact": ("Kontakt", "Kursbüro: 0161 496 0447, an Werktagen."),
    },
    "es": {
        "rules": (
            "Normas de la piscina",
            "El gorro es obligatorio para todos, también para bebés. Está prohibido fumar en la terraza.",
        ),
        "slide": ("Tobogán gigante", "Cuarenta metros de curvas. Prohibido para niños menores de 8 años."),
        "sauna": ("Sauna finlandesa", "Dos salas calientes y una pila fría. Solo para adultos."),
        "yoga": ("Yoga suave", "Estiramientos lentos. Esterillas incluidas."),
        "repairs": (
            "Obras de enero",
            "Las piscinas están cerradas del 4 al 17 de enero de 2027. El gimnasio sigue abierto.",
        ),
        "contact": ("Contacto", "Oficina de cursos: 0161 496 0447, de lunes a viernes."),
    },
    "fr": {
        "rules": (
            "Règlement",
            "Le bonnet est obligatoire pour tous, bébés compris. Il est interdit de fumer sur la terrasse.",
        ),
        "slide": ("Toboggan géant", "Quarante mètres de virages. Interdit aux enfants de moins de 8 ans."),
        "sauna": ("Sauna finlandais", "Deux salles chaudes et un bain froid. Réservé aux adultes."),
        "yoga": ("Yoga doux", "Étirements lents, tapis prêtés."),
        "repairs": (
            "Travaux de janvier",
            "Les bassins sont fermés du lundi 4 au dimanche 17 janvier 2027. La salle de sport reste ouverte.",
        ),
        "contact": ("Nous joindre", "Bureau des cours : 0161 496 0447, du lundi au vendredi."),
    },
}  # fmt: skip
YES_NO = [
    ("en", "do babies have to wear a bathing cap?", "rules", True),
    ("de", "ist eine Badekappe auch für Babys Pflicht?", "rules", True),
    ("es", "¿el gorro es obligatorio para bebés?", "rules", True),
    ("fr", "le bonnet c'est obligatoire aussi pour un bébé ?", "rules", True),
    ("en", "is smoking forbidden on the terrace?", "rules", True),
    ("de", "ist Rauchen auf der Terrasse verboten?", "rules", True),
    ("es", "¿está prohibido fumar en la terraza?", "rules", True),
    ("en", "my son is 6, can he use the giant slide?", "slide", False),
    ("de", "mein Sohn ist 6, darf er auf die Riesenrutsche?", "slide", False),
    ("fr", "mon fils a 6 ans, il a droit au toboggan géant ?", "slide", False),
    ("es", "¿un niño de 6 años puede usar el tobogán gigante?", "slide", False),
    ("en", "can my daughter, who is 15, come to the finnish sauna?", "sauna", False),
    ("fr", "est-ce que ma fille de 15 ans peut aller au sauna finlandais ?", "sauna", False),
    ("en", "must I bring a mat to gentle yoga?", "yoga", False),
    ("fr", "il faut apporter un tapis au yoga doux ?", "yoga", False),
    ("fr", "est-ce que la salle de sport reste ouverte en janvier", "repairs", True),
]
FACTS = [
    ("en", "until when are the basins closed in january", "repairs", "17 January"),
    ("de", "bis wann sind die Becken im Januar geschlossen", "repairs", "17. Januar"),
    ("es", "¿hasta cuándo están cerradas las piscinas en enero?", "repairs", "17 de enero"),
    ("fr", "jusqu'à quand les bassins sont fermés en janvier", "repairs", "17 janvier"),
    ("en", "phone number of the course office", "contact", "0447"),
    ("de", "Telefonnummer vom Kursbüro", "contact", "0447"),
    ("es", "teléfono de la oficina de cursos", "contact", "0447"),
    ("fr", "numéro de téléphone du bureau des cours", "contact", "0447"),
]


async def _pool(folder: Path, language: str) -> LocalIndex:
    things = [
        {"@type": "Article", "@id": f"{SITE}/{page}", "url": f"{SITE}/{page}", "name": name, "description": said,
         "inLanguage": language}
        for page, (name, said) in PAGES[language].items()
    ]  # fmt: skip
    feed = folder / "feed.jsonl"
    feed.write_text("\n".join(map(json.dumps, things)), encoding="utf-8")
    index = LocalIndex(None, None)
    await ingest(index, str(feed), site="pool.example")
    return index


@pytest.mark.parametrize(("language", "question", "page", "is_so"), YES_NO)
async def test_a_rule_of_a_page_is_stated_in_any_language(
    tmp_path: Path, language: str, question: str, page: str, is_so: bool
) -> None:
    index = await _pool(tmp_path, language)
    answer = await answered(index, Judged("yes/no", question))
    await index.close()
    assert answer.ids[:1] == (f"{SITE}/{page}",), answer.text
    assert (says_yes(answer.text), says_no(answer.text)) == (is_so, not is_so), answer.text


@pytest.mark.parametrize(("language", "question", "page", "fact"), FACTS)
async def test_a_fact_of_a_page_is_stated_in_any_language(
    tmp_path: Path, language: str, question: str, page: str, fact: str
) -> None:
    index = await _pool(tmp_path, language)
    answer = await answered(index, Judged("fact", question))
    await index.close()
    assert answer.ids[:1] == (f"{SITE}/{page}",), answer.text
    assert fact in answer.text.splitlines()[0], answer.text


COURSES = {
    "courses": ("en", "name,price,currency,availability,day,teacher,venue", "Monday", "sold out", "available"),
    "kurse": (
        "de",
        "name,preis,währung,verfügbarkeit,tag,kursleitung,veranstaltungsort", "Montag", "ausgebucht", "frei",
    ),
    "cursos": ("es", "nombre,precio,moneda,disponibilidad,día,profesora,lugar", "lunes", "completo", "plazas libres"),
    "cours": ("fr", "nom,prix,devise,disponibilité,jour,encadrant,lieu", "lundi", "complet", "places disponibles"),
}  # fmt: skip
WEDNESDAY = {"en": "Wednesday", "de": "Mittwoch", "es": "miércoles", "fr": "mercredi"}


@pytest.mark.parametrize(
    ("table", "question", "only"),
    [
        ("courses", "courses on Monday", "pilates"),
        ("kurse", "Kurse am Montag", "pilates"),
        ("cursos", "cursos los lunes", "pilates"),
        ("cours", "cours du lundi", "pilates"),
        ("courses", "which courses are sold out", "judo"),
        ("kurse", "welche Kurse sind ausgebucht", "judo"),
        ("cursos", "qué cursos están completos", "judo"),
        ("cours", "quels cours sont complets", "judo"),
        ("courses", "courses at the dojo", "pilates judo"),
        ("cours", "les cours qui se passent au dojo", "pilates judo"),
    ],
)
async def test_a_table_of_courses_is_filtered_in_any_language(
    tmp_path: Path, table: str, question: str, only: str
) -> None:
    language, header, monday, full, free = COURSES[table]
    rows = (
        f"Pilates,40,EUR,{free},{monday},Ana Ruiz,Dojo",
        f"Judo,50,EUR,{full},{WEDNESDAY[language]},Tim Okada,Dojo",
        f"Aquagym,60,EUR,{free},{WEDNESDAY[language]},Mia Holt,Piscine",
    )
    sheet = tmp_path / f"{table}.csv"
    sheet.write_text("\n".join((f"url,{header}", *(f"{SITE}/{row.split(',')[0].lower()},{row}" for row in rows))))
    index = LocalIndex(None, None)
    await ingest(index, str(sheet), site="pool.example")
    answer = await answered(index, Judged("filter", question))
    await index.close()
    assert {one.rsplit("/", 1)[-1] for one in answer.ids} == set(only.split()), answer.text
