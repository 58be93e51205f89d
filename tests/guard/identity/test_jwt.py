"""Bearer tokens of an authorization server, against a real one on the loopback."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from joserfc import jwk, jws, jwt

from deadline import DEADLINE
from guard_clock import Clock
from guard_site import Site
from sabir.errors import Unauthenticated, Unavailable
from sabir.guard import Authenticator, Credentials
from sabir.guard.egress.addresses import GuardedClient, Outbound, OutboundRules
from sabir.guard.identity.dpop import Dpop
from sabir.guard.identity.jwt import Issuer, JwtVerifier, KeySource, SubjectTokens
from sabir.guard.quotas.rates import Buckets
from sabir.message import token_part
from sabir.stores.memory import MemoryStore

ISSUER = "https://id.example"
RSA = jwk.RSAKey.generate_key(2048, parameters={"kid": "one"})
OTHER_RSA = jwk.RSAKey.generate_key(2048, parameters={"kid": "two"})
EC = jwk.ECKey.generate_key("P-256", parameters={"kid": "ec"})


@pytest_asyncio.fixture
async def fetcher() -> AsyncIterator[GuardedClient]:
    async with GuardedClient(Outbound(OutboundRules(private=True)), seconds=5.0) as made:
        yield made


def publish(site: Site, *keys: Any) -> None:
    body = json.dumps({"keys": [key.as_dict(private=False) for key in keys]}).encode()
    site.says("/jwks", body, content_type="application/json")


def identity(
    issuer: Issuer, fetcher: GuardedClient, clock: Clock, mistakes: Buckets | None = None, **options: Any
) -> Authenticator:
    source = KeySource(issuer, fetcher, seconds=600.0, pause=30.0, clock=clock)
    verifier = JwtVerifier(issuer, source, clock=clock, **options)
    return Authenticator([verifier], mistakes=mistakes or Buckets(1000.0, 1000.0))


async def closed(known: Authenticator) -> None:
    """What goes on fetching is ended."""
    for verifier in known.verifiers:
        assert isinstance(verifier, JwtVerifier)
        await verifier.close()


def claims(clock: Clock, **more: Any) -> dict[str, Any]:
    now = int(clock.now)
    base = {"iss": ISSUER, "aud": "sabir", "sub": "alice", "iat": now, "exp": now + 300, "scope": "read write"}
    return {name: value for name, value in (base | more).items() if value is not None}


def signed(said: dict[str, Any], key: Any = RSA, alg: str = "RS256", **header: Any) -> str:
    return jwt.encode({"alg": alg, "kid": key.kid, **header}, said, key, algorithms=[alg])


def with_token(token: str) -> Credentials:
    return Credentials("192.0.2.1", f"Bearer {token}")


@pytest.fixture
def issuer(site: Site) -> Issuer:
    publish(site, RSA, EC)
    return Issuer(ISSUER, ("sabir",), jwks=f"{site.url}/jwks")


async def test_a_token_makes_a_caller_with_its_roles_and_scopes(
    issuer: Issuer, fetcher: GuardedClient, clock: Clock
) -> None:
    known = identity(issuer, fetcher, clock)
    token = signed(claims(clock, roles=["staff", "anonymous", "local"], name="Alice", jti="7", secret="x"))
    caller = await known.caller(with_token(token))
    assert (caller.id, caller.kind, caller.name) == (f"{ISSUER}#alice", "subject", "Alice")
    assert caller.roles == {"staff", "scope:read", "scope:write"}
    assert caller.claims["jti"] == "7" and "secret" not in caller.claims
    assert await known.caller(Credentials("192.0.2.1"), (token_part(token, "authentication"),)) == caller  # D-18
    ec = signed(claims(clock, sub="bob"), EC, "ES256")
    assert (await known.caller(with_token(ec))).id == f"{ISSUER}#bob"


async def test_no_token_brings_a_role_that_is_given_here(issuer: Issuer, fetcher: GuardedClient, clock: Clock) -> None:
    known = identity(issuer, fetcher, clock)
    claimed = ["anonymous", "known", "local", "id:key:000000000001", f"id:{ISSUER}#bob", "scope:admin", "id:", "staff"]
    caller = await known.caller(with_token(signed(claims(clock, roles=claimed, scope="read"))))
    assert caller.roles == {"staff", "scope:read"}
    assert caller.effective_roles == {"staff", "scope:read", "anonymous", "known", f"id:{ISSUER}#alice"}


async def test_roles_may_be_inside_another_claim(site: Site, fetcher: GuardedClient, clock: Clock) -> None:
    publish(site, RSA)
    issuer = Issuer(
        ISSUER, ("sabir",), jwks=f"{site.url}/jwks", roles_claim="realm_access.roles", scopes_are_roles=False
    )
    known = identity(issuer, fetcher, clock)
    for inside, roles in (({"roles": ["staff"]}, {"staff"}), ("odd", set()), ({"roles": "staff"}, set())):
        caller = await known.caller(with_token(signed(claims(clock, realm_access=inside))))
        assert caller.roles == roles


@pytest.mark.parametrize(
    "invalid",
    [
        {"aud": "somebody-else"}, {"aud": None}, {"aud": []}, {"aud": ["x", 7]}, {"aud": {"sabir": 1}},
        {"exp": 0}, {"exp": None}, {"exp": "9999999999"}, {"exp": True},
        {"nbf": 9_999_999_999}, {"iat": 9_999_999_999}, {"nbf": "soon"},
        {"sub": None}, {"sub": ""}, {"sub": 5},
        {"iss": "https://evil.example"}, {"iss": None}, {"iss": f"{ISSUER}/"},
    ],
    ids=str,
)  # fmt: skip
async def test_a_token_with_wrong_claims_is_refused(
    issuer: Issuer, fetcher: GuardedClient, clock: Clock, invalid: dict[str, Any]
) -> None:
    with pytest.raises(Unauthenticated):
        await identity(issuer, fetcher, clock).caller(with_token(signed(claims(clock, **invalid))))


def unsigned(clock: Clock, alg: str) -> str:
    def part(value: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    return f"{part({'alg': alg, 'typ': 'JWT'})}.{part(claims(clock))}."


def hmac_over_the_public_key(said: dict[str, Any]) -> str:
    """By hand, because no library will sign with a public key any more."""
    pieces = [json.dumps(item).encode() for item in ({"alg": "HS256", "kid": "one", "typ": "JWT"}, said)]
    body = b".".join(base64.urlsafe_b64encode(piece).rstrip(b"=") for piece in pieces)
    mac = hmac.new(RSA.as_pem(private=False), body, hashlib.sha256).digest()
    return f"{body.decode()}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"


async def test_the_algorithm_is_ours_to_choose(issuer: Issuer, fetcher: GuardedClient, clock: Clock) -> None:
    """Algorithm confusion: none, an HMAC over the public key, a key of another kind, a key in the token itself."""
    known = identity(issuer, fetcher, clock)
    said = claims(clock)
    confused = hmac_over_the_public_key(said)
    own = jwk.RSAKey.generate_key(2048, parameters={"kid": "own"})
    carried = signed(said, own, jwk=own.as_dict(private=False))
    pointed = signed(said, own, jku="https://evil.example/jwks", x5u="https://evil.example/cert")
    named = jwt.encode({"alg": "RS256", "kid": "one"}, said, own)
    crossed = jwt.encode({"alg": "ES256", "kid": "one"}, said, EC)
    other_alg = jwt.encode({"alg": "RS512", "kid": "one"}, said, RSA, algorithms=["RS512"])
    nones = [unsigned(clock, alg) for alg in ("none", "None", "NONE", "nOnE", "", "RS256")]
    for token in (confused, carried, pointed, named, crossed, other_alg, *nones):
        with pytest.raises(Unauthenticated):
            await known.caller(with_token(token))
    assert (await known.caller(with_token(signed(said)))).id == f"{ISSUER}#alice"


async def test_what_is_bent_or_of_another_type_is_refused(issuer: Issuer, fetcher: GuardedClient, clock: Clock) -> None:
    known = identity(issuer, fetcher, clock)
    good = signed(claims(clock))
    head, body, tail = good.split(".")
    _, other_body, _ = signed(claims(clock, sub="root")).split(".")
    bent = [
        f"{head}.{other_body}.{tail}", f"{head}.{body}.", f"{head}.{body}.{tail[:-4]}", f"{head}..{tail}", "..",
        "a.b.c", f"{head}.{body}.{tail}.x", good[:-20], "x" * 20_000 + ".a.b",
        signed(claims(clock), typ="dpop+jwt"), signed(claims(clock), typ="logout+jwt"),
    ]  # fmt: skip
    for token in bent:
        with pytest.raises(Unauthenticated):
            await known.caller(with_token(token))
    assert (await known.caller(with_token(signed(claims(clock), typ="at+jwt")))).name == ""


async def test_clocks_may_differ_a_little(issuer: Issuer, fetcher: GuardedClient, clock: Clock) -> None:
    known = identity(issuer, fetcher, clock)
    token = signed(claims(clock, exp=int(clock.now) - 30, nbf=int(clock.now) + 30))
    await known.caller(with_token(token))
    clock.now += 31
    with pytest.raises(Unauthenticated, match="has expired"):
        await known.caller(with_token(token))


async def test_keys_are_fetched_once_and_again_when_they_rotate(
    issuer: Issuer, site: Site, fetcher: GuardedClient, clock: Clock
) -> None:
    known = identity(issuer, fetcher, clock)
    for number in range(5):
        await known.caller(with_token(signed(claims(clock, sub=f"s{number}"))))
    assert len(site.heard) == 1
    publish(site, OTHER_RSA)
    clock.now += 31
    assert (await known.caller(with_token(signed(claims(clock), OTHER_RSA)))).id == f"{ISSUER}#alice"
    assert len(site.heard) == 2
    with pytest.raises(Unauthenticated):  # the old key is gone
        await known.caller(with_token(signed(claims(clock, sub="late"))))


def without_id(key: Any) -> dict[str, Any]:
    return {name: value for name, value in key.as_dict(private=False).items() if name != "kid"}


@pytest.mark.parametrize("kid", ["same", None], ids=["the same id", "no id"])
async def test_a_new_key_without_a_new_id_is_seen(
    site: Site, fetcher: GuardedClient, clock: Clock, kid: str | None
) -> None:
    old, new = (jwk.ECKey.generate_key("P-256") for _ in range(2))

    def published(key: Any) -> None:
        entry = without_id(key) | ({"kid": kid} if kid else {})
        site.says("/jwks", json.dumps({"keys": [entry]}).encode(), content_type="application/json")

    def token(key: Any, sub: str) -> str:
        header = {"alg": "ES256"} | ({"kid": kid} if kid else {})
        return jwt.encode(header, claims(clock, sub=sub), key, algorithms=["ES256"])

    published(old)
    known = identity(Issuer(ISSUER, ("sabir",), jwks=f"{site.url}/jwks"), fetcher, clock)
    assert await known.caller(with_token(token(old, "a")))
    published(new)
    clock.now += 31
    assert await known.caller(with_token(token(new, "b")))
    assert len(site.heard) == 2
    with pytest.raises(Unauthenticated):  # the old key is gone
        await known.caller(with_token(token(old, "c")))


async def test_forged_signatures_do_not_cost_a_fetch_each(
    issuer: Issuer, site: Site, fetcher: GuardedClient, clock: Clock
) -> None:
    known = identity(issuer, fetcher, clock)
    for pause in (0, 31):
        clock.now += pause
        for number in range(20):
            with pytest.raises(Unauthenticated, match="no valid signature"):
                await known.caller(with_token(signed(claims(clock, sub=f"s{number}"), OTHER_RSA, kid="one")))
    assert len(site.heard) == 2


async def test_while_the_issuer_is_away_nobody_knows_whether_a_signature_is_of_a_new_key(
    issuer: Issuer, site: Site, fetcher: GuardedClient, clock: Clock
) -> None:
    known = identity(issuer, fetcher, clock)
    assert await known.caller(with_token(signed(claims(clock))))
    site.says("/jwks", b"down", 500)
    clock.now += 31
    with pytest.raises(Unavailable):
        await known.caller(with_token(signed(claims(clock), OTHER_RSA, kid="one")))
    await closed(known)


async def test_unknown_key_ids_do_not_cost_a_fetch_each(
    issuer: Issuer, site: Site, fetcher: GuardedClient, clock: Clock
) -> None:
    known = identity(issuer, fetcher, clock)
    for number in range(20):
        with pytest.raises(Unauthenticated):
            await known.caller(with_token(signed(claims(clock), RSA, kid=f"k{number}")))
    assert len(site.heard) == 1


async def test_while_the_issuer_is_silent_the_last_keys_are_good_and_without_any_nobody_is_let_in(
    issuer: Issuer, site: Site, fetcher: GuardedClient, clock: Clock
) -> None:
    known = identity(issuer, fetcher, clock)
    await known.caller(with_token(signed(claims(clock))))
    site.says("/jwks", b"down", 500)
    clock.now += 700
    assert (await known.caller(with_token(signed(claims(clock, sub="still"))))).id.endswith("#still")
    clock.now += 90_000
    with pytest.raises(Unavailable):
        await known.caller(with_token(signed(claims(clock, sub="too late"))))
    await closed(known)


async def test_without_keys_every_caller_gets_503_and_no_token_counts_as_invalid(
    issuer: Issuer, site: Site, fetcher: GuardedClient, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "sabir")
    site.says("/jwks", b"down", 500)
    known = identity(issuer, fetcher, clock, Buckets(0.0001, 3.0))
    token = with_token(signed(claims(clock)))
    for _ in range(26):
        with pytest.raises(Unavailable, match="the keys of the authorization server are unavailable"):
            await known.caller(token)
    assert len(site.heard) < 5  # nobody who asks costs a fetch
    publish(site, RSA)
    async with asyncio.timeout(DEADLINE):
        while "available again" not in caplog.text:
            await asyncio.sleep(0.01)
    assert (await known.caller(token)).id == f"{ISSUER}#alice"
    said = [record.getMessage() for record in caplog.records if record.name == "sabir"]
    assert [text.split(" (")[0].split(" after")[0] for text in said] == [
        f"JWKS of {ISSUER} unavailable",
        f"JWKS of {ISSUER} available again",
    ]


async def test_while_the_issuer_is_away_a_key_that_is_not_known_is_not_wrong(
    issuer: Issuer, site: Site, fetcher: GuardedClient, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    known = identity(issuer, fetcher, clock)
    await known.caller(with_token(signed(claims(clock))))
    site.says("/jwks", b"down", 500)
    clock.now += 31
    for number in range(3):
        with pytest.raises(Unavailable):
            await known.caller(with_token(signed(claims(clock), OTHER_RSA)))
        assert await known.caller(
            with_token(signed(claims(clock, sub=f"old {number}")))
        )  # the last keys are still good
    assert "its last keys remain in use" in caplog.text
    publish(site, RSA, OTHER_RSA)
    async with asyncio.timeout(DEADLINE):
        while True:
            try:
                assert await known.caller(with_token(signed(claims(clock), OTHER_RSA)))
                break
            except Unavailable:
                await asyncio.sleep(0.01)


async def test_an_issuer_that_hangs_does_not_hold_up_those_whose_keys_are_known(
    issuer: Issuer, site: Site, fetcher: GuardedClient, clock: Clock
) -> None:
    known = identity(issuer, fetcher, clock)
    await known.caller(with_token(signed(claims(clock))))
    silence = threading.Event()
    site.answers["/jwks"] = lambda *_: (200, {}, b"") if silence.wait(DEADLINE) else (500, {}, b"")
    clock.now += 700
    begun = time.monotonic()
    assert await known.caller(with_token(signed(claims(clock, sub="bob"))))
    assert time.monotonic() - begun < 4  # the fetcher itself waits for five
    silence.set()
    await closed(known)


async def test_keys_are_found_through_the_metadata_of_the_issuer_and_of_no_other(
    site: Site, fetcher: GuardedClient, clock: Clock
) -> None:
    publish(site, RSA)
    about = {"issuer": site.url, "jwks_uri": f"{site.url}/jwks"}
    site.says("/.well-known/openid-configuration", json.dumps(about).encode())
    known = identity(Issuer(site.url, ("sabir",)), fetcher, clock)
    assert (await known.caller(with_token(signed(claims(clock, iss=site.url))))).kind == "subject"
    site.says("/.well-known/openid-configuration", json.dumps(about | {"issuer": "https://evil.example"}).encode())
    deceived = identity(Issuer(site.url, ("sabir",)), fetcher, clock)
    with pytest.raises(Unavailable):
        await deceived.caller(with_token(signed(claims(clock, iss=site.url))))
    await closed(deceived)


async def test_weak_and_secret_keys_of_a_published_set_are_not_used(
    site: Site, fetcher: GuardedClient, clock: Clock
) -> None:
    secret = jwk.OctKey.import_key("s" * 32, parameters={"kid": "oct"})
    entries = [
        secret.as_dict(private=True),
        {"kty": "XX"},
        "junk",
        {"kty": "RSA", "n": "AQAB", "e": "AQAB", "kid": "w"},
    ]
    site.says("/jwks", json.dumps({"keys": entries}).encode())
    known = identity(Issuer(ISSUER, ("sabir",), jwks=f"{site.url}/jwks"), fetcher, clock)
    token = jws.serialize_compact({"alg": "HS256", "kid": "oct"}, json.dumps(claims(clock)), secret, ["HS256"])
    with pytest.raises(Unauthenticated):
        await known.caller(with_token(token))


def test_a_setup_that_would_let_anybody_in_is_refused() -> None:
    for raised in ({"audience": ()}, {"algorithms": ("none",)}, {"algorithms": ("HS256",)}, {"algorithms": ()}):
        with pytest.raises(ValueError):
            Issuer(**{"issuer": ISSUER, "audience": ("sabir",), **raised})
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"issuer": ISSUER, "audience": []}, Issuer)


async def test_tokens_that_live_too_long_are_refused_unless_bound(
    site: Site, fetcher: GuardedClient, clock: Clock
) -> None:
    publish(site, RSA)
    known = identity(Issuer(ISSUER, ("sabir",), jwks=f"{site.url}/jwks", longest_life=600.0), fetcher, clock)
    await known.caller(with_token(signed(claims(clock))))
    with pytest.raises(Unauthenticated, match="lives longer than 600 seconds"):
        await known.caller(with_token(signed(claims(clock, exp=int(clock.now) + 3600))))


async def test_the_token_is_kept_for_exchange_only_while_it_lives(
    issuer: Issuer, fetcher: GuardedClient, clock: Clock
) -> None:
    subjects = SubjectTokens(clock=clock)
    token = signed(claims(clock))
    caller = await identity(issuer, fetcher, clock, subjects=subjects).caller(with_token(token))
    assert subjects.of(caller.id) == token
    assert token not in str(caller)
    clock.now += 301
    assert subjects.of(caller.id) is None


# -- DPoP (RFC 9449) ------------------------------------------------------------------------------

PROVER = jwk.ECKey.generate_key("P-256")
URL = "http://gateway.example/nlip"


def ath(token: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(token.encode()).digest()).rstrip(b"=").decode()


def proof(clock: Clock, token: str, key: Any = PROVER, header: dict[str, Any] | None = None, **more: Any) -> str:
    said = {"htm": "POST", "htu": URL, "iat": int(clock.now), "jti": "j1", "ath": ath(token)} | more
    head = {"alg": "ES256", "typ": "dpop+jwt", "jwk": key.as_dict(private=False)} | (header or {})
    return jws.serialize_compact(head, json.dumps(said), key, ["ES256"])


def presented(token: str, dpop: str | None, scheme: str = "DPoP", url: str = URL) -> Credentials:
    headers = {} if dpop is None else {"dpop": dpop}
    return Credentials("192.0.2.1", f"{scheme} {token}", headers=headers, method="POST", url=url)


@pytest.fixture
def bound(clock: Clock) -> str:
    return signed(claims(clock, cnf={"jkt": PROVER.thumbprint()}))


async def test_a_bound_token_needs_its_proof_and_a_proof_is_good_once(
    issuer: Issuer, fetcher: GuardedClient, clock: Clock, store: MemoryStore, bound: str
) -> None:
    known = identity(issuer, fetcher, clock, dpop=Dpop(store, clock=clock))
    good = presented(bound, proof(clock, bound))
    assert (await known.caller(good)).id == f"{ISSUER}#alice"
    with pytest.raises(Unauthenticated, match="was used before"):
        await known.caller(good)
    another_node = identity(issuer, fetcher, clock, dpop=Dpop(store, clock=clock))
    with pytest.raises(Unauthenticated, match="was used before"):
        await another_node.caller(good)
    assert await known.caller(presented(bound, proof(clock, bound, jti="j2")))


@pytest.mark.parametrize(
    "confirmation",
    [
        {"x5t#S256": "bwcK0esc3ACC3DB2Y5_lESsXE8o9ltc05O89jdN-dg2"},  # RFC 8705: a client certificate
        {"jkt": PROVER.thumbprint(), "x5t#S256": "bwcK0esc3ACC3DB2Y5_lESsXE8o9ltc05O89jdN-dg2"},
        {"kid": "one"},
        {"jwk": {}},
        {"jkt": 7},
        {},
        "x",
        7,
    ],
    ids=lambda cnf: " and ".join(cnf) if isinstance(cnf, dict) else str(cnf),  # the same in every process
)
async def test_a_token_with_an_uncheckable_binding_is_rejected(
    issuer: Issuer, fetcher: GuardedClient, clock: Clock, store: MemoryStore, confirmation: object
) -> None:
    known = identity(issuer, fetcher, clock, dpop=Dpop(store, clock=clock))
    token = signed(claims(clock, cnf=confirmation))
    for shown in (
        with_token(token),
        presented(token, proof(clock, token)),
        Credentials("192.0.2.1", f"Bearer {token}", certificate="CN=alice"),
    ):
        with pytest.raises(Unauthenticated, match="that this gateway cannot check"):
            await known.caller(shown)
    with pytest.raises(Unauthenticated, match="that this gateway cannot check"):
        await known.caller(Credentials("192.0.2.1"), (token_part(token, "authentication"),))


async def test_a_proof_of_something_else_proves_nothing(
    issuer: Issuer, fetcher: GuardedClient, clock: Clock, store: MemoryStore, bound: str
) -> None:
    known = identity(issuer, fetcher, clock, dpop=Dpop(store, clock=clock))
    thief = jwk.ECKey.generate_key("P-256")
    raised = [
        None, "x.y.z", proof(clock, bound, thief), proof(clock, bound, htm="GET"), proof(clock, "other token"),
        proof(clock, bound, htu="http://gateway.example/other"), proof(clock, bound, htu="http://evil.example/nlip"),
        proof(clock, bound, iat=int(clock.now) - 120), proof(clock, bound, iat=int(clock.now) + 120),
        proof(clock, bound, iat="now"), proof(clock, bound, jti=""), proof(clock, bound, jti=None),
        proof(clock, bound, header={"typ": "JWT"}), proof(clock, bound, header={"jwk": PROVER.as_dict(private=True)}),
        proof(clock, bound, thief, header={"jwk": PROVER.as_dict(private=False)}),
    ]  # fmt: skip
    for item in raised:
        with pytest.raises(Unauthenticated):
            await known.caller(presented(bound, item))
    # A bound token as a plain bearer, or in the message, is a stolen token.
    with pytest.raises(Unauthenticated):
        await known.caller(presented(bound, proof(clock, bound), "Bearer"))
    with pytest.raises(Unauthenticated):
        await known.caller(Credentials("192.0.2.1"), (token_part(bound, "authentication"),))
    # And one that is not bound does not become so by a proof.
    loose = signed(claims(clock))
    with pytest.raises(Unauthenticated):
        await known.caller(presented(loose, proof(clock, loose)))


async def test_behind_a_proxy_the_public_address_is_the_one_that_is_proven(
    issuer: Issuer, fetcher: GuardedClient, clock: Clock, store: MemoryStore, bound: str
) -> None:
    known = identity(issuer, fetcher, clock, dpop=Dpop(store, public_url="https://agents.example", clock=clock))
    dpop = proof(clock, bound, htu="https://agents.example:443/nlip?x=1")
    assert await known.caller(presented(bound, dpop, url="http://10.0.0.3:8080/nlip"))
