"""Canonical JSON, signatures and encrypted payloads."""

from __future__ import annotations

import base64
import json
from contextlib import nullcontext

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from joserfc.jwk import KeySet, OKPKey

from acl_messages import message
from sabir.errors import BadMessage
from sabir.protocols.acl.wire.canonical import canonical
from sabir.protocols.acl.wire.envelope import decode, encode, envelope_of, plain
from sabir.protocols.acl.wire.payloads import is_encrypted
from sabir.protocols.acl.wire.signatures import decrypted, encrypted, keys_of, signed, verify

KEY = OKPKey.generate_key("Ed25519")
OTHER = OKPKey.generate_key("Ed25519")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        # RFC 8785, 3.2.2 and appendix B
        ({"b": 1, "a": [True, None]}, '{"a":[true,null],"b":1}'),
        ({"\u20ac": 1, "\r": 2, "1": 3, "\U0001f600": 4, "\ufb33": 5}, '{"\\r":2,"1":3,"€":1,"😀":4,"\ufb33":5}'),
        ([0.0, -0.0, 5e-324, 1.7976931348623157e308], "[0,0,5e-324,1.7976931348623157e+308]"),
        ([1e21, 1e20, 333333333.33333329, 1e-6, 1e-7, 9.999999999999997e22], None),
        ([0.1, -1.5, 123456.789, 2.0, 4.50, 0.002, 1e-27], "[0.1,-1.5,123456.789,2,4.5,0.002,1e-27]"),
        ('\x00\x1f"\\/\u2028', '"\\u0000\\u001f\\"\\\\/\u2028"'),
    ],
)
def test_canonical_json_follows_rfc_8785(value: object, text: str | None) -> None:  # ACL-48
    expected = text or "[1e+21,100000000000000000000,333333333.3333333,0.000001,1e-7,9.999999999999997e+22]"
    assert canonical(value).decode() == expected
    assert json.loads(canonical(value)) == value


@pytest.mark.parametrize("value", [2**53 + 1, float("nan"), float("inf"), "\ud800", {"a": b"bytes"}])
def test_what_canonical_json_cannot_hold_is_refused(value: object) -> None:
    with pytest.raises(BadMessage):
        canonical(value)


def test_a_signed_message_is_verified_after_the_wire() -> None:  # ACL-48, A-9
    sent = signed(envelope_of(message()), KEY)
    verify(decode(encode(sent)), KeySet([OTHER, KEY]))


@pytest.mark.parametrize(
    "change", [{"ontology": "x"}, {"message_id": "other"}, {"signature": None}, {"signature": "a..b"}]
)
def test_a_changed_message_is_refused(change: dict[str, str | None]) -> None:  # ACL-48
    sent = msgspec.structs.replace(signed(envelope_of(message()), KEY), **change)
    with pytest.raises(BadMessage, match=r"\$.signature: expected a signature by the sender's key"):
        verify(sent, KeySet([KEY]))


@pytest.mark.parametrize(
    ("head", "is_good"),
    [
        ({"alg": "Ed25519"}, True),
        ({"alg": "EdDSA", "kid": "1"}, True),  # the older name, of RFC 8037
        ({"alg": "Ed25519", "crit": ["b64"], "b64": False}, False),  # an extension that nobody here understands
        ({"alg": "none"}, False),
        ({"alg": "HS256"}, False),
        ([], False),
    ],
)
def test_the_header_of_a_signature_is_checked(head: object, is_good: bool) -> None:  # ACL-48
    sent = envelope_of(message())
    encoded = _base64(json.dumps(head).encode())
    private: Ed25519PrivateKey = KEY.get_op_key("sign")
    tail = _base64(private.sign(f"{encoded}.{_base64(canonical(plain(sent)))}".encode()))
    given = msgspec.structs.replace(sent, signature=f"{encoded}..{tail}")
    with nullcontext() if is_good else pytest.raises(BadMessage):
        verify(given, KeySet([OTHER, KEY]))


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def test_the_signature_of_somebody_else_is_refused() -> None:  # ACL-48
    with pytest.raises(BadMessage):
        verify(signed(envelope_of(message()), OTHER), KeySet([KEY]))


def test_a_payload_is_encrypted_to_its_receiver_alone() -> None:  # ACL-48, C-2
    key, foreign = OKPKey.generate_key("X25519"), OKPKey.generate_key("X25519")
    closed = encrypted({"secret": "x"}, KeySet([KEY, key]))
    assert is_encrypted(closed)
    envelope_of(message(payload=closed))  # the gateway carries what it cannot read
    assert decrypted(closed, key) == {"secret": "x"}
    with pytest.raises(BadMessage):
        decrypted(closed, foreign)
    with pytest.raises(BadMessage, match="X25519"):
        encrypted({}, KeySet([KEY]))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"keys": [{}]}', '{"kty": "RSA"}'])
def test_an_invalid_key_is_rejected(text: str) -> None:
    with pytest.raises(BadMessage):
        keys_of(text)


def test_keys_of_the_directory_are_read() -> None:
    public = KEY.as_dict(private=False)
    keys = keys_of(json.dumps({"keys": [public]}))
    verify(signed(envelope_of(message()), KEY), keys)
    verify(signed(envelope_of(message()), KEY), keys_of(json.dumps(public)))
