"""What is proposed where the grammar understands nothing: every act in every language, and never without a yes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sabir.agents.control.guesses import guess, is_flagged, read_likely
from sabir.agents.control.intents import infer_control, read_words
from sabir.agents.control.meanings import MODEL, model, reading_of
from sabir.agents.control.questions import question_for
from sabir.message import Message

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in (HERE / "control_sentences.jsonl").read_text(encoding="utf-8").splitlines()
]
FRESH = [row for row in ROWS if str(row.get("batch", "")).startswith("fresh")]
LANGUAGES = ("en", "de", "es", "fr")
BATCHES = ("fresh 1", "fresh 2", "fresh 3")
MOST_FALSE_QUESTIONS = 0.02
MOST_SECONDS = 0.002
MOST_BYTES = 300_000
# Each act as the grammar does not understand it, with its terms.
PROPOSED: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
    ("accept", {"accept": ["privacy"]}, (
        "The privacy terms are accepted.",
        "Die Datenschutzerklärung ist akzeptiert.",
        "La política de privacidad queda aceptada.",
        "La politique de confidentialité est acceptée.")),
    ("anonymous off", {"propose": False}, (
        "I'd like my name shown again.",
        "Mein Name soll bitte wieder sichtbar sein.",
        "Quiero que se vea mi nombre otra vez.",
        "Je veux que mon nom soit de nouveau visible.")),
    ("anonymous on", {"propose": True}, (
        "My name is nobody's business, keep it secret.",
        "Verrat bitte niemandem meine Identität.",
        "Guárdate para ti quién soy.",
        "Garde pour toi qui je suis.")),
    ("end", {"end": True}, (
        "This session can be closed now, thanks.",
        "Die Sitzung kann jetzt geschlossen werden, danke.",
        "me desconecto, fin de sesión por favor",
        "C'était tout. Ferme-la, s'il te plaît.")),
    ("erase", {"erase": True}, (
        "please to erase this chat",
        "Bitte zu löschen diesen Chat.",
        "Haz que este chat se esfume.",
        "Fais que ce chat s'évapore.")),
    ("formats", {"formats": ["structured/json"]}, (
        "Everything as JSON, please.",
        "Alles als JSON bitte.",
        "Todo como JSON, por favor.",
        "Tout en JSON, s'il te plaît.")),
    ("keeper both", {"keeper": "both"}, (
        "Keep a copy of the context, and so will I.",
        "Behalte eine Kopie des Kontexts, und ich auch.",
        "Guarda una copia del contexto, y yo también.",
        "Garde une copie du contexte, et moi aussi.")),
    ("keeper client", {"keeper": "client"}, (
        "Storing the context will be my job.",
        "Um die Aufbewahrung des Verlaufs kümmere ich mich.",
        "De guardar el historial me ocupo yo.",
        "Je garde l'historique ici avec moi.")),
    ("keeper server", {"keeper": "server"}, (
        "Context storage is up to you, please.",
        "Kümmere du dich bitte um den Verlauf.",
        "Lleva tú la cuenta de la conversación por mí.",
        "Tiens le fil de la conversation pour moi.")),
    ("languages", {"languages": ["french"]}, (
        "Switch the language to French.",
        "Stell die Sprache auf Französisch um.",
        "¿Podría tener tus respuestas en francés?",
        "Passe la langue en français.")),
    ("limits", {"propose": {"body": 4096}}, (
        "My messages will stay under 4 KB, make that the limit.",
        "Meine Nachrichten bleiben unter 4 KB, leg das als Grenze fest.",
        "Mis mensajes no pasarán de 4 KB, pon eso como límite.",
        "Mes messages ne dépasseront pas 4 Ko, mets ça comme limite.")),
    ("stream off", {"on": False}, (
        "Deliver answers in full only.",
        "Halt die Antwort zurück, bis sie vollständig ist.",
        "Entrega las respuestas solo completas.",
        "Livre les réponses seulement complètes.")),
    ("stream on", {"on": True}, (
        "Let me watch the answer grow.",
        "Lass mich zusehen, wie die Antwort wächst.",
        "Déjame ver cómo crece la respuesta.",
        "Laisse-moi voir la réponse grandir.")),
    ("window", {"window": 7}, (
        "Set your memory to 7 turns.",
        "Stell dein Gedächtnis auf 7 Runden.",
        "Pon tu memoria en 7 turnos.",
        "Mets ta mémoire à 7 tours.")),
]  # fmt: skip
PROPOSALS = [(act, terms, said) for act, terms, sentences in PROPOSED for said in sentences]


def test_every_act_is_proposed_in_every_language() -> None:
    acts = {row["act"] for row in ROWS if row["act"]} - {"cancel", "vocabulary", "withhold"}
    assert {act for act, _, _ in PROPOSED} == acts
    assert all(len(sentences) == len(LANGUAGES) for _, _, sentences in PROPOSED)


@pytest.mark.parametrize(("act", "terms", "said"), PROPOSALS, ids=[said for _, _, said in PROPOSALS])
def test_what_the_grammar_does_not_understand_is_proposed_with_its_terms(
    act: str, terms: dict[str, Any], said: str
) -> None:
    strict = read_words(said)
    assert strict is None or not strict.act
    wish = read_likely(said)
    assert wish is not None and (wish.act, dict(wish.value)) == (act, terms)
    assert wish.is_guess
    assert question_for(act, terms) or act in ("erase", "accept")  # these have questions of their own


FLAGGED = (
    "If {}", "Never say: {}", 'He said "{}"', "My boss told me: {}", "Why {}", "Maybe {}", "Wenn {}", "Vielleicht {}",
    "Si {}", "Quizá {}", "Peut-être {}", "{} #2", "({})", "I wonder whether {}", "Ich frage mich, ob {}",
)  # fmt: skip


@pytest.mark.parametrize("around", FLAGGED)
def test_nothing_is_proposed_beside_a_doubt_a_condition_or_a_quotation(around: str) -> None:
    for _, _, said in PROPOSALS:
        wish = read_likely(around.format(said[0].lower() + said[1:]))
        assert wish is None or not wish.act, said


@pytest.mark.parametrize("denial", ["not", "never", "nicht", "niemals", "nunca", "jamais"])
def test_a_sentence_with_a_no_is_flagged(denial: str) -> None:
    languages = {"not": 0, "never": 0, "nicht": 1, "niemals": 1, "nunca": 2, "jamais": 3}
    for act, _, sentences in PROPOSED:
        if act in ("erase", "end", "accept", "keeper client", "keeper server", "keeper both"):
            said = f"{sentences[languages[denial]].rstrip('.')} {denial}"
            assert is_flagged(said, reading_of(said), act), said


@pytest.mark.parametrize(
    "said",
    ["Squeeze your answers.", "Squeeze your answers into 1,500.", "Switch the language.", "Set your memory.",
     "Set a maximum for replies.", "Kürze Antworten.", "Recorta las respuestas.", "Raccourcis les réponses."],
)  # fmt: skip
def test_an_act_without_its_terms_is_not_proposed(said: str) -> None:
    wish = read_likely(said)
    assert wish is None or not wish.act


def test_a_guess_never_acts_and_never_makes_a_message_control() -> None:
    for row in FRESH:
        wish = read_likely(row["sentence"])
        strict = read_words(row["sentence"])
        if wish is not None and wish.act and (strict is None or not strict.act):
            assert wish.is_guess, row
    for _, _, said in PROPOSALS:
        strict = read_words(said)
        is_plain_question = strict is not None and strict.is_plain and not strict.is_unclear
        message = Message.text(said)
        assert is_plain_question or infer_control(message) is message, said


# -- sentences that neither the rules nor the model have seen -------------------------------------

# The measured shares, less a few sentences. What is understood differs a lot with the way people write.
LEAST_UNDERSTOOD = {
    "fresh 1": {"en": 0.85, "de": 0.9, "es": 0.85, "fr": 0.85},
    "fresh 2": {"en": 0.9, "de": 0.85, "es": 0.9, "fr": 0.9},
    "fresh 3": {"en": 0.75, "de": 0.55, "es": 0.8, "fr": 0.75},  # slang, legal language and broken grammar
}


def is_understood(row: dict[str, Any]) -> bool:
    wish = read_likely(row["sentence"])
    if wish is None or (wish.topic, wish.act or None) != (row["topic"], row["act"]):
        return False
    return row.get("terms", "") in repr(wish.value)


@pytest.mark.parametrize("batch", BATCHES)
def test_most_fresh_requests_are_understood_and_nothing_is_done_unasked(batch: str) -> None:
    rows = [row for row in FRESH if row["batch"] == batch]
    strict = [(row, read_words(row["sentence"])) for row in rows]
    raised = [row["sentence"] for row, wish in strict if wish is not None and wish.act not in ("", row["act"])]
    print(f"\n{batch}: {len(rows)} sentences, false acts: {len(raised)}")
    assert raised == []
    for language in LANGUAGES:
        asked = [row for row in rows if row["language"] == language and row["topic"] is not None]
        understood = sum(map(is_understood, asked))
        print(f"  {language}: {understood} of {len(asked)} understood ({understood / len(asked):.0%})")
        assert understood >= LEAST_UNDERSTOOD[batch][language] * len(asked), language


def test_few_questions_are_asked_back_without_need() -> None:
    quiet = [row["sentence"] for row in FRESH if row["topic"] is None]
    asked = [said for said in quiet if (wish := read_likely(said)) and wish.is_guess]
    print(f"\nasked back without need: {len(asked)} of {len(quiet)} fresh sentences that ask for nothing: {asked}")
    assert len(asked) <= MOST_FALSE_QUESTIONS * len(quiet)


def test_ordinary_questions_are_not_asked_back() -> None:
    said = _trainer().questions(1)
    found = Counter("asked" if (wish := read_likely(text)) and wish.act else "quiet" for text in said)
    print(f"\nordinary questions: {dict(found)}")
    assert found["asked"] <= MOST_FALSE_QUESTIONS * len(said)


# -- the model ------------------------------------------------------------------------------------


def _trainer() -> Any:
    sys.path.insert(0, str(ROOT / "scripts"))
    import train_control

    return train_control


def test_the_model_is_of_the_present_table_and_languages() -> None:
    """If this fails, run scripts/train_control.py."""
    assert model().trained_on == _trainer().digest()


def test_the_model_is_small_and_quick() -> None:
    assert MODEL.stat().st_size <= MOST_BYTES
    said = [row["sentence"] for row in FRESH]
    times = []
    for text in said:
        start = time.thread_time()
        guess(text)
        times.append(time.thread_time() - start)
    assert sorted(times)[len(times) // 2] < MOST_SECONDS


def test_a_gateway_starts_without_the_model() -> None:
    code = (
        "from sabir import Gateway\n"
        "from sabir.agents.control.intents import load_phrases\n"
        "from sabir.agents.control.meanings import model\n"
        "load_phrases()\n"
        "assert model.cache_info().currsize == 0\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# -- the opposite of what was asked, and other things ---------------------------------------------

OPPOSITES: list[tuple[str, tuple[str, ...]]] = [
    ("undone", (
        "please undo the limit of 500 bytes", "please lift the 500 byte limit",
        "bitte hebe das Limit von 500 Bytes auf", "bitte mach die Beschränkung auf 500 Bytes rückgängig",
        "por favor deshaz el límite de 500 bytes", "por favor levanta el límite de 500 bytes",
        "annule la limite de 500 octets s'il te plaît", "lève la limite de 500 octets s'il te plaît")),
    ("removed", (
        "please remove the limit of 500 bytes per message", "please end the limit of 500 bytes",
        "bitte entferne das Limit von 500 Bytes", "vergiss bitte das Limit von 500 Bytes",
        "por favor quita el límite de 500 bytes", "supprime la limite de 500 octets s'il te plaît")),
    ("raised", (
        "please raise the limit to 100000 bytes", "please double the limit of 5 messages per minute",
        "bitte erhöhe das Limit auf 100000 Bytes", "bitte verdopple das Limit von 500 Bytes",
        "por favor aumenta el límite a 100000 bytes", "duplica el límite de 500 bytes por favor",
        "augmente la limite à 100000 octets s'il te plaît", "double la limite de 500 octets s'il te plaît")),
    ("at least", (
        "please at least 5 messages per minute", "replies of at least 2000 bytes please",
        "bitte mindestens 5 Nachrichten pro Minute", "Antworten von mindestens 2000 Bytes bitte",
        "por favor al menos 5 mensajes por minuto", "respuestas de al menos 2000 bytes por favor",
        "au moins 5 messages par minute s'il te plaît", "des réponses d'au moins 2000 octets s'il te plaît")),
    ("longer", (
        "I'd like answers longer than 500 characters", "please allow me longer replies than 1000 bytes",
        "Ich hätte gern Antworten länger als 500 Zeichen", "Quisiera respuestas de más de 500 caracteres",
        "Je voudrais des réponses de plus de 500 caractères")),
    ("avoided", (
        "please avoid json", "please abandon json", "bitte vermeide json", "bitte ohne das Limit von 500 Bytes",
        "por favor evita json", "évite json s'il te plaît")),
    ("no policy", (
        "please accept my location", "please have my location", "bitte akzeptiere meinen Standort",
        "por favor acepta mi ubicación", "accepte ma position s'il te plaît")),
    ("another thing", (
        "delete my account", "please delete the second message", "delete Peter's messages",
        "erase your assumption please", "delete my photo please", "delete everything in my account",
        "lösche mein Konto", "lösche die zweite Nachricht", "bitte lösche die Nachricht von Peter",
        "lösche alle Nachrichten von Peter", "borra mi cuenta", "borra el segundo mensaje",
        "borra el mensaje de Pedro", "supprime mon compte", "supprime le deuxième message",
        "supprime le message de Pierre")),
    ("another session", (
        "please end the session of Peter", "bitte beende die Sitzung von Peter",
        "por favor termina la sesión de Pedro", "termine la session de Pierre s'il te plaît")),
    ("the terms of a question", (
        "Please send me the history in json", "Schick mir bitte den Verlauf in json",
        "Envíame el historial en json, por favor", "Envoie-moi l'historique en json, s'il te plaît")),
]  # fmt: skip
OPPOSED = [(kind, said) for kind, sentences in OPPOSITES for said in sentences]


@pytest.mark.parametrize(("kind", "said"), OPPOSED, ids=[f"{kind}: {said}" for kind, said in OPPOSED])
def test_the_opposite_and_other_things_are_not_proposed(kind: str, said: str) -> None:
    wish = read_likely(said)
    assert wish is None or not wish.act


@pytest.mark.parametrize("said", OPPOSITES[-1][1])
def test_a_history_in_a_format_is_a_question_and_may_be_that_of_anything(said: str) -> None:
    wish = read_likely(said)
    assert wish is not None and (wish.topic, wish.act) == ("history", "")
    message = Message.text(said)
    assert infer_control(message) is message


@pytest.mark.parametrize("said", ["", "!!!", "...", "0", "²", "½", "𝟙𝟚 ٣", "1,000.5 ?"])
def test_a_text_without_words_means_nothing(said: str) -> None:
    assert guess(said) is None


@pytest.mark.parametrize("said", ["\ud800", "delete \udfff this chat", "limit \ud83d"])
def test_a_lone_surrogate_is_read_like_any_other_unknown_sign(said: str) -> None:
    read_likely(said)


@pytest.mark.parametrize(
    ("number", "words"),
    [(1234567, "1,234,567"), (1500.0, "1,500"), (0.5, "0.5"), (10**15, "1,000,000,000,000,000")],
)  # fmt: skip
def test_the_question_names_all_digits_of_a_limit(number: float, words: str) -> None:
    assert question_for("limits", {"propose": {"body": number}}) == f"Limit messages to {words} bytes?"
