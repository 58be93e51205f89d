"""What can be agreed on, and the answer to each proposal. Pure: takes what was said and what is agreed already.

Agreements live in the conversation's ``agreed``, by topic; ``sabir.guard.agreements`` enforces them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from ...card import Policy
from ...guard.limits import Quotas
from ...message import FORMATS, JSON, Part, json_part, language_name
from ...wire.rules import Limits

_MOST_TOLD: Final = 20  # items of a proposal that are looked at; a long one must not make a longer answer
KEEPERS: Final = ("server", "client", "both")
# The least that can be agreed on, so that a conversation stays possible.
FLOORS: Final[Mapping[str, int]] = {
    "body": 256,
    "reply": 512,
    "depth": 4,
    "submessages": 4,
    "rate_per_minute": 1,
}


@dataclass(frozen=True, slots=True)
class Answer:
    """Words first, then parts for machines; and what is agreed from now on, where that changed."""

    text: str
    parts: tuple[Part, ...] = ()
    agreed: Mapping[str, Any] | None = None  # topic → terms; None as terms takes the topic out

    @classmethod
    def of(cls, text: str, label: str, value: JSON, agreed: Mapping[str, Any] | None = None) -> Answer:
        return cls(text, (json_part(value, label=label),), agreed)


# -- limits ---------------------------------------------------------------------------------------


def bounds(limits: Limits, quotas: Quotas) -> dict[str, int]:
    """The most that this gateway takes or gives, by the names under which it can be negotiated down."""
    rate = quotas.rate_per_caller
    return {
        "body": limits.body,
        "reply": limits.body,
        "depth": limits.depth,
        "submessages": limits.submessages,
        "rate_per_minute": int((100.0 if rate is None else rate) * 60),
    }


def on_limits(said: Mapping[str, Any], limits: Limits, quotas: Quotas, agreed: Mapping[str, Any]) -> Answer:
    """Tell the limits, or agree on lower ones; what is over a bound is answered with the bound."""
    most = bounds(limits, quotas)
    proposed = said.get("propose", said)
    held = dict(agreed.get("limits", {}))
    told = {
        **msgspec.to_builtins(limits),
        **{name: held.get(name, value) for name, value in most.items()},
        "context_turns": quotas.context_turns,
        "context_bytes": quotas.context_bytes,
        "turn_seconds": quotas.turn_seconds,
    }
    if not isinstance(proposed, Mapping) or not proposed:
        return Answer.of(
            f"A message may have {told['body']} bytes, {told['submessages']} submessages, {limits.tokens} tokens and "
            f"{told['depth']} levels; {told['rate_per_minute']} messages a minute. Lower ones can be agreed on.",
            "limits",
            {"limits": told, "agreed": held, "floors": dict(FLOORS)},
        )
    changed, notes = _lowered(proposed, most)
    held.update(changed)
    told.update(held)
    words = [f"{name} {value}" for name, value in changed.items()]
    text = f"Agreed from now on: {', '.join(words)}." if words else "Nothing was changed."
    return Answer.of(
        " ".join([text, *notes]), "limits", {"limits": told, "agreed": held}, {"limits": held} if changed else None
    )


def _lowered(proposed: Mapping[str, Any], most: Mapping[str, int]) -> tuple[dict[str, int], list[str]]:
    changed: dict[str, int] = {}
    notes: list[str] = []
    for name, value in list(proposed.items())[:_MOST_TOLD]:
        if name not in most:
            notes.append(f"{name!s:.40} cannot be negotiated.")
        elif isinstance(value, bool) or not isinstance(value, int | float) or value != value:
            notes.append(f"{name} must be a number.")
        elif value > most[name]:
            notes.append(f"{name} can be at most {most[name]}.")
        elif value < FLOORS[name]:
            changed[name] = FLOORS[name]
            notes.append(f"{name} cannot be below {FLOORS[name]}.")
        else:
            changed[name] = int(value)
    return changed, notes


# -- policies -------------------------------------------------------------------------------------


def on_policy(said: Mapping[str, Any], policies: Sequence[Policy], agreed: Mapping[str, Any]) -> Answer:
    """State the policies, take their acceptance, and say whether the caller's own demands can be met (TR-7.1.5)."""
    held = dict(agreed.get("policy", {}))
    accepted = set(held.get("accepted", ()))
    known = {policy.kind for policy in policies}
    wanted = _accepted_kinds(said, known)
    unmet = _unmet(said, policies)
    withheld = _withheld(said)
    if unmet:
        return Answer.of(
            "I cannot meet this: " + "; ".join(unmet) + ". No policy was agreed.",
            "policy",
            {**offers(policies, accepted), "refused": unmet},
        )
    accepted |= wanted
    open_kinds = sorted({policy.kind for policy in policies if policy.required} - accepted)
    words = [f"{policy.kind}: {policy.text}" for policy in policies]
    if wanted:
        words = [f"You have accepted: {', '.join(sorted(wanted))}."]
    if withheld is not None:
        words.append(f"I will not look at: {', '.join(withheld) or 'nothing'} of yours.")
        held["withhold"] = list(withheld)
    if open_kinds:
        words.append(f"To be accepted before data flows: {', '.join(open_kinds)}.")
    changed = bool(wanted) or withheld is not None
    held["accepted"] = sorted(accepted)
    return Answer.of("\n".join(words), "policy", offers(policies, accepted), {"policy": held} if changed else None)


