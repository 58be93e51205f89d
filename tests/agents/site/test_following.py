"""A second question in a conversation: it goes on with the thing before, or names a thing or a kind of its own."""

from __future__ import annotations

import pytest

from search.asking import Judged, answered, opened

LIGHT, PARADE, BILGE = (
    "how do I get to the lighthouse",
    "when is the Lantern Parade?",
    "what are the opening hours of The Bilge?",
)
DAL = "how long does the chana masala take?"

NEW = (
    # English
    (LIGHT, "what's the phone number of the bike shop"),
    (LIGHT, "what time does the library close?"),
    (LIGHT, "are there any free concerts?"),
    (LIGHT, "where can I buy flowers?"),
    (PARADE, "how much is the rocking chair?"),
    (PARADE, "what's the address of the pharmacy?"),
    (BILGE, "is the swimming pool open on Sundays?"),
    (BILGE, "is there a vet in town?"),
    (DAL, "what is the phone number of the ferry?"),
    # German
    ("wie komme ich zum Leuchtturm", "wie ist die Telefonnummer vom Fahrradladen?"),
    (LIGHT, "gibt es kostenlose Konzerte?"),
    (PARADE, "wann hat die Bibliothek geöffnet?"),
    (PARADE, "wo ist die Apotheke?"),
    (BILGE, "wie teuer ist der Schaukelstuhl?"),
    (BILGE, "gibt es ein Schwimmbad?"),
    # Spanish
    (LIGHT, "¿cuál es el teléfono de la tienda de bicicletas?"),
    (LIGHT, "¿hay conciertos gratis?"),
    (PARADE, "¿a qué hora abre la biblioteca?"),
    (PARADE, "¿dónde está la farmacia?"),
    (BILGE, "¿cuánto cuesta la mecedora?"),
    (BILGE, "¿hay un museo?"),
    # French
    (LIGHT, "y a-t-il des concerts gratuits ?"),
    (LIGHT, "quel est le numéro de téléphone du magasin de vélos ?"),
    (PARADE, "à quelle heure ferme la bibliothèque ?"),
    (PARADE, "où est la pharmacie ?"),
    (BILGE, "combien coûte la bouilloire ?"),
    (BILGE, "y a-t-il une piscine ?"),
    # Japanese
    (LIGHT, "自転車屋の電話番号は？"),
    (LIGHT, "無料のコンサートはありますか"),
    (PARADE, "図書館は何時に閉まりますか"),
    (PARADE, "薬局はどこですか"),
    (BILGE, "美術館はありますか"),
)
FOLLOWING = (
    # English
    (LIGHT, "and on Tuesday?"),
    (LIGHT, "is it open now?"),
    (LIGHT, "what's the phone number?"),
    (LIGHT, "how much is it?"),
    (BILGE, "and the address?"),
    (BILGE, "do they take reservations?"),
    (PARADE, "where is it?"),
    (PARADE, "how much does it cost?"),
    (DAL, "how many people does it serve?"),
    (DAL, "how many calories?"),
    # German
    (LIGHT, "und wie teuer?"),
    (LIGHT, "ist es heute geöffnet?"),
    ("wann ist die Lantern Parade?", "und was kostet das?"),
    ("wann ist die Lantern Parade?", "wo ist das?"),
    (BILGE, "und die Adresse?"),
    (BILGE, "wie ist die Telefonnummer?"),
    # Spanish
    (LIGHT, "¿y cuánto cuesta?"),
    (LIGHT, "¿está abierto hoy?"),
    (PARADE, "¿dónde es?"),
    (PARADE, "¿y cuánto cuesta?"),
    (BILGE, "¿cuál es la dirección?"),
    (BILGE, "¿y el teléfono?"),
    # French
    (LIGHT, "et combien ça coûte ?"),
    (LIGHT, "c'est ouvert aujourd'hui ?"),
    (PARADE, "c'est où ?"),
    (PARADE, "et combien ça coûte ?"),
    (BILGE, "et l'adresse ?"),
    (BILGE, "quel est le numéro de téléphone ?"),
    # Japanese
    (LIGHT, "いくらですか"),
    (LIGHT, "営業時間は？"),
    (PARADE, "どこですか"),
    (BILGE, "電話番号は？"),
    (BILGE, "住所は？"),
)


@pytest.mark.parametrize(("first", "second"), NEW)
async def test_a_question_that_names_its_own_thing_is_answered_as_if_it_came_alone(first: str, second: str) -> None:
    index = await opened("harbour", vectors=False)
    alone = await answered(index, Judged("new", second))
    behind = await answered(index, Judged("new", second, (first,)))
    assert (behind.ids, behind.text) == (alone.ids, alone.text)


@pytest.mark.parametrize(("first", "second"), FOLLOWING)
async def test_a_question_that_names_nothing_goes_on_with_the_thing_before(first: str, second: str) -> None:
    index = await opened("harbour", vectors=False)
    before = await answered(index, Judged("follow-up", first))
    behind = await answered(index, Judged("follow-up", second, (first,)))
    assert behind.ids[:1] == before.ids[:1], behind.text
