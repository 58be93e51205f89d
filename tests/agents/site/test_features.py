"""Summaries of questions about features state them, and quote no teaser."""

from __future__ import annotations

import pytest

from sabir.agents.site.agent import Site
from sabir.agents.site.request import SiteAsk
from sabir.events import Reply
from sabir.message import Message, text_part
from sabir.search import Item, LocalIndex
from sabir.turn import Turn

TEASER = "The most romantic dinner in town."


def place(name: str, *features: str, missing: str = "") -> Item:
    rows = [{"@type": "LocationFeatureSpecification", "name": feature, "value": True} for feature in features]
    rows += [{"@type": "LocationFeatureSpecification", "name": missing, "value": False}] if missing else []
    fields = {"amenityFeature": rows, "suitableForDiet": "https://schema.org/VeganDiet"}
    text = "\n".join(features)
    return Item(name, "s", name, ("Restaurant",), description=TEASER, text=text, fields=fields)


@pytest.mark.parametrize("mode", ["summarize", "generate"])
@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("restaurants with wheelchair access", "Wheelchair accessible"),
        ("restaurants with live music", "Live music"),
        ("restaurants with live music and wheelchair access", "Wheelchair accessible, Live music"),
        ("vegan restaurants", "vegan diet"),
    ],
)
async def test_a_summary_states_the_features_that_are_named(text: str, stated: str, mode: str) -> None:
    index = LocalIndex(None, None)
    await index.put(
        [place("Bilge", "Wheelchair accessible", "Live music", "Parking"), place("Elm", missing="Live music")]
    )
    turn = Turn(Message.of(text_part(text), SiteAsk(modes=("list", mode), questions=False).part()))
    [reply] = [event async for event in Site(index)(turn) if isinstance(event, Reply)]
    part = reply.message.labelled("summary") or reply.message.labelled("answer")
    assert part is not None
    said = [citation["text"] for citation in part.value["citations"]]
    assert f"Bilge: {stated}." in said and TEASER not in said
    assert not any("Live music" in line for line in said if line.startswith("Elm"))
