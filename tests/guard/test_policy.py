"""Who may do what."""

from __future__ import annotations

import pytest

from sabir.card import Card, Skill
from sabir.errors import Forbidden, Unauthenticated
from sabir.guard import Rights, Rule
from sabir.guard.rights import is_given_here
from sabir.message import Message
from sabir.turn import Caller, Turn

STAFF = Caller("key:1", "key", frozenset({"staff"}))
GUEST = Caller("key:2", "key")
STRANGER = Caller()
RIGHTS = Rights(
    (
        Rule(("anonymous",), agents=("echo",), doors=("nlip-*",)),
        Rule(("known",), agents=("search-*",), skills=("find",), tools=()),
        Rule(("staff",), agents=("*",), tools=("read_*",)),
        Rule(("id:key:2",), agents=("private",)),
    )
)


def test_without_rules_everybody_may_do_everything_and_with_one_nothing_that_is_not_allowed() -> None:
    assert Rights().allows(STRANGER, agent="anything", tool="rm")
    one = Rights((Rule(("staff",), agents=("a",)),))
    assert one.allows(STAFF, agent="a")
    assert not one.allows(STAFF, agent="b")
    assert not one.allows(STRANGER, agent="a")


@pytest.mark.parametrize(
    ("caller", "asked", "allowed"),
    [
        (STRANGER, {"agent": "echo", "door": "nlip-http"}, True),
        (STRANGER, {"agent": "echo", "door": "mcp"}, False),
        (STRANGER, {"agent": "echo2", "door": "nlip-http"}, False),
        (GUEST, {"agent": "search-shop"}, True),
        (GUEST, {"agent": "search-shop", "skill": "find"}, True),
        (GUEST, {"agent": "search-shop", "skill": "delete"}, False),
        (GUEST, {"agent": "search-shop", "tool": "read_file"}, False),
        (GUEST, {"agent": "private"}, True),
        (STAFF, {"agent": "private"}, True),
        (STAFF, {"agent": "x", "tool": "read_file"}, True),
        (STAFF, {"agent": "x", "tool": "write_file"}, False),
        (STRANGER, {"agent": "private"}, False),
    ],
)
def test_roles_give_agents_doors_tools_and_skills(caller: Caller, asked: dict[str, str], allowed: bool) -> None:
    assert RIGHTS.allows(caller, **asked) is allowed  # type: ignore[arg-type]


def test_an_anonymous_caller_must_authenticate_and_a_known_one_is_forbidden() -> None:
    with pytest.raises(Unauthenticated, match="private requires authentication"):
        RIGHTS.check(STRANGER, agent="private")
    with pytest.raises(Forbidden, match="no right to use write_file"):
        RIGHTS.check(STAFF, agent="x", tool="write_file")


def test_a_caller_sees_of_a_card_only_what_it_may_use() -> None:
    card = Card("search-shop", skills=(Skill("find", "Find"), Skill("delete", "Delete")))
    assert RIGHTS.visible(STRANGER, card) is None
    seen = RIGHTS.visible(GUEST, card)
    assert seen is not None and [skill.id for skill in seen.skills] == ["find"]
    assert RIGHTS.visible(STAFF, card) is card


def test_an_agent_asks_with_the_rights_of_its_caller_and_no_more() -> None:
    """The confused deputy (SEC-P2.3): a sub-turn is not a way around the rules."""
    for caller in (STRANGER, GUEST, STAFF):
        turn = Turn(Message.text("hi"), caller=caller, agent="router")
        sub = turn.sub(Message.text("do it"), _To()).sub(Message.text("and this"), _To())
        assert sub.caller.kind == "agent"
        assert sub.caller.claims == {}
        assert sub.caller.on_behalf_of == ("" if caller.is_anonymous else caller.id)
        for asked in ({"agent": "private"}, {"agent": "x", "tool": "write_file"}, {"agent": "echo", "door": "mcp"}):
            assert RIGHTS.allows(sub.caller, **asked) is RIGHTS.allows(caller, **asked)  # type: ignore[arg-type]


def test_roles_that_the_guard_gives_cannot_be_had_from_a_key() -> None:
    sly = Caller("key:9", "key", frozenset({"local"}))
    assert not RIGHTS.allows(sly, agent="x", tool="read_file")


class _To:
    card = Card("private")


@pytest.mark.parametrize("kind", ["anonymous", "key", "subject", "certificate", "token", "local"])
def test_whatever_roles_callers_are_given_here_nobody_can_bring_along(kind: str) -> None:
    caller = Caller("key:1", kind, frozenset({"staff"}))
    assert all(is_given_here(role) for role in caller.effective_roles - {"staff"})
    assert not is_given_here("staff")
