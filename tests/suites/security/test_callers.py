"""Who may come in, tried over real sockets: keys, passes, JWT, DPoP, certificates, rights, guessing, downgrades."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from joserfc import jwk, jws, jwt
from websockets.sync.client import connect

from certificates import Authority
from conftest import Serve, Served, serving
from deadline import DEADLINE
from guard_site import Site
from sabir import Turn, agent
from sabir.gateway.gateway import Gateway
from sabir.guard.build import GuardSettings, IdentitySettings
from sabir.guard.identity.jwt import Issuer
from sabir.guard.quotas.rates import Quotas
from sabir.guard.rights import Rule
from sabir.server import Serving, Tls
from sabir.stores.base import ChainedLine
from sabir.stores.sqlite.store import SQLiteStore
from suites.security.attackers import Caller, add_key, part, say, token, tokens


@agent(description="Says who asks")
async def who(turn: Turn) -> str:
    return f"{turn.caller.kind} {turn.caller.id} {' '.join(sorted(turn.caller.roles))}"


# -- keys and rights ------------------------------------------------------------------------------


def test_rights_decide_and_a_hidden_agent_is_refused_like_a_missing_one(
    alice: Caller, mallory: Caller, stranger: Caller
) -> None:
    assert alice.ask(say("open"), "vault").json()["content"] == "the vault is open"
    assert alice.ask(say("open"), "nothing").status_code == 404
    for name in ("vault", "nothing"):
        assert mallory.ask(say("open"), name).status_code == 403
        refused = stranger.ask(say("open"), name)
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"] == "Bearer"
        assert refused.json()["messagetype"] == "control"  # CORE-6.5-draft: it asks for authentication


OPEN = (
    "/", "/health", "/metrics", "/.well-known/agent-card.json", "/.well-known/nlip", "/a2a/vault", "/who", "/sites",
    "/openapi.json", "/mcp", "/agents", "/nlip/vault", "/docs",
)  # fmt: skip


def test_a_caller_sees_only_what_it_may_use(alice: Caller, mallory: Caller, stranger: Caller) -> None:
    for caller, sees in ((alice, True), (mallory, False), (stranger, False)):
        reply = caller.ask(say("What can you do? List your agents.", control=True))
        assert reply.status_code == 200
        assert ("vault" in reply.text) is sees
    for path in OPEN:
        assert "Only for staff" not in stranger.http.get(path).text, path
    # A2A: a card says how to authenticate, so anybody may read it by its name; what the agent can do is not in it.
    assert stranger.http.get("/a2a/vault/.well-known/agent-card.json").json().get("skills", []) == []


@pytest.mark.parametrize("invalid", ["Bearer sbk_000000000000_x", "Bearer x", "Basic YTpi", "", "Bearer", "bearer x y"])
def test_wrong_credentials_are_refused_and_not_taken_for_nobody(stranger: Caller, invalid: str) -> None:
    """Downgrade: a caller whose credentials are not right does not go on as a stranger."""
    reply = stranger.ask(say("hi"), authorization=invalid)
    assert reply.status_code == 401
    assert reply.json()["messagetype"] == "control"


def test_an_expired_and_a_revoked_key_are_refused(services: Served) -> None:
    with Caller(services.url, add_key(services.gateway.home, "late", expires=time.time() - 1)) as late:
        assert late.ask(say("hi")).status_code == 401


def test_two_authorization_headers_are_rejected(services: Served, alice: Caller) -> None:
    with socket.create_connection((services.host, services.port)) as sock:
        body = json.dumps(say("open")).encode()
        sock.sendall(
            b"POST /nlip/vault HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nConnection: close\r\n"
            b"Authorization: Bearer x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s"
            % ((alice.key or "").encode(), len(body), body)
        )
        answer = b"".join(iter(lambda: sock.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 401")


def test_a_pass_is_issued_by_control_and_works_only_for_its_caller(services: Served, alice: Caller) -> None:
    """CORE-6.2.2: we make it, the peer returns it, we turn it back into a caller; elsewhere it does not open."""
    reply = alice.ask(say("Please authenticate me", control=True))
    issued = next(item for item in tokens(reply) if item["subformat"] == "authentication")
    with Caller(services.url) as same_place, Caller(services.url, address="127.0.0.3") as elsewhere:
        answer = same_place.ask(say("open", issued), "vault")
        assert answer.json()["content"] == "the vault is open"
        assert issued in tokens(answer)
        assert elsewhere.ask(say("open", issued), "vault").status_code == 401
    bent = {**issued, "content": issued["content"][:-6]}
    with Caller(services.url) as forger:
        assert forger.ask(say("open", bent), "vault").status_code == 401


def test_a_stranger_is_given_no_pass(stranger: Caller) -> None:
    reply = stranger.ask(say("Please authenticate me", control=True))
    assert [item["subformat"] for item in tokens(reply)] == ["conversation"]
    assert part(reply, "authentication")["known"] is False


def test_guessing_keys_is_slowed_down_for_that_address_only(serve: Serve, home: Path) -> None:
    served = serve(Gateway(who, home=home, guard=GuardSettings(rights=(Rule(("known",)),))))
    key = add_key(home, "alice")
    with Caller(served.url, "sbk_000000000000_guess", address="127.0.0.9") as guesser:
        seen = [guesser.ask(say("hi")).status_code for _ in range(25)]
    assert seen[0] == 401 and seen[-1] == 429
    with Caller(served.url, key) as alice:
        assert alice.ask(say("hi")).status_code == 200


def test_anonymous_may_be_shut_out(serve: Serve, home: Path) -> None:
    settings = GuardSettings(identity=IdentitySettings(anonymous=False))
    served = serve(Gateway(who, home=home, guard=settings))
    with Caller(served.url) as stranger:
        for message in (say("hi"), say("What can you do?", control=True)):
            assert stranger.ask(message).status_code == 401
        assert stranger.http.get("/nlip/tasks/x").status_code == 401


# -- JWT and DPoP ---------------------------------------------------------------------------------

RSA = jwk.RSAKey.generate_key(2048, parameters={"kid": "one"})
PROVER = jwk.ECKey.generate_key("P-256")


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    made = Site()
    made.says("/jwks", json.dumps({"keys": [RSA.as_dict(private=False)]}).encode())
    yield made
    made.close()


@pytest.fixture(scope="module")
def guarded(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    issuer = Issuer("https://id.example", ("https://agents.example",), jwks=f"{site.url}/jwks")
    settings = GuardSettings(IdentitySettings(issuers=(issuer,), scopes=("ask",)), rights=(Rule(("scope:ask",)),))
    gateway = Gateway(who, home=tmp_path_factory.mktemp("jwt"), guard=settings, public_url="https://agents.example")
    with serving(gateway) as served:
        yield served


def claims(**more: Any) -> dict[str, Any]:
    now = int(time.time())
    base = {"iss": "https://id.example", "aud": "https://agents.example", "sub": "alice", "iat": now, "exp": now + 300}
    return {**base, "scope": "ask", **more}


def signed(said: dict[str, Any], key: Any = RSA, **header: Any) -> str:
    return jwt.encode({"alg": "RS256", "kid": "one", **header}, said, key)


def encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def test_a_token_of_the_issuer_lets_in(guarded: Served) -> None:
    with Caller(guarded.url, signed(claims())) as alice:
        assert alice.ask(say("hi")).json()["content"] == "subject https://id.example#alice scope:ask"


def test_a_forged_expired_foreign_or_confused_token_does_not(guarded: Served) -> None:
    """Token passthrough and algorithm confusion: a token for another audience, none, HS256 over the public key."""
    import hmac

    stranger = jwk.RSAKey.generate_key(2048)
    none = f"{encoded({'alg': 'none'})}.{encoded(claims())}."
    head = f"{encoded({'alg': 'HS256', 'kid': 'one'})}.{encoded(claims())}"
    mac = hmac.new(RSA.as_pem(private=False), head.encode(), hashlib.sha256).digest()
    confused = f"{head}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"
    good = signed(claims())
    swapped = ".".join((good.split(".")[0], encoded(claims(sub="root")), good.split(".")[2]))
    raised = [
        signed(claims(aud="https://other.example")), signed(claims(exp=int(time.time()) - 600)),
        signed(claims(iss="https://evil.example")), signed(claims(), stranger), none, confused, swapped, good[:-10],
        signed(claims(nbf=int(time.time()) + 600)), signed(claims(sub="")),
    ]  # fmt: skip
    for number, item in enumerate(raised):
        with Caller(guarded.url, item, address=f"127.0.1.{number + 1}") as forger:
            reply = forger.ask(say("hi"))
            assert reply.status_code == 401, number
            assert item not in reply.text
        with Caller(guarded.url, address=f"127.0.2.{number + 1}") as forger:
            assert forger.ask(say("hi", token(item, "authentication"))).status_code == 401, number


def test_without_the_scope_a_known_caller_is_forbidden(guarded: Served) -> None:
    """Scope creep: what was not granted is not had."""
    with Caller(guarded.url, signed(claims(scope="read"))) as narrow:
        assert narrow.ask(say("hi")).status_code == 403


def test_the_challenge_says_where_a_token_comes_from(guarded: Served) -> None:
    """RFC 9728, and MCP's authorization text."""
    with Caller(guarded.url) as stranger:
        challenge = stranger.ask(say("hi")).headers["www-authenticate"]
        place = "https://agents.example/.well-known/oauth-protected-resource/nlip"
        assert challenge == f'Bearer resource_metadata="{place}"'
        document = stranger.http.get("/.well-known/oauth-protected-resource/nlip").json()
    assert document == {
        "resource": f"{guarded.url}/nlip",
        "authorization_servers": ["https://id.example"],
        "bearer_methods_supported": ["header"],
        "scopes_supported": ["ask"],
    }


