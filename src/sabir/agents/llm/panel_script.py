"""The script of an ensemble member: what it answers, which answer it votes for, and how it presents the result.

    script:
      - answer: It depends.
      - vote: agent2            # or words of the answer that it votes for
        reason: it is complete
      - present: "We agree: use a queue."

What a member is asked depends on the others, so a step is chosen by the prompt and not by its position: the answers one
after the other, then a vote, and the presentation if the member wins. Several votes are alternatives: the first that
has an answer counts. Without ``present`` the winner repeats its answer.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any, Final

import msgspec

from sabir.agents.panel_words import ONLY_VOTE, OWN_ANSWER, SAYS, WON

_ALIAS: Final = r"(?:sub)*agent\d+"
_SAID: Final = re.compile(rf"^(?:{OWN_ANSWER} (?P<own>{_ALIAS}):|(?P<other>{_ALIAS}) {SAYS})$", re.MULTILINE)


class PanelStep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One step of such a script: exactly one of ``answer``, ``vote`` and ``present``."""

    answer: str = ""
    vote: str = ""
    reason: str = ""
    present: str = ""
    error: str = ""
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if sum(map(bool, (self.answer, self.vote, self.present))) != 1:
            raise ValueError("expected exactly one of answer, vote and present")


class PanelTurn(msgspec.Struct, frozen=True):
    """What the model does: text, or a call of ``new_answer`` or ``vote``."""

    step: PanelStep
    say: str = ""
    call: str = ""
    arguments: dict[str, Any] = {}


def panel_turn(script: Sequence[PanelStep], asked: str, tools: Collection[str]) -> PanelTurn | None:
    """What a member with this script does with this prompt; None if the script has nothing for it."""
    answers = [step for step in script if step.answer]
    answered = _answers_in(asked)
    own = next((text for alias, is_own, text in answered if is_own), None)
    if WON in asked:
        step = next((item for item in script if item.present), None)
        if step is not None:
            return PanelTurn(step, step.present)
        return PanelTurn(answers[-1], answers[-1].answer) if answers else None
    given = next((number for number, step in enumerate(answers, 1) if step.answer.strip() == (own or "").strip()), 0)
    if given < len(answers) and ONLY_VOTE not in asked:
        step = answers[given]
        if "new_answer" in tools:
            return PanelTurn(step, call="new_answer", arguments={"content": step.answer})
        return PanelTurn(step, step.answer)
    return _vote([step for step in script if step.vote], answered, tools)


def _answers_in(asked: str) -> list[tuple[str, bool, str]]:
    """The answers in a prompt: the alias of the member, whether it is the model's own, and the text."""
    found = list(_SAID.finditer(asked))
    ends = [match.start() for match in found[1:]] + [len(asked)]
    return [
        (match["own"] or match["other"], match["own"] is not None, asked[match.end() : end].strip())
        for match, end in zip(found, ends, strict=False)
    ]


def _vote(
    votes: Sequence[PanelStep], answered: Sequence[tuple[str, bool, str]], tools: Collection[str]
) -> PanelTurn | None:
    """The script's first choice that has an answer; otherwise its own answer, until there are others."""
    if not votes or not answered:
        return None
    step, reason = votes[0], f"no answer matches {votes[0].vote!r}"
    choice = next((alias for alias, is_own, _ in answered if is_own), answered[0][0])
    for vote in votes:
        meant = [alias for alias, _, text in answered if alias == vote.vote or vote.vote.lower() in text.lower()]
        if meant:
            step, choice, reason = vote, meant[0], vote.reason
            break
    if "vote" in tools:
        return PanelTurn(step, call="vote", arguments={"agent_id": choice, "reason": reason})
    return PanelTurn(step, f"VOTE: {choice}" + (f" because {reason}" if reason else ""))
