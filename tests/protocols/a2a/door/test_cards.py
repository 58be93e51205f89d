"""Agent cards: made of Cards, cached, signed where a key is configured."""

from __future__ import annotations

from pathlib import Path

import httpx
import jwt
import pytest
from a2a.client.card_resolver import parse_agent_card
from a2a.types import a2a_pb2 as pb
from a2a.utils.signing import InvalidSignaturesError, create_signature_verifier
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from conftest import Served
from protocols.a2a.a2a_bench import Bench, Keys, connected
from sabir.card import Card, Policy, Skill
from sabir.errors import ConfigError, PeerUnreadable
from sabir.gateway.gateway import Gateway
from sabir.guard import Authenticator, Rights, Rule
from sabir.protocols.a2a.peer.peer import A2aPeer
from sabir.protocols.a2a.wire.cards import card_from, card_to


async def test_the_default_agent_has_the_well_known_card(shared: Served, http: httpx.AsyncClient) -> None:
    answer = await http.get(f"{shared.url}/.well-known/agent-card.json")
    card = answer.json()
    assert (card["name"], card["description"]) == ("echo", "Says it back")
    assert [(item["protocolBinding"], item["protocolVersion"]) for item in card["supportedInterfaces"]] == [
        ("JSONRPC", "1.0"),
        ("HTTP+JSON", "1.0"),
        ("JSONRPC", "0.3"),
        ("HTTP+JSON", "0.3"),
    ]
    assert {item["url"] for item in card["supportedInterfaces"]} == {f"{shared.url}/a2a/echo"}
    assert card["capabilities"]["streaming"] is True
    assert card["capabilities"]["pushNotifications"] is True
    assert "signatures" not in card
    for place in ("/.well-known/agent.json", "/a2a/.well-known/agent-card.json"):
        assert (await http.get(f"{shared.url}{place}")).json() == card


async def test_each_agent_has_its_own(shared: Served, http: httpx.AsyncClient) -> None:
    card = (await http.get(f"{shared.url}/a2a/painter/.well-known/agent-card.json")).json()
    assert card["name"] == "painter"
    assert card["skills"] == [
        {"id": "paint", "name": "Paint", "description": "Paints what you say", "tags": ["art"], "examples": ["a heron"]}
    ]
    assert "image/*" in card["defaultOutputModes"]
    assert "limits" not in card["capabilities"]["extensions"][0]["params"]


async def test_a_card_that_has_not_changed_is_not_sent_again(shared: Served, http: httpx.AsyncClient) -> None:
    tag = (await http.get(f"{shared.url}/.well-known/agent-card.json")).headers["etag"]
    again = await http.get(f"{shared.url}/.well-known/agent-card.json", headers={"if-none-match": tag})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert (await http.get(f"{shared.url}/.well-known/agent-card.json", headers={"if-none-match": '"x"'})).is_success


def test_a_card_is_the_same_after_the_way_there_and_back() -> None:
    card = Card(
        name="painter",
        description="Paints",
        version="2.1",
        skills=(Skill("paint", "Paint", "Paints", ("art",), ("a heron",)),),
        reads=("text", "binary"),
        says=("text", "structured"),
        languages=("english",),
        policies=(Policy("privacy", "Nothing is kept."),),
        provider="Heron Harbour",
        documentation="https://example.com/docs",
    )
    assert card_from(card_to(card, [("JSONRPC", "https://example.com/a2a", "1.0")])) == card


def test_a_remote_name_becomes_one_that_a_card_may_have() -> None:
    assert card_from(pb.AgentCard(name="Hello, World! Agent")).name == "Hello-World-Agent"
    assert card_from(pb.AgentCard(name="日本")).name == "agent"