def proof(url: str, access: str, jti: str, key: Any = PROVER, method: str = "POST") -> str:
    ath = base64.urlsafe_b64encode(hashlib.sha256(access.encode()).digest()).rstrip(b"=").decode()
    said = {"htm": method, "htu": url, "iat": int(time.time()), "jti": jti, "ath": ath}
    head = {"alg": "ES256", "typ": "dpop+jwt", "jwk": key.as_dict(private=False)}
    return jws.serialize_compact(head, json.dumps(said), key, ["ES256"])


def test_a_bound_token_is_worth_nothing_without_its_key_and_a_proof_is_good_once(guarded: Served) -> None:
    access = signed(claims(cnf={"jkt": PROVER.thumbprint()}))
    url = f"{guarded.url}/nlip/"
    with Caller(guarded.url, address="127.0.3.1") as caller:

        def present(dpop: str | None, scheme: str = "DPoP") -> int:
            headers = {"authorization": f"{scheme} {access}", **({"dpop": dpop} if dpop else {})}
            return caller.ask(say("hi"), **headers).status_code

        good = proof(url, access, "1")
        assert present(good) == 200
        assert present(good) == 401  # replayed
        later = {"authorization": f"DPoP {access}", "dpop": proof(url, access, "later"), "prefer": "respond-async"}
        assert caller.ask(say("hi"), **later).status_code == 202
        assert present(proof(url, access, "2")) == 200
        thief = jwk.ECKey.generate_key("P-256")
        stolen = [
            (None, "DPoP"), (None, "Bearer"), (proof(url, access, "3"), "Bearer"),
            (proof(url, access, "4", thief), "DPoP"), (proof(f"{guarded.url}/other", access, "5"), "DPoP"),
        ]  # fmt: skip
        assert [present(dpop, scheme) for dpop, scheme in stolen] == [401] * 5


