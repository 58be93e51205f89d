"""Arbitrary input: the guard rejects it with its own errors, and what it admits is as it claims."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from ipaddress import IPv4Address, IPv6Address

import httpx2
from hypothesis import given, settings
from hypothesis import strategies as st
from joserfc import jwk

from sabir.errors import Forbidden, Unauthenticated
from sabir.events import Delta, Event, Reply
from sabir.guard import Authenticator, Credentials, Seal
from sabir.guard.egress.addresses import Outbound, is_public
from sabir.guard.filters.base import Filters
from sabir.guard.filters.html import sanitized
from sabir.guard.filters.injection import scan
from sabir.guard.filters.secrets import Inside, PersonalData, Secrets
from sabir.guard.identity.jwt import Issuer, JwtVerifier, KeySource
from sabir.guard.identity.passes import Passes
from sabir.guard.quotas.rates import Buckets
from sabir.message import Message, token_part
from sabir.observe.logs import scrubbed
from sabir.turn import ANONYMOUS

KEY = jwk.RSAKey.generate_key(2048, parameters={"kid": "k"})
ISSUER = Issuer("https://id.example", ("us",), keys={"keys": [KEY.as_dict(private=False)]})
SEAL = Seal(b"k" * 32)

words = st.sampled_from(
    ["word ", "more ", "4111 1111 1111 1111 ", "sk-proj-abcdefghijklmnopqrstuv ", "a@b.example ", "<think>x</think>",
     "\n", "AKIAIOSFODNN7EXAMPLE ", "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n", "日本語 ",
     "x" * 300 + " "]
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(words, max_size=40), st.lists(st.integers(1, 60), min_size=1, max_size=20))
def test_pieces_of_any_size_join_to_the_filtered_whole(said: list[str], sizes: list[int]) -> None:
    text, filters = "".join(said), Filters([Secrets(), PersonalData(), Inside()])

    async def events() -> AsyncIterator[Event]:
        at, turn = 0, 0
        while at < len(text):
            size = sizes[turn % len(sizes)]
            yield Delta.text(text[at : at + size])
            at, turn = at + size, turn + 1
        yield Reply(Message.text(text))

    async def run() -> list[Event]:
        return [event async for event in filters.passing(events(), ANONYMOUS)]

    *pieces, reply = asyncio.run(run())
    assert isinstance(reply, Reply)
    joined = "".join(piece.part.content for piece in pieces if isinstance(piece, Delta))
    assert joined == reply.message.text
    for secret in ("abcdefghijklmnopqrstuv", "4111 1111", "a@b.example", "AKIAIOSFODNN7EXAMPLE", "MIIE", "<think>"):
        assert secret not in joined


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(max_size=60), st.text(max_size=40).map("http://{}/".format), st.ip_addresses().map(str)))
def test_any_url_is_let_through_or_forbidden(url: str) -> None:
    try:
        checked = Outbound().check(url)
    except Forbidden:
        return
    assert isinstance(checked, httpx2.URL) and checked.scheme in ("http", "https") and checked.host


@settings(max_examples=300, deadline=None)
@given(st.ip_addresses(v=4))
def test_an_ipv4_address_is_judged_the_same_in_its_ipv6_forms(address: IPv4Address) -> None:
    for form in (f"::ffff:{address}", f"64:ff9b::{address}"):
        assert is_public(IPv6Address(form)) == is_public(address)
    assert not is_public(IPv6Address(f"::{address}")) or is_public(address)


tokens_of_sorts = st.one_of(
    st.text(max_size=200),
    st.binary(max_size=80).map(lambda raw: "sb1." + raw.hex()),
    st.text("sb1.AZaz09-_", max_size=80),
)


@settings(max_examples=300, deadline=None)
@given(tokens_of_sorts)
def test_no_text_opens_a_seal_or_breaks_a_verifier(text: str) -> None:
    assert SEAL.open("conversation", text, "anonymous") is None
    verifier = JwtVerifier(ISSUER, KeySource(ISSUER))
    identity = Authenticator([Passes(SEAL), verifier], mistakes=Buckets(1e9, 1e9))

    async def known() -> None:
        for credentials, tokens in (
            (Credentials("", f"Bearer {text}"), ()),
            (Credentials("", f"DPoP {text}", headers={"dpop": text}), ()),
            (Credentials(""), (token_part(text, "authentication"),)),
        ):
            try:
                assert (await identity.caller(credentials, tokens)).is_anonymous
            except Unauthenticated as refused:
                assert text not in str(refused) or len(text) < 4

    asyncio.run(known())


scraps = st.sampled_from(
    ["<", ">", "script", "svg", "a", "b", " ", "/", "onload=x", 'href="', "javascript:x", '"', "'", "&lt;", "<!--",
     "-->", "=", "p", "style", "\x00"]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(scraps, max_size=25).map("".join))
def test_sanitized_html_is_stable_and_has_nothing_active(html: str) -> None:
    clean = sanitized(html)
    assert sanitized(clean) == clean
    tags = re.findall(r"<[^>]*>", clean)
    assert not any(re.search(r"<\s*(script|svg|style)|\son\w+=|javascript:", tag, re.IGNORECASE) for tag in tags)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=400))
def test_scanning_and_scrubbing_take_any_text(text: str) -> None:
    assert isinstance(scan(text), tuple)
    assert "\n" not in scrubbed(text) and "\r" not in scrubbed(text)
