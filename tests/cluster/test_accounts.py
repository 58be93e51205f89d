"""What a turn uses on another node: on its caller's account, within the turn's budget, and in the audit line."""

from __future__ import annotations

import pytest

from cluster.test_nodes import Asker, Cluster, cluster, local, until  # noqa: F401  # a fixture
from sabir.agent import agent
from sabir.errors import Forbidden, RateLimited, TurnFailed
from sabir.events import Reply
from sabir.guard import Quotas, Rights, Rule
from sabir.guard.audit.log import expand
from sabir.message import Message
from sabir.observe.settings import ObserveSettings
from sabir.turn import Caller, Turn


@agent(name="spender")
async def spender(turn: Turn) -> str:
    turn.used.append("read_db")
    turn.spend(calls=1, tokens=100, cost=0.25)
    return "spent"


STRANGER, OTHER = Caller(address="203.0.113.7"), Caller(address="203.0.113.8")


async def test_strangers_have_the_quotas_of_a_day_also_for_agents_on_other_nodes(cluster: Cluster) -> None:  # noqa: F811
    quotas = Quotas(daily_cost=1.0, daily_tokens=1000)
    await cluster.node(spender, local, quotas=quotas)
    a = await cluster.node(local, quotas=quotas)
    await until(lambda: "spender" in a.agents)
    for _ in range(4):
        await Asker(a, STRANGER).ask("?", "spender")
    left = {item.name: item.remaining for item in await a.guard.usage.left(STRANGER)}
    assert left == {"daily-tokens": 600, "daily-cost": 0}
    with pytest.raises(RateLimited, match="the quota of 1 cost a day is used up"):
        await Asker(a, STRANGER).ask("?", "spender")
    assert (await Asker(a, OTHER).ask("?", "spender")).text == "spent"


async def test_an_agent_that_asks_one_of_another_node_spends_from_its_callers_account(cluster: Cluster) -> None:  # noqa: F811
    quotas = Quotas(daily_cost=0.5)

    @agent(name="panel")
    async def panel(turn: Turn) -> str:
        said = ""
        async for event in a.agents["spender"](turn.sub(Message.text("?"), a.agents["spender"])):
            said = event.message.text if isinstance(event, Reply) else said
        return said

    await cluster.node(spender, local, quotas=quotas)
    a = await cluster.node(panel, local, quotas=quotas)
    await until(lambda: "spender" in a.agents)
    for _ in range(2):
        await Asker(a, STRANGER).ask("?", "panel")
    with pytest.raises(RateLimited, match="cost a day is used up"):
        await Asker(a, STRANGER).ask("?", "panel")


async def test_what_was_used_elsewhere_is_in_the_audit_line_and_counted_once(cluster: Cluster) -> None:  # noqa: F811
    b = await cluster.node(spender, local, observe=ObserveSettings(metrics=True))
    a = await cluster.node(local, observe=ObserveSettings(metrics=True))
    await until(lambda: "spender" in a.agents)
    ann = Asker(a)
    await ann.ask("?", "spender")
    found = [line for at in await cluster.store.audit_lines(0, 100) for line in expand(at.line) if line.kind == "turn"]
    assert [(line.caller, line.detail.get("tool")) for line in found] == [("key:ann", "read_db")]
    metrics = [node.exchange.observer.metrics for node in (a, b)]  # type: ignore[union-attr]
    spent = [metric.prompt_tokens.value("spender") + metric.completion_tokens.value("spender") for metric in metrics]
    assert spent == [0, 100]


async def test_a_refusal_on_another_node_is_one_line(cluster: Cluster) -> None:  # noqa: F811
    @agent(name="careful")
    async def careful(turn: Turn) -> str:
        turn.permit(tool="delete_all")
        return "deleted"

    rights = Rights((Rule(("guest",), tools=("read_*",)),))
    await cluster.node(careful, local, rights=rights)
    a = await cluster.node(local, rights=rights)
    await until(lambda: "careful" in a.agents)
    with pytest.raises(Forbidden):
        await Asker(a).ask("?", "careful")
    found = [at.line for at in await cluster.store.audit_lines(0, 100)]
    assert [(line.kind, line.outcome, line.caller, line.agent) for line in found] == [
        ("failed", "Forbidden", "key:ann", "careful")
    ]


@pytest.mark.parametrize("budget", [{"turn_cost": 0.6}, {"turn_tokens": 250}, {"turn_calls": 2}], ids=str)
async def test_a_turn_has_one_budget_on_all_nodes(cluster: Cluster, budget: dict[str, float]) -> None:  # noqa: F811
    asked = 0

    @agent(name="thrice")
    async def thrice(turn: Turn) -> str:
        nonlocal asked
        for asked in range(1, 4):  # noqa: B007  # looked at when it was ended
            async for _ in a.agents["spender"](turn.sub(Message.text("?"), a.agents["spender"])):
                pass
        return "spent thrice"

    quotas = Quotas(**budget)  # type: ignore[arg-type]
    await cluster.node(spender, local, quotas=quotas)
    a = await cluster.node(thrice, local, quotas=quotas)
    await until(lambda: "spender" in a.agents)
    with pytest.raises(TurnFailed, match="the turn's budget of"):
        await Asker(a).ask("?", "thrice")
    assert asked == 3
    assert (await Asker(a).ask("?", "spender")).text == "spent"  # another turn, another budget
