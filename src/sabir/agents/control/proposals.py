"""What can be agreed on, and the answer to each proposal. Pure: takes the message and the existing agreements.

Agreements live in the conversation's ``agreed``, by topic; ``sabir.guard.agreements`` enforces them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from sabir.card import Policy
from sabir.guard.quotas.rates import Quotas
from sabir.limits import Limits
from sabir.message import FORMATS, JSON, Part, json_part, language_name

from .vocabulary import MAX_WORDS

_MAX_SHOWN: Final = 20  # items of a proposal that are read, so that a long one does not produce a longer answer
KEEPERS: Final = ("server", "client", "both")
# Lower bounds of what can be agreed on, so that a conversation stays possible.
FLOORS: Final[Mapping[str, int]] = {
    "body": 256,
    "reply": 512,
    "depth": 4,
    "submessages": 4,
    "rate_per_minute": 1,
}


@dataclass(frozen=True, slots=True)
class ProposalAnswer:
    """Text first, then parts for programs; and the new agreements, if they changed."""

    text: str
    parts: tuple[Part, ...] = ()
    agreed: Mapping[str, Any] | None = None  # topic → terms; None as terms removes the topic

    @classmethod
    def of(cls, text: str, label: str, value: JSON, agreed: Mapping[str, Any] | None = None) -> ProposalAnswer:
        return cls(text, (json_part(value, label=label),), agreed)


# -- limits ---------------------------------------------------------------------------------------


def bounds(limits: Limits, quotas: Quotas) -> dict[str, int]:
    """The upper bounds of this gateway, by the names under which lower ones can be negotiated."""
    rate = quotas.rate_per_caller
    return {
        "body": limits.body,
        "reply": limits.body,
        "depth": limits.depth,
        "submessages": limits.submessages,
        "rate_per_minute": int((100.0 if rate is None else rate) * 60),
    }


def on_limits(said: Mapping[str, Any], limits: Limits, quotas: Quotas, agreed: Mapping[str, Any]) -> ProposalAnswer:
    """State the limits, or agree on lower ones; a value over a bound is answered with the bound."""
    allowed = bounds(limits, quotas)
    proposed = said.get("propose", said)
    held = dict(agreed.get("limits", {}))
    details = {
        **msgspec.to_builtins(limits),
        **{name: held.get(name, value) for name, value in allowed.items()},
        "context_turns": quotas.context_turns,
        "context_bytes": quotas.context_bytes,
        "turn_seconds": quotas.turn_seconds,
    }
    if not isinstance(proposed, Mapping) or not proposed:
        return ProposalAnswer.of(
            f"A message may have {details['body']} bytes, {details['submessages']} submessages, {limits.tokens} tokens "
            f"and {details['depth']} levels; {details['rate_per_minute']} messages a minute. "
            "Lower ones can be agreed on.",
            "limits",
            {"limits": details, "agreed": held, "floors": dict(FLOORS)},
        )
    changed, notes = _lowered(proposed, allowed)
    held.update(changed)
    details.update(held)
    words = [f"{name} {value}" for name, value in changed.items()]
    text = f"Agreed from now on: {', '.join(words)}." if words else "Nothing was changed."
    return ProposalAnswer.of(
        " ".join([text, *notes]), "limits", {"limits": details, "agreed": held}, {"limits": held} if changed else None
    )


def _lowered(proposed: Mapping[str, Any], allowed: Mapping[str, int]) -> tuple[dict[str, int], list[str]]:
    changed: dict[str, int] = {}
    notes: list[str] = []
    for name, value in list(proposed.items())[:_MAX_SHOWN]:
        if name not in allowed:
            notes.append(f"{name!s:.40} cannot be negotiated.")
        elif isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            notes.append(f"{name} must be a number above 0.")
        elif value > allowed[name]:
            notes.append(f"{name} can be at most {allowed[name]}.")
        elif value < FLOORS[name]:
            changed[name] = FLOORS[name]
            notes.append(f"{name} cannot be below {FLOORS[name]}.")
        else:
            changed[name] = int(value)
    return changed, notes


# -- policies -------------------------------------------------------------------------------------


def consents(said: Mapping[str, Any], policies: Sequence[Policy], agreed: Mapping[str, Any]) -> list[Policy]:
    """The policies that this would newly accept, for the confirmation question."""
    if _unmet(said, policies):
        return []
    wanted = _accepted_kinds(said, {policy.kind for policy in policies})
    new = wanted - set(agreed.get("policy", {}).get("accepted", ()))
    return [policy for policy in policies if policy.kind in new]


def on_policy(
    said: Mapping[str, Any],
    policies: Sequence[Policy],
    agreed: Mapping[str, Any],
    holders: Mapping[str, Sequence[str]] | None = None,
) -> ProposalAnswer:
    """State the policies, accept them, and say whether the caller's own demands can be met (TR-7.1.5).

    ``holders`` names the agents that alone require a kind; a kind without holders is required for all data.
    """
    holders = holders or {}
    held = dict(agreed.get("policy", {}))
    accepted = set(held.get("accepted", ()))
    known = {policy.kind for policy in policies}
    wanted = _accepted_kinds(said, known)
    unmet = _unmet(said, policies)
    withheld = _withheld(said)
    if unmet:
        return ProposalAnswer.of(
            "I cannot meet this: " + "; ".join(unmet) + ". No policy was agreed.",
            "policy",
            {**offers(policies, accepted, holders), "refused": unmet},
        )
    accepted |= wanted
    open_kinds = sorted({policy.kind for policy in policies if policy.required} - accepted)
    words = [f"{policy.kind}: {policy.text}" for policy in policies]
    if wanted:
        words = [f"You have accepted: {', '.join(sorted(wanted))}."]
    if withheld is not None:
        words.append(f"I will not read: {', '.join(withheld) or 'nothing'} of yours.")
        held["withhold"] = list(withheld)
    words += _to_be_accepted(open_kinds, holders)
    changed = bool(wanted) or withheld is not None
    held["accepted"] = sorted(accepted)
    answer = offers(policies, accepted, holders)
    return ProposalAnswer.of("\n".join(words), "policy", answer, {"policy": held} if changed else None)


def _to_be_accepted(kinds: Sequence[str], holders: Mapping[str, Sequence[str]]) -> list[str]:
    everywhere = [kind for kind in kinds if kind not in holders]
    words = [f"To ask an agent, first accept: {', '.join(everywhere)}."] if everywhere else []
    return words + [f"To ask {', '.join(holders[kind])}, first accept: {kind}." for kind in kinds if kind in holders]


def offers(
    policies: Sequence[Policy], accepted: set[str], holders: Mapping[str, Sequence[str]] | None = None
) -> dict[str, Any]:
    """The policies as JSON: what is offered, whether it is required (by whom), and whether it is accepted."""
    details: dict[str, Any] = {"privacy": {}, "regulatory": {}, "attributes": {}}
    for policy in policies:
        details[policy.kind] = {
            "offer": {"text": policy.text, **policy.terms},
            "require": policy.required,
            "accept": policy.kind in accepted,
        }
        if policy.required and holders and policy.kind in holders:
            details[policy.kind]["agents"] = list(holders[policy.kind])
    return details


def _accepted_kinds(said: Mapping[str, Any], known: set[str]) -> set[str]:
    listed = said.get("accept", ())
    names = (
        {listed} if isinstance(listed, str) else {str(item) for item in listed} if isinstance(listed, list) else set()
    )
    if listed is True or "*" in names:
        return set(known)
    names |= {kind for kind in known if isinstance(said.get(kind), Mapping) and said[kind].get("accept") is True}
    return {name.lower() for name in names} & known


def _unmet(said: Mapping[str, Any], policies: Sequence[Policy]) -> list[str]:
    """The caller's requirements, such as ``regulatory.require.jurisdiction``, that no policy here meets."""
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
    return unmet[:_MAX_SHOWN]