@pytest.mark.parametrize("form", ["message", "batch"])
def test_a_websocket_is_opened_with_a_proof_and_a_proof_opens_one(guarded: Served, form: str) -> None:
    """The proof is that of the handshake: GET, its URL; good once, on this connection, and while the token lives."""
    access = signed(claims(cnf={"jkt": PROVER.thumbprint()}))
    url = f"{guarded.url}/nlip/ws/text"

    def answers(dpop: str | None, token: str = access, *, times: int = 1, until: float = 0.0) -> list[str]:
        headers = {"authorization": f"DPoP {token}", **({"dpop": dpop} if dpop else {})}
        with connect(url.replace("http", "ws"), additional_headers=headers) as ws:
            said = []
            for _ in range(times):
                ws.send(json.dumps(say("hi") if form == "message" else {"batch": [say("hi")]}))
                answer = json.loads(ws.recv(timeout=DEADLINE))
                said.append((answer if form == "message" else answer["batch"][0])["content"])
                time.sleep(max(0.0, until - time.time()))
            return said

    alice = "subject https://id.example#alice scope:ask"
    good = proof(url, access, f"ws-1-{form}", method="GET")
    assert answers(good, times=3) == [alice] * 3
    assert answers(proof(url.replace("http", "ws"), access, f"ws-2-{form}", method="GET")) == [alice]
    thief = jwk.ECKey.generate_key("P-256")
    raised = (
        good,  # replayed
        None,
        proof(url, access, f"ws-3-{form}"),  # of a POST
        proof(f"{guarded.url}/nlip/", access, f"ws-4-{form}", method="GET"),
        proof(url, access, f"ws-5-{form}", thief, method="GET"),
    )
    for item in raised:
        assert "proof" in answers(item)[0]
    end = int(time.time()) + 4
    soon = signed(claims(cnf={"jkt": PROVER.thumbprint()}, exp=end))
    first, last = answers(proof(url, soon, f"ws-6-{form}", method="GET"), soon, times=2, until=end + 0.1)
    assert first == alice and "has expired" in last


