"""A gateway on a real socket with several callers, for those who try to get at each other's things."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from conftest import Served, serving
from protocols.nlip.amqp.conftest import broker, prefix  # noqa: F401  # fixtures: a real RabbitMQ
from sabir import Turn, agent
from sabir.gateway.gateway import Gateway
from sabir.guard.build import GuardSettings
from sabir.guard.quotas.rates import Quotas
from sabir.guard.rights import Rule
from suites.security.attackers import Caller, add_key

PLANTED = "PLANTED-4417-SECRET"


@agent(description="Says what was said before in this conversation")
async def memory(turn: Turn) -> str:
    before = "; ".join(past.asked.text for past in turn.conversation.turns)
    return f"{turn.caller.name or turn.caller.id}: {before}"


@agent(description="Only for staff")
async def vault(turn: Turn) -> str:
    return "the vault is open"


@agent(description="Fails, and says too much in doing so")
async def leaky(turn: Turn) -> str:
    raise RuntimeError(f"could not connect with password {PLANTED}")


@agent(description="Never ends", repeatable=True)
async def endless(turn: Turn) -> str:
    await asyncio.sleep(3600)
    return ""


RULES = (
    Rule(("anonymous",), agents=("memory", "leaky", "endless")),
    Rule(("staff",), agents=("*",)),
)


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One gateway for a whole file: rules, API keys, the default limits."""
    home = tmp_path_factory.mktemp("home")
    gateway = Gateway(
        memory, vault, leaky, endless, home=home, guard=GuardSettings(rights=RULES, quotas=Quotas(turn_seconds=20.0))
    )
    with serving(gateway) as served:
        yield served


@pytest.fixture(scope="module")
def alice(services: Served) -> Iterator[Caller]:
    with Caller(services.url, add_key(services.gateway.home, "alice", "staff")) as caller:
        yield caller


@pytest.fixture(scope="module")
def mallory(services: Served) -> Iterator[Caller]:
    with Caller(services.url, add_key(services.gateway.home, "mallory")) as caller:
        yield caller


@pytest.fixture(scope="module")
def stranger(services: Served) -> Iterator[Caller]:
    with Caller(services.url) as caller:
        yield caller
