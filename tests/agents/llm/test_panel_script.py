"""Scripts for the members of an ensemble: answer, vote, present (``docs/testing.md``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sabir import LLM, Ensemble
from sabir.agents.ensemble.options import EnsembleOptions
from sabir.config.build import gateway_of
from sabir.config.load import load
from sabir.errors import ConfigError
from sabir.testing import FakeAgent, ScriptedModel, ask, scripted_member

EXAMPLE = Path(__file__).parents[3] / "examples" / "ensemble" / "panel.yaml"


async def outcome(*members: Any, question: str = "Why?", **options: Any) -> tuple[str, dict[str, Any]]:
    answer = await ask(Ensemble(members, options=EnsembleOptions(**options)), question)
    return answer.message.parts[0].content, answer.data


async def test_members_answer_vote_and_present_as_their_scripts_say() -> None:
    members = [
        scripted_member("ada", "It depends.", vote="queue"),
        scripted_member("bo", "A queue.", "A queue with a key.", vote="agent2", present="We agree."),
        scripted_member("cy", "Retry.", vote="queue", reason="it is complete"),
    ]
    text, answer = await outcome(*members)
    assert text == "We agree."
    assert answer["winner"] == "bo"
    assert answer["votes"] == {"ada": "bo", "bo": "bo", "cy": "bo"}
    assert answer["answers"]["bo"] == 2
    assert {"ada", "cy"} <= answer["answers"].keys()  # who is asked before "A queue." is there says its answer again


@pytest.mark.parametrize("interrupt", [True, False])
async def test_a_script_does_not_depend_on_who_is_asked_first(interrupt: bool) -> None:
    quick, slow = (
        ScriptedModel([{"answer": "One.", "seconds": 0}, {"vote": "Two"}]),
        [
            {"answer": "Two.", "seconds": 0.05},
            {"vote": "Two", "seconds": 0.01},
            {"present": "Two, finally."},
        ],
    )
    text, answer = await outcome(LLM("a", quick), LLM("b", ScriptedModel(slow)), interrupt=interrupt)
    assert (text, answer["winner"], answer["votes"]) == ("Two, finally.", "b", {"a": "b", "b": "b"})


async def test_without_a_presentation_the_winner_repeats_its_answer() -> None:
    text, _ = await outcome(scripted_member("a", "One."), scripted_member("b", "Two."))
    assert text == "One."


async def test_several_votes_are_choices_and_a_choice_that_nobody_gave_is_said() -> None:
    steps = [{"answer": "One."}, {"vote": "Nine"}, {"vote": "Two"}]
    _, answer = await outcome(LLM("a", ScriptedModel(steps)), scripted_member("b", "Two.", vote="Two"))
    assert answer["votes"]["a"] == "b"
    model = ScriptedModel([{"answer": "One."}, {"vote": "Nine"}])
    _, answer = await outcome(LLM("a", model), scripted_member("b", "Two.", vote="Two"))
    assert answer["votes"]["a"] == "a"


async def test_a_scripted_member_may_fail_while_others_answer() -> None:
    broken = LLM("broken", ScriptedModel([{"answer": "x", "error": "the service is down"}]))
    in_words = FakeAgent("c", "Three.", "VOTE: agent2")
    text, answer = await outcome(broken, scripted_member("b", "Two.", vote="agent2"), in_words)
    assert text == "Two." and "the service is down" in answer["failed"]["broken"]


async def test_outside_an_ensemble_it_gives_its_answer() -> None:
    assert (await ask(scripted_member("a", "One."), "Well?")).text == "One."


async def test_the_same_script_works_where_members_are_asked_in_words() -> None:
    members = [scripted_member("a", "One.", vote="Two"), scripted_member("b", "Two.", vote="Two", present="Both: two.")]
    panel = Ensemble(members, options=EnsembleOptions(coordinate_via_nlip=True))
    answer = await ask(panel, "Why?", others=members)
    assert answer.message.parts[0].content == "Both: two." and answer.data["votes"] == {"a": "b", "b": "b"}


def test_the_example_in_yaml_is_such_a_panel(tmp_path: Path) -> None:
    gateway = gateway_of(load(EXAMPLE, flags={"home": str(tmp_path)}), EXAMPLE)
    panel = gateway.agents["panel"]
    assert isinstance(panel, Ensemble) and [member.card.name for member in panel.members] == ["ada", "bo", "cy"]


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ([{"vote": "agent1"}], "needs an answer"),
        ([{"answer": "a", "vote": "agent1"}], "exactly one of answer, vote and present"),
        ([{"answer": "a", "votes": "agent1"}], "unknown field `votes`"),
        ([{"anser": "a"}], "answer, error, present, say"),
    ],
)
def test_a_wrong_step_is_rejected_with_what_is_expected(script: list[Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        ScriptedModel(script)
