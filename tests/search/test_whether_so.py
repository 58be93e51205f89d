"""Questions for yes or no that no rule decides are decided by the statement that most likely does (issue 15)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sabir.agents.site.stating import SiteQuestion
from sabir.agents.site.subject import Subject
from sabir.agents.site.whether_so import Evidence, Ruling, overruled
from sabir.search import Hit, Item, LocalIndex, MiniLM, ingest
from sabir.search.answers.leaning import agrees, clause_meant
from sabir.search.answers.polarity import says
from sabir.search.answers.reading import same
from sabir.search.query.asking import Asked, asks_whether
from sabir.search.query.glossary import glossed, language_of
from sabir.search.query.stated import in_english
from sabir.search.query.words import tokens

from .asking import NOW, Judged, answered, says_no, says_yes

SITE = "https://hostel.example"
# By language: the site's own questions with their answers, and pages with what they say.
QUESTIONS = {
    "en": (
        ("Can I leave my luggage?", "Yes, from noon and until eight in the evening, without charge."),
        ("Do you have wheelchairs?", "Two, free to borrow, at the main entrance."),
        ("Can I sublet or use Airbnb?", "No."),
        ("Do you sell gift cards?", "Yes, from £10 to £200, at the till."),
        ("Do you deliver?", "Yes, on the mainland. Not to the islands."),
    ),
    "de": (
        ("Kann ich mein Gepäck abgeben?", "Ja, ab zwölf Uhr und bis acht Uhr abends, kostenlos."),
        ("Darf man im Zimmer kochen?", "Nein, dafür gibt es die Küche im Erdgeschoss."),
    ),
    "es": (
        ("¿Puedo dejar el equipaje?", "Sí, antes de la entrada y hasta las 20:00, sin coste."),
        ("¿Se puede cocinar en la habitación?", "No, para eso está la cocina de la planta baja."),
    ),
    "fr": (
        ("Peut-on louer une serviette ?", "Oui, à l’accueil, pour 2 € et une pièce d’identité en dépôt."),
        ("Peut-on cuisiner dans la chambre ?", "Non, la cuisine du rez-de-chaussée est là pour ça."),
    ),
}
PAGES = {
    "en": (
        ("Robin Hood", "Our pantomime for ages 4 and up. The relaxed performance is on 13 December."),
        ("Postage", "What it costs. The last day for Christmas orders with Tracked 24 is 21 December."),
        ("12 Priory Road", "A student house with a garden and desks in every room. Bills are not included."),
        ("Getting Here", "The car park in Market Street is free after 18:00. The station is ten minutes away."),
        ("The Café", "Dogs are welcome in the courtyard, but not inside. Open from nine."),
    ),
    "de": (("Anreise", "Der Parkplatz am Markt ist ab 18 Uhr kostenlos."),),
    "es": (("Cómo llegar", "El aparcamiento de la plaza es gratuito a partir de las 18:00."),),
    "fr": (("Accès", "Le parking de la place est gratuit après 18 heures."),),
}
DECIDED = [
    ("en", "is there a wheelchair my nan could borrow", True),
    ("en", "can i put my room on airbnb when i'm away", False),
    ("en", "does 12 priory road come with bills paid", False),
    ("en", "is the car park free in the evening after six", True),
    ("en", "can the dog come inside the café with us", False),
    ("de", "kann ich meinen Rucksack und mein Gepäck vor zwölf Uhr abgeben?", True),
    ("es", "puedo dejar la mochila antes de la hora de entrada?", True),
    ("fr", "j'ai oublié ma serviette, on peut en louer une chez vous ?", True),
]
# Nothing here says so: neither yes nor no may be said.
UNDECIDED = [
    ("en", "can I land a helicopter on the roof"),
    ("en", "do you have a laptop for sale"),
    ("en", "is the manager married"),
    ("de", "kann ich auf dem Dach mit dem Hubschrauber landen?"),
    ("es", "¿puedo aterrizar un helicóptero en el tejado?"),
    ("fr", "peut-on poser un hélicoptère sur le toit ?"),
]


async def _index(language: str, folder: Path) -> LocalIndex:
    things = [
        {
            "@type": "Question",
            "@id": f"{SITE}/faq#{place}",
            "name": name,
            "acceptedAnswer": {"@type": "Answer", "text": answer},
        }
        for place, (name, answer) in enumerate(QUESTIONS[language])
    ]
    things += [
        {"@type": "WebPage", "@id": f"{SITE}/page/{place}", "name": name, "description": said}
        for place, (name, said) in enumerate(PAGES[language])
    ]
    file = folder / "site.jsonl"
    file.write_text("\n".join(json.dumps({"@context": "https://schema.org", **thing}) for thing in things))
    index = LocalIndex(None, MiniLM())
    await ingest(index, str(file), site="hostel.example")
    await index.settled()
    return index


@pytest.mark.parametrize(("language", "question", "is_so"), DECIDED)
async def test_what_the_site_says_decides_a_question_in_other_words(
    language: str, question: str, is_so: bool, tmp_path: Path
) -> None:
    index = await _index(language, tmp_path)
    answer = await answered(index, Judged("yes/no", question))
    await index.close()
    assert (says_yes(answer.text), says_no(answer.text)) == (is_so, not is_so), answer.text


@pytest.mark.parametrize(("language", "question"), UNDECIDED)
async def test_neither_yes_nor_no_is_said_of_what_the_site_does_not_say(
    language: str, question: str, tmp_path: Path
) -> None:
    index = await _index(language, tmp_path)
    answer = await answered(index, Judged("yes/no", question))
    await index.close()
    assert not says_yes(answer.text) and not says_no(answer.text), answer.text


async def test_the_answer_of_one_of_the_sites_questions_names_that_question(tmp_path: Path) -> None:
    index = await _index("en", tmp_path)
    answer = await answered(index, Judged("yes/no", "can i put my room on airbnb when i'm away"))
    await index.close()
    assert answer.text.splitlines()[0] == "No. (Can I sublet or use Airbnb?)"


@pytest.mark.parametrize(
    ("question", "fact"),
    [
        ("date of the relaxed performance", "13 December"),
        ("last day to order with Tracked 24 so it gets here for christmas", "21 December"),
    ],
)
async def test_a_fact_may_be_asked_for_by_its_name_alone(question: str, fact: str, tmp_path: Path) -> None:
    index = await _index("en", tmp_path)
    answer = await answered(index, Judged("date", question))
    await index.close()
    assert fact in answer.text.splitlines()[0]


async def test_yes_is_no_answer_to_how_much(tmp_path: Path) -> None:
    index = await _index("en", tmp_path)
    answer = await answered(index, Judged("fact", "how much is the loyalty card for a pensioner"))
    await index.close()
    assert not says_yes(answer.text)


async def test_without_vectors_nothing_is_compared(tmp_path: Path) -> None:
    file = tmp_path / "site.jsonl"
    file.write_text(
        json.dumps({"@type": "WebPage", "@id": f"{SITE}/a", "name": "Getting Here", "description": "Free."})
    )
    index = LocalIndex(None, None)
    await ingest(index, str(file), site="hostel.example")
    answer = await answered(index, Judged("yes/no", "does it cost anything to get there by car"))
    await index.close()
    assert not says_yes(answer.text) and not says_no(answer.text)


COURTYARD = "Dogs are welcome in the courtyard, but not inside."
CARDS = "We take Visa, but not American Express."


@pytest.mark.parametrize(
    ("sentence", "words", "is_so"),
    [
        (COURTYARD, ["dog", "inside"], False),
        (COURTYARD, ["dog", "courtyard"], True),
        (COURTYARD, ["dog"], True),
        (CARDS, ["take", "american", "express"], False),
        (CARDS, ["take", "visa"], True),
        ("Hens are allowed, cockerels are not.", ["hen"], True),
        ("Hens are allowed, cockerels are not.", ["cockerel"], False),
    ],
)
def test_the_clause_that_has_what_is_asked_decides(sentence: str, words: list[str], is_so: bool) -> None:
    assert says(sentence, words, same) is is_so
    is_denied = any(word in clause_meant(sentence, words) for word in ("not", "except"))
    assert is_denied is not is_so


@pytest.mark.parametrize(
    ("question", "is_whether"),
    [
        ("are you accepting new patients", True),
        ("my cat never goes outside, does she still need jabs", True),
        ("if i live far away can i see a flat by video", True),
        ("we have a pushchair, is that ok?", True),
        ("on peut y louer une raquette ?", True),
        ("peut-on régler un cours en plusieurs fois ?", True),
        ("hay algo para cenar sin carne?", True),
        ("darf ich in der Wohnung rauchen?", True),
        ("how much is the loyalty card for a pensioner", False),
        ("could you tell me what two hours of sauna cost?", False),
        ("which flat could I move into before the end of November", False),
        ("combien de temps gardez-vous les affaires oubliées ?", False),
        ("¿quién da las clases?", False),
        ("wann macht ihr zu?", False),
        ("phone number of the agent for student houses", False),
    ],
)
def test_questions_for_yes_or_no_are_known_however_they_begin(question: str, is_whether: bool) -> None:
    assert asks_whether(question, glossed(question, language_of(question))) is is_whether


@pytest.mark.parametrize(
    ("language", "sentence", "is_so"),
    [
        ("en", "Yes, for two pounds.", True),
        ("de", "Ja, für zwei Euro.", True),
        ("es", "Sí, por dos euros.", True),
        ("fr", "Oui, pour deux euros.", True),
        ("en", "No, never.", False),
        ("de", "Nein, nie.", False),
        ("es", "No, nunca.", False),
        ("fr", "Non, jamais.", False),
    ],
)
def test_yes_and_no_at_the_start_of_an_answer_are_read_in_every_language(
    language: str, sentence: str, is_so: bool
) -> None:
    for text in (sentence, *((in_english(sentence, language),) if is_so else ())):
        assert agrees(text, is_so=is_so) and not agrees(text, is_so=not is_so)


RULED = "Yes. The Café: open 9:00 to 17:00."


@pytest.mark.parametrize(
    ("stated", "evidence", "overrules"),
    [
        (RULED, "The café is closed on 25 December.", True),
        ("No. The Café: open on weekdays.", "The café is closed on 25 December.", False),  # they agree
        (
            "Yes. The café is closed on 25 December.",
            "The café is closed on 25 December.",
            False,
        ),  # one sentence, read twice
        ("Yes. The Café: open at Christmas.", "The café is closed on 25 December.", False),  # it is not about Christmas
        ("Yes. The Café: pets – no.", "The café is closed on 25 December.", False),  # a field that says no
    ],
)
async def test_a_rule_is_overruled_by_another_statement_that_has_all_that_it_has(
    stated: str, evidence: str, overrules: bool
) -> None:
    item = Item(id="a", site="s", types=("WebPage",), name="The Café", description="", text="", fields={})
    hit = Hit(item, 50.0)
    subject = Subject(hit, Asked(), "is the café open at christmas", stated)
    index = LocalIndex(None, None)
    known = await index.fields()
    question = SiteQuestion("is the café open at christmas", "en", index, (), known, NOW, subject=subject)
    found = Ruling(
        is_so=False, likely=0.9, evidence=Evidence(hit, 0, evidence, evidence, tokens(evidence)), share=0.9, leans=0.9
    )
    assert overruled(found, question) is overrules
    await index.close()