def offers(policies: Sequence[Policy], accepted: set[str]) -> dict[str, Any]:
    """The policies as JSON, each with what is offered, whether it is required, and whether it is accepted."""
    told: dict[str, Any] = {"privacy": {}, "regulatory": {}, "attributes": {}}
    for policy in policies:
        told[policy.kind] = {
            "offer": {"text": policy.text, **policy.terms},
            "require": policy.required,
            "accept": policy.kind in accepted,
        }
    return told


def _accepted_kinds(said: Mapping[str, Any], known: set[str]) -> set[str]:
    listed = said.get("accept", ())
    names = (
        {listed} if isinstance(listed, str) else {str(each) for each in listed} if isinstance(listed, list) else set()
    )
    if listed is True or "*" in names:
        return set(known)
    names |= {kind for kind in known if isinstance(said.get(kind), Mapping) and said[kind].get("accept") is True}
    return {name.lower() for name in names} & known


def _unmet(said: Mapping[str, Any], policies: Sequence[Policy]) -> list[str]:
    """The caller's own requirements, such as ``regulatory.require.jurisdiction``, that no policy here states."""
    unmet = []
    for kind, terms in said.items():
        demands = terms.get("require") if isinstance(terms, Mapping) else None
        if not isinstance(demands, Mapping):
            continue
        stated: dict[str, Any] = {}
        for policy in policies:
            if policy.kind == kind:
                stated.update(policy.terms)
        unmet += [f"{kind}.{n} = {v}"[:200] for n, v in demands.items() if not _holds(stated.get(n), v)]
    return unmet[:_MOST_TOLD]


def _holds(stated: object, wanted: object) -> bool:
    if isinstance(stated, list | tuple):
        return wanted in stated if not isinstance(wanted, list) else set(map(str, wanted)) <= set(map(str, stated))
    return stated == wanted or (
        isinstance(stated, str) and isinstance(wanted, str) and stated.lower() == wanted.lower()
    )


def _withheld(said: Mapping[str, Any]) -> tuple[str, ...] | None:
    attributes = said.get("attributes")
    listed = attributes.get("withhold") if isinstance(attributes, Mapping) else None
    return tuple(str(each).lower() for each in listed[:20]) if isinstance(listed, list) else None


# -- context --------------------------------------------------------------------------------------


def on_context(said: Mapping[str, Any], quotas: Quotas, agreed: Mapping[str, Any]) -> Answer:
    """Agree on who keeps the context and how many turns of it count (TR-7.3.1)."""
    held = {"keeper": "server", "window": quotas.context_turns, **agreed.get("context", {})}
    keeper, window = said.get("keeper"), said.get("window")
    notes = []
    changed = False
    if isinstance(keeper, str) and keeper.lower() in KEEPERS:
        held["keeper"], changed = keeper.lower(), True
    elif keeper is not None:
        notes.append("The keeper is server, client or both.")
    if isinstance(window, int) and not isinstance(window, bool) and window >= 0:
        held["window"], changed = min(window, quotas.context_turns), True
        if window > quotas.context_turns:
            notes.append(f"The window is at most {quotas.context_turns} turns.")
    text = f"{_KEEPER_WORDS[held['keeper']]} The last {held['window']} turns count."
    return Answer.of(
        " ".join([text, *notes]),
        "context",
        {**held, "most": quotas.context_turns},
        {"context": held} if changed else None,
    )


_KEEPER_WORDS: Final[Mapping[str, str]] = {
    "server": "I keep the context of this conversation.",
    "client": "You keep the context: send it as a structured/json part labelled history; I store none of it.",
    "both": "We both keep the context: what you send as a part labelled history counts, else what I have stored.",
}


# -- formats --------------------------------------------------------------------------------------


def on_accept(said: Mapping[str, Any]) -> Answer:
    """Note which formats and languages a back-level client reads (DEP-BACK)."""
    wanted = said.get("formats", said.get("is", ()))
    listed = [wanted] if isinstance(wanted, str) else list(wanted) if isinstance(wanted, list | tuple) else []
    formats = [each.strip().lower()[:100] for each in listed[:20] if isinstance(each, str)]
    known = [each for each in formats if each.partition("/")[0] in FORMATS]
    spoken = said.get("languages")
    languages = (
        [language_name(each) for each in spoken[:20] if isinstance(each, str)] if isinstance(spoken, list) else []
    )
    if not known and not languages:
        return Answer.of(
            "Tell me the formats you read, such as text, structured/json, binary/image.",
            "accept",
            {"formats": sorted(FORMATS - {"token"})},
        )
    terms: dict[str, Any] = {"formats": known} if known else {}
    if languages:
        terms["languages"] = languages
    text = f"From now on you get only: {', '.join(known)}." if known else ""
    if languages:  # nothing here translates: the agent is told, and does what it can
        text = f"{text} The agents are told that you read: {', '.join(languages)}.".strip()
    return Answer.of(text, "accept", terms, {"accept": terms})


# -- small ones -----------------------------------------------------------------------------------


def on_stream(said: Mapping[str, Any]) -> Answer:
    on = said.get("on", said.get("is", True)) is not False
    text = "Partial answers come ahead of the whole one." if on else "Only whole answers come."
    return Answer.of(text, "stream", {"on": on}, {"stream": on})