# -- client certificates --------------------------------------------------------------------------


def test_a_client_certificate_names_its_caller_and_one_of_another_authority_does_not(
    serve: Serve, home: Path, tmp_path: Path
) -> None:
    """SEC-P2.1 by mutual TLS; TLS 1.3 is the least that is spoken (SEC-P1.1)."""
    ours, theirs = Authority(tmp_path / "ours"), Authority(tmp_path / "theirs")
    tls = Tls(dev=True, client_ca=str(ours.cert))
    settings = GuardSettings(
        IdentitySettings(certificates={ours.subject("alice"): ("staff",)}), rights=(Rule(("staff",)),)
    )
    gateway = Gateway(who, home=home, guard=settings, serving=Serving(tls=tls, home=str(home)))
    served = serve(gateway)
    url = f"https://localhost:{served.port}/nlip"
    server_cert = str(home / "dev-tls" / "cert.pem")

    def hear(pair: tuple[str, str]) -> dict[str, Any]:
        """The same over a WebSocket."""
        context = ssl.create_default_context(cafile=server_cert)
        context.load_cert_chain(*pair)
        with connect(f"wss://localhost:{served.port}/nlip/ws/text", ssl=context) as ws:
            ws.send(json.dumps(say("hi")))
            return dict(json.loads(ws.recv(timeout=DEADLINE)))

    def ask(pair: tuple[str, str] | None, **options: Any) -> httpx2.Response:
        context = ssl.create_default_context(cafile=server_cert)
        for name, value in options.items():
            setattr(context, name, value)
        if pair is not None:
            context.load_cert_chain(*pair)
        with httpx2.Client(verify=context, trust_env=False) as http:
            return http.post(url, json=say("hi"))

    assert ask(ours.make("alice")).json()["content"] == f"certificate cert:{ours.subject('alice')} staff"
    assert hear(ours.make("alice"))["content"] == f"certificate cert:{ours.subject('alice')} staff"
    assert "is not known here" in hear(ours.make("mallory"))["content"]
    assert ask(ours.make("mallory")).status_code == 401
    assert ask(None).status_code == 401
    for refused in (lambda: ask(theirs.make("alice")), lambda: ask(None, maximum_version=ssl.TLSVersion.TLSv1_2)):
        with pytest.raises(httpx2.TransportError):
            refused()


def audited(home: Path) -> list[ChainedLine]:
    async def read() -> list[ChainedLine]:
        store = SQLiteStore(home / "sabir.db")
        await store.open()
        try:
            return await store.audit_lines(limit=100_000)
        finally:
            await store.close()

    return asyncio.run(read())


