"""Erasing and consent are asked back before they happen, over every door that carries NLIP control (issue 11, A 1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from sabir import Policy, Turn, agent
from suites.security import test_control
from suites.security.attackers import JSON, say
from suites.security.test_control import Speaker, Way, conversation, spoken_to

way = test_control.way  # a fixture: every door that carries NLIP control

NOTES = Policy("privacy", "I keep notes for a day.", required=True)


@agent(description="Says what was said before")
async def memory(turn: Turn) -> str:
    return " | ".join([*(past.asked.text for past in turn.conversation.turns), turn.text])


@agent(description="Requires a policy", policies=(NOTES,))
async def careful(turn: Turn) -> str:
    return "at your service"


AGENTS = (memory, careful)


def question_in(answer: JSON) -> JSON | None:
    return next((part["content"] for part in answer.get("submessages", ()) if part.get("label") == "question"), None)


async def erasing(speaker: Speaker, said: str = "Erase this conversation.") -> JSON:
    """Something was said, and the erasure of it is asked for; what comes back."""
    _, first = await speaker(say("my secret"), "memory")
    _, asked = await speaker(say(said, conversation(first), control=True))
    return asked


@pytest.mark.parametrize(
    ("said", "yes"),
    [("Erase this conversation.", "yes"), ("Bitte lösche dieses Gespräch.", "Ja."),
     ("Borra esta conversación, por favor.", "Sí"), ("Efface cette conversation.", "oui")],
)  # fmt: skip
@pytest.mark.parametrize("control", [True, False], ids=["as-control", "as-data"])
async def test_a_conversation_is_erased_once_that_is_confirmed(
    home: Path, way: Way, said: str, yes: str, control: bool
) -> None:
    async with spoken_to(home, way, agents=AGENTS) as speaker:
        asked = await erasing(speaker, said)
        assert asked["content"] == "Erase 1 turn of this conversation? Reply yes to confirm."
        assert asked["messagetype"].lower() == "control"
        question = question_in(asked)
        assert question is not None and question["id"] == "confirm"
        _, done = await speaker(say(yes, conversation(asked), control=control))
        assert done["content"].startswith("This session is ended and its content is erased.")
        _, after = await speaker(say("and now?", conversation(asked)), "memory")
        assert after["content"] == "and now?"


@pytest.mark.parametrize("no", ["no", "Nein.", "No, gracias", "non", "cancel"])
async def test_a_no_changes_nothing(home: Path, way: Way, no: str) -> None:
    async with spoken_to(home, way, agents=AGENTS) as speaker:
        asked = await erasing(speaker)
        _, answer = await speaker(say(no, conversation(asked), control=True))
        assert answer["content"] == "Nothing was changed."
        _, after = await speaker(say("and now?", conversation(asked)), "memory")
        assert after["content"] == "my secret | and now?"


async def test_another_message_withdraws_the_question_and_is_answered(home: Path, way: Way) -> None:
    async with spoken_to(home, way, agents=AGENTS) as speaker:
        asked = await erasing(speaker)
        _, other = await speaker(say("yes, but not today", conversation(asked)), "memory")
        assert other["content"] == "my secret | yes, but not today"
        _, late = await speaker(say("yes", conversation(asked)), "memory")  # that means something else now
        assert late["content"] == "my secret | yes, but not today | yes"
        again = await erasing(speaker)
        _, limits = await speaker(say("What are your limits?", conversation(again), control=True))
        assert "bytes" in limits["content"]
        _, late = await speaker(say("yes", conversation(again)), "memory")
        assert late["content"] == "my secret | yes"


@pytest.mark.parametrize(
    "said",
    ["No need to delete this conversation.", "If I erase this conversation, what is lost?",
     "You must ask me before you delete this conversation.", "Bitte nicht löschen!", "No borres esta conversación.",
     "N'efface pas cette conversation."],
)  # fmt: skip
async def test_words_that_ask_for_nothing_are_not_even_asked_back(home: Path, way: Way, said: str) -> None:
    async with spoken_to(home, way, agents=AGENTS) as speaker:
        answer = await erasing(speaker, said)
        assert question_in(answer) is None
        _, after = await speaker(say("and now?", conversation(answer)), "memory")
        assert after["content"] == "my secret | and now?"


async def test_consent_is_recorded_once_it_is_confirmed(home: Path, way: Way) -> None:  # TR-7.1.5.1
    async with spoken_to(home, way, agents=AGENTS) as speaker:
        _, asked = await speaker(say("I accept your privacy policy.", control=True), "careful")
        assert asked["content"] == "Do you accept this? privacy: I keep notes for a day. Reply yes to confirm."
        status, _ = await speaker(say("hello", conversation(asked)), "careful")
        assert status == 403  # it was not confirmed, and the question is withdrawn
        _, asked = await speaker(say("I accept your privacy policy.", conversation(asked), control=True), "careful")
        _, done = await speaker(say("yes", conversation(asked), control=True), "careful")
        assert done["content"].startswith("You have accepted: privacy.")
        _, answer = await speaker(say("hello", conversation(done)), "careful")
        assert answer["content"] == "at your service"


@pytest.mark.parametrize(("value", "is_asked"), [({"erase": True}, True), ({"erase": True, "confirmed": True}, False)])
async def test_a_part_that_names_the_act_is_asked_back_unless_it_says_that_it_is_confirmed(
    home: Path, way: Way, value: JSON, is_asked: bool
) -> None:
    async with spoken_to(home, way, agents=AGENTS) as speaker:
        _, first = await speaker(say("my secret"), "memory")
        wish = {"format": "structured", "subformat": "json", "content": value, "label": "sessions"}
        _, answer = await speaker(say("", wish, conversation(first), control=True))
        assert (question_in(answer) is not None) is is_asked
        if is_asked:
            part = {"format": "structured", "subformat": "json", "content": True, "label": "confirm"}
            _, answer = await speaker(say("", part, conversation(answer), control=True))
        assert "is erased" in answer["content"]


GUESSED = "Squeeze your answers into 1,500 bytes."  # the grammar does not know "squeeze"


def agreed_limits(answer: JSON) -> JSON:
    parts = [part["content"] for part in answer.get("submessages", ()) if part.get("label") == "limits"]
    return parts[0].get("agreed", {}) if parts else {}


@pytest.mark.parametrize(("reply", "agreed"), [("yes", {"reply": 1500}), ("no", {})])
async def test_what_words_probably_ask_for_is_done_only_after_a_yes(
    home: Path, way: Way, reply: str, agreed: JSON
) -> None:
    async with spoken_to(home, way, agents=AGENTS) as speaker:
        _, asked = await speaker(say(GUESSED, control=True))
        assert asked["content"] == "Limit replies to 1,500 bytes? Reply yes to confirm."
        assert question_in(asked) is not None and agreed_limits(asked) == {}
        await speaker(say(reply, conversation(asked), control=True))
        _, now = await speaker(say("What are your limits?", conversation(asked), control=True))
        assert agreed_limits(now) == agreed


async def test_another_message_withdraws_what_was_proposed(home: Path, way: Way) -> None:
    async with spoken_to(home, way, agents=AGENTS) as speaker:
        _, asked = await speaker(say(GUESSED, control=True))
        _, now = await speaker(say("What are your limits?", conversation(asked), control=True))
        assert agreed_limits(now) == {}
        _, late = await speaker(say("yes", conversation(asked)), "memory")
        assert late["content"].endswith("yes")
        _, now = await speaker(say("What are your limits?", conversation(asked), control=True))
        assert agreed_limits(now) == {}
