"""Who we are to others: one identity per service, and the caller's token exchanged, never passed on."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs

import pytest
import pytest_asyncio

from guard_clock import Clock
from guard_site import Answer, Site
from sabir.errors import ConfigError, Forbidden, PeerRefused, PeerUnreadable
from sabir.guard.egress.addresses import GuardedClient, Outbound, OutboundRules
from sabir.guard.egress.credentials import OutgoingCredentials, Service
from sabir.guard.identity.jwt import SubjectTokens
from sabir.guard.identity.oauth import challenge, metadata_path, metadata_url, protected_resource
from sabir.message import Message
from sabir.turn import Caller, Turn

ALICE = Caller("https://id.example#alice", "subject")
BOB = Caller("https://id.example#bob", "subject")


@pytest_asyncio.fixture
async def fetcher() -> AsyncIterator[GuardedClient]:
    async with GuardedClient(Outbound(OutboundRules(private=True)), seconds=5.0) as made:
        yield made


def authorization_server(site: Site) -> list[tuple[dict[str, str], dict[str, str]]]:
    """Gives a token that names whom it was exchanged for; keeps what it was asked."""
    asked: list[tuple[dict[str, str], dict[str, str]]] = []

    def answer(body: bytes, headers: dict[str, str]) -> Answer:
        form = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        asked.append((form, headers))
        whose = form.get("subject_token", "gateway")
        said = {"access_token": f"T{len(asked)}-for-{whose}", "token_type": "Bearer", "expires_in": 300}
        return 200, {"content-type": "application/json"}, json.dumps(said).encode()

    site.answers["/token"] = answer
    return asked


async def test_each_service_gets_its_own_identity_and_others_get_none() -> None:
    services = [
        Service("https://a.example", token="env:TOKEN_A"),
        Service("https://a.example/admin", key="admin key", header="X-Key"),
        Service("http://b.example:8080", token="bbb"),
        Service("amqps://broker.example/nlip", token="ccc"),
    ]
    outgoing = OutgoingCredentials(services, environment={"TOKEN_A": "aaa"})
    expected = {
        "https://a.example/nlip": {"authorization": "Bearer aaa"},
        "https://a.example:443/": {"authorization": "Bearer aaa"},
        "wss://a.example/nlip/ws": {"authorization": "Bearer aaa"},
        "ws://b.example:8080/nlip/ws": {"authorization": "Bearer bbb"},
        "amqps://user:pw@broker.example/nlip/hotel": {"authorization": "Bearer ccc"},
        "amqp://user:pw@broker.example/nlip": {},
        "ws://a.example/": {},
        "https://a.example/admin/x": {"x-key": "admin key"},
        "https://a.example/administer": {"authorization": "Bearer aaa"},
        "http://b.example:8080/": {"authorization": "Bearer bbb"},
        "http://b.example/": {},
        "http://a.example/": {},  # not in the clear
        "https://a.example.evil.example/": {},
        "https://evil.example/https://a.example/": {},
        "https://x@a.example/": {},
        "https://a.example:444/": {},
        "https://[bad": {},
    }
    assert {url: await outgoing.headers(url, ALICE) for url in expected} == expected


async def test_a_secret_that_is_not_there_is_said_by_the_name_of_its_variable() -> None:
    with pytest.raises(ConfigError, match="the environment variable NO_CONVERSATION is not set"):
        await OutgoingCredentials([Service("https://a.example", token="env:NO_CONVERSATION")], environment={}).headers(
            "https://a.example/", ALICE
        )


@pytest.mark.parametrize(
    "invalid", [{}, {"token": "a", "key": "b"}, {"token_url": "https://x/"}, {"origin": "a.example", "token": "t"}]
)
def test_a_service_that_is_not_clear_is_refused(invalid: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        Service(**{"origin": "https://a.example", **invalid})


async def test_client_credentials_are_asked_for_once_and_again_before_they_end(
    site: Site, fetcher: GuardedClient, clock: Clock
) -> None:
    asked = authorization_server(site)
    service = Service("https://a.example", token_url=f"{site.url}/token", client="us", secret="s:1", scope="ask")
    outgoing = OutgoingCredentials([service], fetcher, clock=clock)
    for caller in (ALICE, BOB):
        assert await outgoing.headers("https://a.example/", caller) == {"authorization": "Bearer T1-for-gateway"}
    [(form, headers)] = asked
    assert form == {"grant_type": "client_credentials", "scope": "ask"}
    assert base64.b64decode(headers["authorization"].removeprefix("Basic ")) == b"us:s%3A1"
    clock.now += 271  # half a minute before its end
    assert (await outgoing.headers("https://a.example/", ALICE))["authorization"] == "Bearer T2-for-gateway"


async def test_a_callers_token_is_exchanged_and_never_given_to_another_caller(
    site: Site, fetcher: GuardedClient, clock: Clock
) -> None:
    """RFC 8693 instead of passthrough; one gateway leaked tokens between users."""
    asked = authorization_server(site)
    subjects = SubjectTokens(clock=clock)
    subjects.keep(ALICE.id, "alices-token", clock.now + 300)
    subjects.keep(BOB.id, "bobs-token", clock.now + 300)
    service = Service(
        "https://a.example", token_url=f"{site.url}/token", client="us", audience="https://a.example", exchange=True
    )
    outgoing = OutgoingCredentials([service], fetcher, subjects, clock=clock)
    agent_of_alice = Turn(Message.text("x"), caller=ALICE, agent="router").sub(Message.text("x"), _To()).caller
    for caller, whose in ((ALICE, "alices"), (BOB, "bobs"), (agent_of_alice, "alices"), (BOB, "bobs")):
        got = (await outgoing.headers("https://a.example/", caller))["authorization"]
        assert got.endswith(f"-for-{whose}-token") and got != f"Bearer {whose}-token"
    assert len(asked) == 2
    assert asked[0][0] == {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "subject_token": "alices-token",
        "subject_token_type": "urn:ietf:params:oauth:token-type:access_token",
        "requested_token_type": "urn:ietf:params:oauth:token-type:access_token",
        "audience": "https://a.example",
        "client_id": "us",
    }
    for nobody in (Caller(), Caller("key:1", "key")):
        with pytest.raises(Forbidden, match="requires the caller"):
            await outgoing.headers("https://a.example/", nobody)


@pytest.mark.parametrize(
    ("status", "said", "error"),
    [
        (400, b'{"error": "invalid_target", "error_description": "secret detail"}', PeerRefused),
        (500, b"oops", PeerRefused),
        (200, b"not json", PeerUnreadable),
        (200, b'{"access_token": 5}', PeerUnreadable),
        (200, b'{"access_token": "x", "token_type": "mac"}', PeerUnreadable),
    ],
)
async def test_an_authorization_server_that_says_no_or_nonsense_is_an_error(
    site: Site, fetcher: GuardedClient, status: int, said: bytes, error: type[Exception]
) -> None:
    site.says("/token", said, status)
    service = Service("https://a.example", token_url=f"{site.url}/token", client="us", secret="the-secret")
    with pytest.raises(error) as raised:
        await OutgoingCredentials([service], fetcher).headers("https://a.example/", ALICE)
    assert "the-secret" not in str(raised.value) and "secret detail" not in str(raised.value)


def test_the_metadata_of_a_resource_and_the_way_to_it() -> None:
    assert metadata_path("https://a.example/mcp/") == "/.well-known/oauth-protected-resource/mcp"
    assert metadata_url("https://a.example") == "https://a.example/.well-known/oauth-protected-resource"
    assert protected_resource("https://a.example/mcp", ["https://id.example"], name="Sabir", dpop=True) == {
        "resource": "https://a.example/mcp",
        "authorization_servers": ["https://id.example"],
        "bearer_methods_supported": ["header"],
        "resource_name": "Sabir",
        "dpop_bound_access_tokens_required": True,
    }
    assert challenge() == "Bearer"
    assert challenge("https://a.example/mcp", scope="ask", error="insufficient_scope") == (
        'Bearer resource_metadata="https://a.example/.well-known/oauth-protected-resource/mcp", '
        'scope="ask", error="insufficient_scope"'
    )
    assert challenge(scope='x"\r\nSet-Cookie: a') == 'Bearer scope="xSet-Cookie: a"'


class _To:
    from sabir.card import Card

    card = Card("far")