# -- flooding -------------------------------------------------------------------------------------


def test_a_flood_is_rejected_with_a_retry_time_and_leaves_few_entries(serve: Serve, home: Path) -> None:
    quotas = Quotas(rate_per_address=1.0, burst=20.0)
    served = serve(Gateway(who, home=home, guard=GuardSettings(quotas=quotas)))
    with Caller(served.url) as flooder, Caller(served.url, address="127.0.0.2") as other:
        replies = [flooder.ask(say("hi")) for _ in range(300)]
        refused = [reply for reply in replies if reply.status_code == 429]
        assert len(refused) >= 270
        assert all(int(reply.headers["retry-after"]) >= 1 for reply in refused)
        assert other.ask(say("hi")).status_code == 200  # the others are not in its way
    written = [line.line for line in audited(home) if line.line.outcome == "RateLimited"]
    assert len(written) == 60  # as many a minute as the settings say


def test_a_daily_quota_and_places_hold_over_the_wire(serve: Serve, home: Path) -> None:
    served = serve(Gateway(who, home=home, guard=GuardSettings(quotas=Quotas(daily_turns=3))))
    with Caller(served.url) as caller:
        assert [caller.ask(say("hi")).status_code for _ in range(5)] == [200, 200, 200, 429, 429]
        last = caller.ask(say("hi"))
        assert "the quota of 3 turns a day is used up" in last.json()["content"]
        assert int(last.headers["retry-after"]) <= 86400
        assert last.headers["ratelimit"].startswith('"daily-turns";r=0;t=')
        limits = caller.ask(say("What are my limits?", control=True))
    assert limits.status_code == 200
    assert part(limits, "remaining")["daily-turns"] | {"reset": 0} == {
        "name": "daily-turns", "limit": 3, "remaining": 0, "reset": 0,
    }  # fmt: skip
    [line, *_] = [line.line for line in audited(home) if line.line.outcome == "RateLimited"]
    assert (line.kind, line.caller) == ("refused", "anonymous")


def test_the_remaining_quota_is_in_every_answer_and_in_control(serve: Serve, home: Path) -> None:
    quotas = Quotas(rate_per_address=0.01, burst=10.0, daily_turns=100)
    served = serve(Gateway(who, home=home, guard=GuardSettings(quotas=quotas)))
    with Caller(served.url) as caller:
        replies = [caller.ask(say("hi")) for _ in range(3)]
        details = part(caller.ask(say("What are your limits?", control=True)), "remaining")
    assert [reply.headers["ratelimit"].partition(";t=")[0] for reply in replies] == [
        '"requests";r=9', '"requests";r=8', '"requests";r=7',
    ]  # fmt: skip
    assert replies[0].headers["ratelimit-policy"] == '"requests";q=10, "daily-turns";q=100;w=86400'
    assert [re.findall(r'"daily-turns";r=(\d+);t=\d+$', reply.headers["ratelimit"]) for reply in replies] == [
        ["99"], ["98"], ["97"],
    ]  # fmt: skip
    assert details["requests"]["remaining"] == pytest.approx(6, abs=0.5)
    assert details["daily-turns"]["remaining"] == 96


def test_every_refusal_leaves_a_line_also_of_what_was_to_be_done_later(serve: Serve, home: Path) -> None:
    served = serve(Gateway(who, home=home, guard=GuardSettings(rights=(Rule(("staff",)),))))
    with Caller(served.url) as stranger:
        assert stranger.ask(say("hi")).status_code == 401
        assert stranger.ask(say("hi"), prefer="respond-async").status_code == 401
        assert stranger.ask(say("hi"), authorization="Bearer x").status_code == 401
    found = [(line.line.kind, line.line.outcome, line.line.caller) for line in audited(home)]
    assert found == [
        ("refused", "Unauthenticated", "anonymous"),
        ("refused", "Unauthenticated", "anonymous"),
        ("refused", "Unauthenticated", "unknown"),
    ]
