"""A site never affirms or states what it does not say, in any language (issue 15)."""

from __future__ import annotations

import pytest

from sabir.search import Item, LocalIndex

from .asking import Judged, answered, says_no, says_yes

HOUSE = "https://house.example"


def _item(path: str, name: str, kind: str, description: str = "", **fields: object) -> Item:
    return Item(f"{HOUSE}/{path}", "house.example", name, (kind,), description=description, fields=fields)


async def _said(question: str, things: list[Item], *before: str) -> tuple[str, tuple[str, ...]]:
    """What a site of these things says, and the paths of what it shows."""
    index = LocalIndex(None, None)
    await index.put(things)
    try:
        answer = await answered(index, Judged("fact", question, before=before))
    finally:
        await index.close()
    return answer.text, tuple(item.removeprefix(f"{HOUSE}/") for item in answer.ids)


@pytest.mark.parametrize(
    ("question", "own", "answer"),
    [
        ("is there a pool?", "Is there a pool?", "No, but the river is near."),
        ("gibt es einen Pool?", "Gibt es einen Pool?", "Nein, aber der Fluss ist nah."),
        ("¿hay piscina?", "¿Hay piscina?", "No, pero el río está cerca."),
        ("¿tienen piscina?", "¿Hay piscina?", "No, pero el río está cerca."),
        ("y a-t-il une piscine ?", "Y a-t-il une piscine ?", "Non, mais la rivière est proche."),
        ("プールはありますか", "プールはありますか？", "いいえ、川が近くにあります。"),
    ],
)
async def test_a_question_of_the_site_is_no_proof_that_something_is_there(question: str, own: str, answer: str) -> None:
    text, _ = await _said(question, [_item("faq", own, "Question", answer)])
    assert text.startswith(answer) and not says_yes(text), text


@pytest.mark.parametrize("value", ["No", "nein", "no", "non", "いいえ", "false"])
async def test_a_field_that_says_no_is_a_no(value: str) -> None:
    stated = {"@type": "PropertyValue", "name": "Pet safe", "value": value}
    plant = _item("plant", "Snake Plant", "Product", "Hardly needs water.", additionalProperty=[stated])
    text, _ = await _said("is the snake plant pet safe?", [plant])
    assert says_no(text), text
    text, _ = await _said("can I come with my pet?", [plant])
    assert not says_yes(text) and not says_no(text), text
