"""Trains the model that reads control sentences where the grammar does not understand them.

scripts/train_control.py           writes src/sabir/agents/control/meanings.bin (needs numpy)
scripts/train_control.py --folds   measures the model on sentences that it was not trained on

The sentences are those of tests/agents/control/control_sentences.jsonl, except the batches that only measure
(``batch``), and half of the questions of tests/search/questions, which mean none of its meanings. With --folds, all
sentences with the same tags are in the same fold, so that a paraphrase of a sentence does not help it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sabir.agents.control.grammar import row
from sabir.agents.control.meanings import BUCKETS, MODEL, NONE, QUESTION, features, length_of, reading_of

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "tests" / "agents" / "control" / "control_sentences.jsonl"
QUESTIONS = ROOT / "tests" / "search" / "questions"
MODEL_BATCH = "model"  # rows that were written for the model
FOLDS = 3
EPOCHS = 30
BATCH = 256
RATE = 0.02
# What people say around a request, in the languages of the table, and what changes nothing about its meaning.
BEFORE = {
    "en": ("ok ", "hey, ", "so, ", "well, ", "yo ", "right, ", "I'm from Lyon, ", "I have to run, ",
           "dinner is ready, ", "my phone is old, so ", "dear service, ", "hi there, ", "for our audit, ",
           "I'm in a meeting, ", "kindly "),
    "de": ("ok ", "hey, ", "also, ", "na gut, ", "ey ", "so, ", "ich komme aus Lyon, ", "ich muss los, ",
           "das Essen ist fertig, ", "mein Handy ist alt, also ", "sehr geehrte Damen und Herren, ", "guten Tag, ",
           "für unsere Prüfung, ", "ich bin im Meeting, ", "bitte, "),
    "es": ("vale ", "oye, ", "bueno, ", "pues ", "eh ", "a ver, ", "soy de Lyon, ", "tengo que irme, ",
           "la cena está lista, ", "mi móvil es viejo, así que ", "estimado servicio, ", "buenos días, ",
           "para nuestra auditoría, ", "estoy en una reunión, ", "por favor, "),
    "fr": ("ok ", "dis, ", "bon, ", "eh bien, ", "hé ", "alors, ", "je viens de Lyon, ", "je dois partir, ",
           "le dîner est prêt, ", "mon téléphone est vieux, donc ", "cher service, ", "bonjour, ",
           "pour notre audit, ", "je suis en réunion, ", "s'il vous plaît, "),
}  # fmt: skip
SHARE_VARIED = 0.7  # of the sentences of the table are also learned in another form
LEAST_MISSPELT = 5  # letters of a word that gets an error
Floats = NDArray[np.float32]


def meaning_of(row: dict[str, Any]) -> str:
    return str(row["act"] or (f"{QUESTION}{row['topic']}" if row["topic"] else NONE))


def table_rows() -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in TABLE.read_text(encoding="utf-8").splitlines()]
    return [row for row in rows if row.get("batch", MODEL_BATCH) == MODEL_BATCH]


def questions(half: int) -> list[str]:
    """Every second question that people ask about web sites; the other half measures."""
    found = {
        str(json.loads(line)["question"])
        for path in sorted(QUESTIONS.glob("*.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if '"question"' in line
    }
    return sorted(found)[half::2]


def varied(rows: list[dict[str, Any]]) -> tuple[list[str], list[str]]:
    """Sentences of the table as others would type them: after a few other words, with an error, or carelessly."""
    chance = random.Random(0)
    forms = (
        lambda row: chance.choice(BEFORE[row["language"]]) + row["sentence"][:1].lower() + row["sentence"][1:],
        lambda row: misspelt(row["sentence"], chance),
        lambda row: row["sentence"].lower().rstrip(".!"),
    )
    chosen = [row for row in rows if chance.random() < SHARE_VARIED]
    return [chance.choice(forms)(row) for row in chosen], [meaning_of(row) for row in chosen]


def misspelt(text: str, chance: random.Random) -> str:
    """The text with two letters of a word swapped, or one left out."""
    words = text.split(" ")
    places = [place for place, word in enumerate(words) if len(word) >= LEAST_MISSPELT and word.isalpha()]
    if not places:
        return text
    place = chance.choice(places)
    word = words[place]
    spot = chance.randrange(1, len(word) - 2)
    middle = word[spot + 1] + word[spot] if chance.random() < 0.5 else word[spot + 1]
    return " ".join([*words[:place], word[:spot] + middle + word[spot + 2 :], *words[place + 1 :]])


def sentences() -> tuple[list[str], list[str]]:
    """What the model is trained on, with the meaning of each."""
    rows = table_rows()
    others = questions(0)
    texts = [str(row["sentence"]) for row in rows] + others
    return texts, [meaning_of(row) for row in rows] + [NONE] * len(others)


def digest() -> str:
    """Of the sentences and the words of the languages; the model has it, so that a test sees when it is out of date."""
    found = hashlib.sha256(json.dumps(sentences(), ensure_ascii=False).encode())
    for path in sorted((MODEL.parent / "languages").glob("*.txt")):
        found.update(path.read_bytes())
    return found.hexdigest()


def matrix(texts: list[str]) -> Floats:
    found = np.zeros((len(texts), BUCKETS), np.float32)
    for place, text in enumerate(texts):
        buckets = features(text, reading_of(text))
        found[place, list(buckets)] = list(buckets.values())
        found[place] /= length_of(buckets)
    return found


def trained(table: Floats, wanted: NDArray[np.int64], width: int) -> tuple[Floats, Floats]:
    """The weights and the start of a softmax regression, by Adam with a falling rate."""
    shuffled = np.random.default_rng(0)
    values = [np.zeros((BUCKETS, width), np.float32), np.zeros(width, np.float32)]
    means = [np.zeros_like(value) for value in values]
    squares = [np.zeros_like(value) for value in values]
    targets = np.eye(width, dtype=np.float32)[wanted]
    step = 0
    for epoch in range(EPOCHS):
        order = shuffled.permutation(len(wanted))
        for start in range(0, len(order), BATCH):
            chosen = order[start : start + BATCH]
            said = table[chosen]
            error = (chances(said, values[0], values[1]) - targets[chosen]) / len(chosen)
            step += 1
            for value, mean, square, slope in zip(values, means, squares, (said.T @ error, error.sum(0)), strict=True):
                mean += 0.1 * (slope - mean)
                square += 0.001 * (slope * slope - square)
                pace = RATE * (1 - epoch / EPOCHS) / (1 - 0.9**step)
                value -= pace * mean / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
    return values[0], values[1]


def chances(table: Floats, weights: Floats, start: Floats) -> Floats:
    scores = table @ weights + start
    parts = np.exp(scores - scores.max(1, keepdims=True))
    return np.asarray(parts / parts.sum(1, keepdims=True), np.float32)


def write(path: Path = MODEL) -> None:
    texts, said = sentences()
    other_texts, other_meanings = varied(table_rows())
    texts, said = texts + other_texts, said + other_meanings
    meanings = sorted(set(said))
    weights, start = trained(matrix(texts), np.array([meanings.index(name) for name in said]), len(meanings))
    scale = float(np.abs(weights).max()) / 127
    head = {
        "meanings": meanings,
        "start": [round(float(value), 4) for value in start],
        "scale": scale,
        "trained_on": digest(),
    }
    path.write_bytes(json.dumps(head).encode() + b"\n" + np.rint(weights / scale).astype(np.int8).tobytes())
    print(f"{path.name}: {path.stat().st_size} bytes, {len(texts)} sentences, {len(meanings)} meanings")


def measure() -> None:
    texts, said = sentences()
    meanings = sorted(set(said))
    wanted = np.array([meanings.index(name) for name in said])
    keys = ["".join(row(sentence) for sentence in reading_of(text).sentences) for text in texts]
    folds = np.array([zlib.crc32(key.encode()) % FOLDS for key in keys])
    table = matrix(texts)
    found = np.zeros(len(texts), np.int64)
    for fold in range(FOLDS):
        weights, start = trained(table[folds != fold], wanted[folds != fold], len(meanings))
        found[folds == fold] = chances(table[folds == fold], weights, start).argmax(1)
    none = meanings.index(NONE)
    acts = np.array([not name.startswith(QUESTION) and name != NONE for name in meanings])
    for title, chosen in (
        ("acts", acts[wanted]),
        ("questions on topics", ~acts[wanted] & (wanted != none)),
        ("sentences that mean none", wanted == none),
    ):
        right = (found == wanted)[chosen].mean()
        print(f"{title}: {right:.1%} of {chosen.sum()} right, {acts[found[chosen]].mean():.1%} taken for an act")


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--folds", action="store_true", help="measure instead of writing")
    measure() if options.parse_args().folds else write()