async def test_an_agent_that_strangers_may_not_use_shows_its_card_to_others_only(
    serve, home: Path, http: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    rights = Rights((Rule(("known",)),))
    served = serve(Gateway(*Bench().agents(), home=home, rights=rights, identity=Authenticator((Keys(),))))
    place = f"{served.url}/a2a/painter/.well-known/agent-card.json"
    refused = await http.get(place)
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
    card = (await http.get(place, headers={"authorization": "Bearer alice"})).json()
    assert [skill["id"] for skill in card["skills"]] == ["paint"]
    assert "spec-compliant" not in caplog.text
    assert card["securityRequirements"] == [{"schemes": {"bearer": {}}}]
    request = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {}}
    request["params"] = {"message": {"messageId": "1", "role": "user", "parts": [{"kind": "text", "text": "x"}]}}
    answer = await http.post(f"{served.url}/a2a/painter", json=request)
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    client = await connected(served.url, "painter", as_="alice")
    whole = await client.get_extended_agent_card(pb.GetExtendedAgentCardRequest())
    assert [skill.id for skill in whole.skills] == ["paint"]
    await client._transport.httpx_client.aclose()


KEYS = {
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate(),
    "RS256": rsa.generate_private_key(65537, 2048),
}


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
async def test_a_card_is_signed_with_the_configured_key(serve, home: Path, http: httpx.AsyncClient, key) -> None:
    served = serve(Gateway(*Bench().agents(), home=home, doors={"a2a": {"signing_key": _written(home, key)}}))
    card = parse_agent_card((await http.get(f"{served.url}/.well-known/agent-card.json")).json())
    header = jwt.get_unverified_header(f"{card.signatures[0].protected}..{card.signatures[0].signature}")
    keys = (await http.get(header["jku"])).json()["keys"]
    public = next(item for item in keys if item["kid"] == header["kid"])
    assert "d" not in public
    verify = create_signature_verifier(lambda kid, jku: jwt.PyJWK(public), [header["alg"]])
    verify(card)
    card.description = "Something else"
    with pytest.raises(InvalidSignaturesError):
        verify(card)


async def test_a_peer_believes_only_cards_that_known_keys_signed(serve, home: Path, http: httpx.AsyncClient) -> None:
    served = serve(Gateway(*Bench().agents(), home=home, doors={"a2a": {"signing_key": _written(home, KEYS["ES256"])}}))
    known = (await http.get(f"{served.url}/a2a/.well-known/jwks.json")).json()
    async with A2aPeer(f"{served.url}/a2a/echo", card_keys=known) as peer:
        assert (await peer.ask("hi")).text == "hi"
    other = serve(Gateway(*Bench().agents(), home=home / "other"))
    for url in (served.url, other.url):  # signed by somebody else, and not signed
        stranger = known if url == other.url else (await http.get(f"{other.url}/a2a/.well-known/jwks.json")).json()
        async with A2aPeer(f"{url}/a2a/echo", card_keys=stranger) as peer:
            with pytest.raises(PeerUnreadable, match="not signed by a key we know"):
                await peer.ask("hi")
    with pytest.raises(ConfigError, match="card_keys"):
        A2aPeer(served.url, card_keys={"keys": [{"kty": "nonsense"}]})


def test_a_key_that_cannot_be_used_is_said_at_start(home: Path) -> None:
    with pytest.raises(ConfigError, match=r"doors\.a2a\.signing_key: .*No such file"):
        Gateway(*Bench().agents(), home=home, doors={"a2a": {"signing_key": str(home / "none.pem")}})
    home.mkdir(exist_ok=True)
    (home / "bad.pem").write_text("nonsense")
    with pytest.raises(ConfigError, match="expected a private key in PEM"):
        Gateway(*Bench().agents(), home=home, doors={"a2a": {"signing_key": str(home / "bad.pem")}})
    with pytest.raises(ConfigError, match=r"unknown key doors\.a2a\.sign: did you mean signing_key\?"):
        Gateway(*Bench().agents(), home=home, doors={"a2a": {"sign": 1}})


def _written(home: Path, key) -> str:
    home.mkdir(exist_ok=True)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (home / "key.pem").write_bytes(pem)
    return str(home / "key.pem")
