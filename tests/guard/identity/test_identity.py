"""Who asks: keys, passes, certificates, and the order in which they are asked."""

from __future__ import annotations

import hmac

import msgspec
import pytest

from guard_clock import Clock
from sabir.errors import NotFound, RateLimited, Unauthenticated
from sabir.guard import Authenticator, Credentials, Seal
from sabir.guard.identity.api_keys import SPACE, ApiKeys, KeyVerifier
from sabir.guard.identity.callers import CertificateVerifier, subject_of
from sabir.guard.identity.passes import Passes
from sabir.guard.quotas.rates import Buckets
from sabir.message import Part, token_part
from sabir.stores.memory import MemoryStore
from sabir.turn import Caller

ALICE = Caller("https://id.example#alice", "subject", frozenset({"staff"}), name="alice")
HERE = Credentials("192.0.2.1")


def bearer(token: str, address: str = "192.0.2.1") -> Credentials:
    return Credentials(address, f"Bearer {token}")


# -- keys -----------------------------------------------------------------------------------------


async def test_a_key_is_shown_once_and_kept_as_a_hash(store: MemoryStore) -> None:
    key, text = await ApiKeys(store).add("alice", roles=("staff",))
    record = await store.get(SPACE, key.id)
    assert record is not None
    secret = text.split("_", 2)[2]
    assert secret.encode() not in record.value
    lines = [line.line for line in await store.audit_lines()]
    assert [(line.kind, line.outcome) for line in lines] == [("key", "added")]
    assert secret not in str(lines)


async def test_a_key_makes_a_caller_with_its_roles_by_any_of_three_ways(store: MemoryStore) -> None:
    key, text = await ApiKeys(store).add("alice", roles=("staff",))
    identity = Authenticator([KeyVerifier(ApiKeys(store))])
    by_header = await identity.caller(bearer(text))
    assert by_header == Caller(f"key:{key.id}", "key", frozenset({"staff"}), "192.0.2.1", "alice")
    assert await identity.caller(Credentials("192.0.2.1", headers={"x-api-key": text})) == by_header
    for subformat in ("authentication", "Authorization_me"):  # D-18
        assert await identity.caller(HERE, (token_part(text, subformat),)) == by_header
    assert (await identity.caller(HERE, (token_part(text, "conversation"),))).is_anonymous


async def test_a_key_that_is_wrong_swapped_truncated_or_expired_is_refused(store: MemoryStore, clock: Clock) -> None:
    keys = ApiKeys(store, clock)
    one, first = await keys.add("one", expires=clock.now + 60)
    two, second = await keys.add("two")
    identity = Authenticator([KeyVerifier(keys, clock=clock)], mistakes=Buckets(1000.0, 1000.0))
    swapped = f"sbk_{one.id}_{second.split('_', 2)[2]}"
    for raised in (
        swapped,
        first[:-1],
        first + "x",
        f"sbk_{one.id}_",
        "sbk_",
        "sbk__",
        "sbk_" + "a" * 5000,
        first.upper(),
    ):
        with pytest.raises(Unauthenticated):
            await identity.caller(bearer(raised))
    assert (await identity.caller(bearer(first))).name == "one"
    clock.now += 61
    with pytest.raises(Unauthenticated):
        await identity.caller(bearer(first))
    assert (await identity.caller(bearer(second))).name == "two"
    assert {key.id for key in await keys.list()} == {one.id, two.id}


async def test_a_revoked_key_works_no_longer_than_the_time_it_is_believed(store: MemoryStore, clock: Clock) -> None:
    keys = ApiKeys(store, clock)
    key, text = await keys.add("alice")
    identity = Authenticator([KeyVerifier(keys, seconds=5.0, clock=clock)])
    await identity.caller(bearer(text))
    await keys.revoke(key.id)
    clock.now += 5
    with pytest.raises(Unauthenticated):
        await identity.caller(bearer(text))
    with pytest.raises(NotFound):
        await keys.revoke(key.id)
    assert [line.line.outcome for line in await store.audit_lines()] == ["added", "revoked"]