def _holds(stated: object, wanted: object) -> bool:
    if isinstance(stated, list | tuple):
        return wanted in stated if not isinstance(wanted, list) else set(map(str, wanted)) <= set(map(str, stated))
    return stated == wanted or (
        isinstance(stated, str) and isinstance(wanted, str) and stated.lower() == wanted.lower()
    )


def _withheld(said: Mapping[str, Any]) -> tuple[str, ...] | None:
    attributes = said.get("attributes")
    listed = attributes.get("withhold") if isinstance(attributes, Mapping) else None
    return tuple(str(item).lower() for item in listed[:20]) if isinstance(listed, list) else None


# -- context --------------------------------------------------------------------------------------


def on_context(said: Mapping[str, Any], quotas: Quotas, agreed: Mapping[str, Any]) -> ProposalAnswer:
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
    elif window is not None:
        notes.append("The window is a number of turns from 0.")
    text = f"{_KEEPER_WORDS[held['keeper']]} The last {held['window']} turns count."
    return ProposalAnswer.of(
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


def on_accept(said: Mapping[str, Any]) -> ProposalAnswer:
    """Record which formats and languages a back-level client reads (DEP-BACK)."""
    wanted = said.get("formats", said.get("is", ()))
    listed = [wanted] if isinstance(wanted, str) else list(wanted) if isinstance(wanted, list | tuple) else []
    formats = [item.strip().lower()[:100] for item in listed[:20] if isinstance(item, str)]
    known = [item for item in formats if item.partition("/")[0] in FORMATS]
    spoken = said.get("languages")
    languages = (
        [language_name(item) for item in spoken[:20] if isinstance(item, str)] if isinstance(spoken, list) else []
    )
    if not known and not languages:
        return ProposalAnswer.of(
            "Tell me the formats you read, such as text, structured/json, binary/image.",
            "accept",
            {"formats": sorted(FORMATS - {"token"})},
        )
    terms: dict[str, Any] = {"formats": known} if known else {}
    if languages:
        terms["languages"] = languages
    text = f"From now on you get only: {', '.join(known)}." if known else ""
    if languages:  # nothing here translates: the agent gets the list, and does what it can
        text = f"{text} Replies are limited to the formats you read: {', '.join(languages)}.".strip()
    return ProposalAnswer.of(text, "accept", terms, {"accept": terms})


# -- small ones -----------------------------------------------------------------------------------


def on_stream(said: Mapping[str, Any], agreed: Mapping[str, Any], door: str) -> ProposalAnswer:
    """Agree on partial answers; ``on`` and ``partial`` mean the same. What is not possible is refused."""
    on = said.get("on", said.get("partial", said.get("is")))
    if not isinstance(on, bool):
        text = "Partial answers come ahead of the whole one." if agreed.get("stream") else "Only whole answers come."
        return ProposalAnswer.of(f"{text} Either can be agreed on.", "stream", {"on": agreed.get("stream") is True})
    if on and door in _WHOLE_ONLY:
        return ProposalAnswer.of(
            "Only whole answers can be sent here.", "stream", {"on": False, "refused": "not possible here"}
        )
    text = "Only whole answers come."
    if on:
        text = "Partial answers come ahead of the whole one" + _PIECES_OVER.get(door, ".")
    return ProposalAnswer.of(text, "stream", {"on": on, "agreed": True}, {"stream": on})


_WHOLE_ONLY: Final = frozenset({"nlip-amqp"})
_PIECES_OVER: Final[Mapping[str, str]] = {
    "nlip-http": " over WebSocket, and here where a request accepts text/event-stream.",
}


def on_vocabulary(said: Mapping[str, Any], agreed: Mapping[str, Any]) -> ProposalAnswer:
    """Agree on the only words that replies may use; an empty list ends that (NLIP paper, DEP-BACK)."""
    listed = said.get("words", said.get("is"))
    held = agreed.get("vocabulary")
    if not isinstance(listed, list):
        text = f"I answer only with: {', '.join(held)}." if held else "I answer in my own words; name those you want."
        return ProposalAnswer.of(text, "vocabulary", {"words": held or []})
    words = [word.strip() for word in listed[:MAX_WORDS] if isinstance(word, str) and 0 < len(word.strip()) <= 50]
    if len(words) < len(listed):
        text = f"Nothing was changed: expected at most {MAX_WORDS} words of 1 to 50 characters each."
        return ProposalAnswer.of(text, "vocabulary", {"words": held or []})
    if not words:
        return ProposalAnswer.of("I answer in my own words again.", "vocabulary", {"words": []}, {"vocabulary": None})
    text = f"From now on I answer only with: {', '.join(words)}."
    return ProposalAnswer.of(text, "vocabulary", {"words": words}, {"vocabulary": words})