async def test_secrets_are_compared_in_constant_time_also_for_ids_that_do_not_exist(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[bool] = []
    real = hmac.compare_digest

    def watched(a: str, b: str) -> bool:
        compared.append(len(a) == len(b))
        return real(a, b)

    monkeypatch.setattr("sabir.guard.identity.api_keys.hmac.compare_digest", watched)
    key, _ = await ApiKeys(store).add("alice")
    verifier = KeyVerifier(ApiKeys(store))
    for item_id in (key.id, "000000000000"):
        with pytest.raises(Unauthenticated):
            await verifier.verify(bearer(f"sbk_{item_id}_{'x' * 43}"), ())
    assert compared == [True, True]


# -- passes ---------------------------------------------------------------------------------------


async def test_a_pass_brings_its_caller_back_until_it_expires(clock: Clock) -> None:
    passes = Passes(Seal(b"k" * 32), seconds=60.0, clock=clock)
    identity = Authenticator([passes])
    token = passes.issue(ALICE, HERE)
    assert (token.format, token.subformat) == ("token", "authentication")
    known = await identity.caller(HERE, (token,))
    assert known == msgspec.structs.replace(ALICE, address="192.0.2.1", claims={"exp": clock.now + 60})
    assert (await identity.caller(bearer(token.content))).id == ALICE.id
    clock.now += 60
    with pytest.raises(Unauthenticated, match="has expired"):
        await identity.caller(HERE, (token,))


async def test_a_pass_is_bound_to_its_holder(clock: Clock) -> None:
    passes = Passes(Seal(b"k" * 32), clock=clock)
    identity = Authenticator([passes])
    by_address = passes.issue(ALICE, HERE)
    with pytest.raises(Unauthenticated):
        await identity.caller(Credentials("198.51.100.9"), (by_address,))
    with_certificate = Credentials("192.0.2.1", certificate="CN=alice")
    by_certificate = passes.issue(ALICE, with_certificate)
    moved = Credentials("198.51.100.9", certificate="CN=alice")
    assert (await identity.caller(moved, (by_certificate,))).id == ALICE.id
    for other in (HERE, Credentials("192.0.2.1", certificate="CN=mallory")):
        with pytest.raises(Unauthenticated):
            await identity.caller(other, (by_certificate,))


async def test_a_forged_pass_is_refused_and_one_of_another_gateway_is_not_ours_to_judge(clock: Clock) -> None:
    seal = Seal(b"k" * 32)
    passes = Passes(seal, clock=clock)
    identity = Authenticator([passes], mistakes=Buckets(1000.0, 1000.0))
    good = passes.issue(ALICE, HERE).content
    conversation = seal.seal("conversation", b"id", "anonymous")
    bent = good[:40] + ("A" if good[40] != "A" else "B") + good[41:]
    for raised in (good[:-4], bent, conversation, good[:20] + "A" * 60):
        with pytest.raises(Unauthenticated):
            await identity.caller(HERE, (token_part(raised, "authentication"),))
    foreign = Passes(Seal(b"other" * 8), clock=clock).issue(ALICE, HERE)
    assert (await identity.caller(HERE, (foreign,))).is_anonymous
    for odd in (None, 7, {"a": 1}, b"sb1.x", "sb1.", "sb1.\udc80"):
        assert (await identity.caller(HERE, (Part("token", "authentication", odd),))).is_anonymous


def test_a_stranger_gets_no_pass() -> None:
    with pytest.raises(Unauthenticated):
        Passes(Seal(b"k" * 32)).issue(Caller(), HERE)


async def test_a_pass_opens_after_the_key_was_rotated(clock: Clock) -> None:
    token = Passes(Seal(b"old" * 11), clock=clock).issue(ALICE, HERE)
    rotated = Authenticator([Passes(Seal(b"new" * 11, b"old" * 11), clock=clock)])
    assert (await rotated.caller(HERE, (token,))).id == ALICE.id


async def test_a_pass_ends_when_its_key_is_revoked(store: MemoryStore, clock: Clock) -> None:
    keys = ApiKeys(store, clock)
    verifier = KeyVerifier(keys, seconds=5.0, clock=clock)
    passes = Passes(Seal(b"k" * 32), keys=verifier, clock=clock)
    identity = Authenticator([passes, verifier])
    key, text = await keys.add("pat", roles=("staff",))
    token = passes.issue_to(await identity.caller(bearer(text)))
    assert (await identity.caller(HERE, (token,))).roles == {"staff"}
    await keys.revoke(key.id)
    clock.now += 5
    with pytest.raises(Unauthenticated, match="was revoked"):
        await identity.caller(HERE, (token,))


async def test_a_pass_ends_when_its_key_expires(store: MemoryStore, clock: Clock) -> None:
    keys = ApiKeys(store, clock)
    verifier = KeyVerifier(keys, clock=clock)
    passes = Passes(Seal(b"k" * 32), keys=verifier, clock=clock)
    _, text = await keys.add("pat", expires=clock.now + 30)
    caller = await Authenticator([verifier]).caller(bearer(text))
    token = passes.issue_to(caller)
    clock.now += 29
    assert (await Authenticator([passes]).caller(HERE, (token,))).id == caller.id
    clock.now += 1
    with pytest.raises(Unauthenticated):
        await Authenticator([passes]).caller(HERE, (token,))


async def test_a_pass_of_a_key_is_good_only_where_keys_are(store: MemoryStore, clock: Clock) -> None:
    keys = KeyVerifier(ApiKeys(store, clock), clock=clock)
    _, text = await ApiKeys(store, clock).add("pat")
    token = Passes(Seal(b"k" * 32), keys=keys, clock=clock).issue_to(await Authenticator([keys]).caller(bearer(text)))
    with pytest.raises(Unauthenticated):  # identity: {keys: false}
        await Authenticator([Passes(Seal(b"k" * 32), clock=clock)]).caller(HERE, (token,))


async def test_a_pass_is_not_renewed_by_a_pass(clock: Clock) -> None:
    passes = Passes(Seal(b"k" * 32), seconds=60.0, clock=clock)
    identity = Authenticator([passes])
    token = passes.issue(ALICE, HERE)
    for _ in range(3):
        clock.now += 15
        caller = await identity.caller(HERE, (token,))
        assert passes.life(caller) <= 45
        token = passes.issue_to(caller)
    clock.now += 15
    with pytest.raises(Unauthenticated, match="has expired"):
        await identity.caller(HERE, (token,))


def test_a_pass_ends_with_the_token_it_was_given_for(clock: Clock) -> None:
    passes = Passes(Seal(b"k" * 32), seconds=60.0, clock=clock)
    for left, life in ((3600.0, 60.0), (20.0, 20.0), (0.0, 0.0), (-30.0, 0.0)):  # the last within the leeway of clocks
        assert passes.life(msgspec.structs.replace(ALICE, claims={"exp": clock.now + left})) == life
    with pytest.raises(Unauthenticated):
        passes.issue(msgspec.structs.replace(ALICE, claims={"exp": clock.now}), HERE)


@pytest.mark.parametrize(
    "caller",
    [
        msgspec.structs.replace(ALICE, claims={"cnf": {"jkt": "a"}}),  # it would need no proof of that key
        msgspec.structs.replace(ALICE, kind="agent"),  # which asks for somebody
        msgspec.structs.replace(ALICE, kind="local"),
    ],
)
def test_callers_whose_proof_a_pass_cannot_replace_get_none(caller: Caller) -> None:
    passes = Passes(Seal(b"k" * 32))
    assert passes.life(caller) == 0.0
    with pytest.raises(Unauthenticated):
        passes.issue(caller, HERE)


# -- certificates ---------------------------------------------------------------------------------


async def test_a_certificate_makes_a_caller_and_an_unknown_one_is_refused() -> None:
    verifier = CertificateVerifier({"CN=alice,O=Acme": ("staff",)})
    identity = Authenticator([verifier])
    known = await identity.caller(Credentials("192.0.2.1", certificate="CN=alice,O=Acme"))
    assert (known.id, known.kind, known.roles, known.name) == (
        "cert:CN=alice,O=Acme", "certificate", frozenset({"staff"}), "alice",
    )  # fmt: skip
    with pytest.raises(Unauthenticated):
        await identity.caller(Credentials("192.0.2.1", certificate="CN=mallory"))
    # A certificate does not make up for a bearer that is wrong.
    with pytest.raises(Unauthenticated):
        await identity.caller(Credentials("192.0.2.1", "Bearer wrong", "CN=alice,O=Acme"))


def test_a_subject_cannot_be_written_into_another() -> None:
    subject = ((("countryName", "CH"),), (("organizationName", "Acme"),), (("commonName", "eve,O=Other"),))
    assert subject_of({"subject": subject}) == "CN=eve\\,O\\=Other,O=Acme,C=CH"


# -- all together ---------------------------------------------------------------------------------


async def test_the_header_counts_before_the_message(store: MemoryStore) -> None:
    _, text = await ApiKeys(store).add("header")
    passes = Passes(Seal(b"k" * 32))
    identity = Authenticator([passes, KeyVerifier(ApiKeys(store))])
    assert (await identity.caller(bearer(text), (passes.issue(ALICE, HERE),))).name == "header"


async def test_wrong_credentials_are_never_taken_for_nobody(store: MemoryStore) -> None:
    identity = Authenticator([KeyVerifier(ApiKeys(store))])
    for raised in (bearer("whatever"), Credentials("", "Basic YTpi"), Credentials("", headers={"x-api-key": "x"})):
        with pytest.raises(Unauthenticated) as refused:
            await identity.caller(raised)
        assert refused.value.challenge == "Bearer"
    assert (await identity.caller(HERE)).is_anonymous
    closed = Authenticator([KeyVerifier(ApiKeys(store))], anonymous=False)
    with pytest.raises(Unauthenticated):
        await closed.caller(HERE)


async def test_guessing_is_slow(store: MemoryStore, clock: Clock) -> None:
    _, text = await ApiKeys(store).add("alice")
    identity = Authenticator([KeyVerifier(ApiKeys(store))], mistakes=Buckets(0.2, 3.0, clock=clock))
    for _ in range(3):
        with pytest.raises(Unauthenticated):
            await identity.caller(bearer("sbk_a_b"))
    with pytest.raises(RateLimited):
        await identity.caller(bearer(text))  # even what is right is not looked at for a while
    assert (await identity.caller(bearer(text, "198.51.100.9"))).name == "alice"
    assert (await identity.caller(HERE)).is_anonymous
    clock.now += 5
    assert (await identity.caller(bearer(text))).name == "alice"


async def test_a_lockout_is_one_line_in_the_log_without_what_was_presented(
    store: MemoryStore, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    mistakes = Buckets(0.2, 3.0, clock=clock)
    identity = Authenticator([KeyVerifier(ApiKeys(store))], mistakes=mistakes, clock=clock)

    async def guess(seconds: int) -> None:
        for _ in range(seconds):
            with pytest.raises((Unauthenticated, RateLimited)):
                await identity.caller(bearer("sbk_abc_GUESSED"))
            clock.now += 1

    await guess(2)
    assert caplog.records == []  # a mistake or two are nobody's business
    await guess(300)  # it is let in for a moment every five seconds, and is wrong again
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "Too many failed logins from 192.0.2.1; blocked for now")
    ]
    clock.now += 300
    await guess(20)
    assert len(caplog.records) == 2
    assert "GUESSED" not in caplog.text
