"""Signatures and encryption of messages (A-9, C-2).

A signature is a detached JWS (RFC 7515, appendix F) with Ed25519 over the canonical JSON of the message without its
``signature``. An encrypted payload is ``{"jwe": "…"}``: a compact JWE to the receiver's X25519 key.
"""

from __future__ import annotations

import base64
from contextlib import suppress
from typing import Any, Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from joserfc import jwe, jws
from joserfc.errors import JoseError
from joserfc.jwk import KeySet, OKPKey

from sabir.errors import BadMessage

from .acts import PROTOCOL
from .canonical import canonical
from .envelope import Envelope, plain
from .payloads import JWE

ALGORITHM: Final = "Ed25519"
_OLDER_NAME: Final = "EdDSA"  # what RFC 8037 calls it, and many libraries still do
_REGISTRY: Final = jws.JWSRegistry(algorithms=[ALGORITHM])
_ENCRYPTION: Final = ["ECDH-ES+A256KW", "A256GCM"]
_REJECTED: Final = "a signature by the sender's key in the directory"


def signed(envelope: Envelope, key: OKPKey) -> Envelope:
    """The message with its signature."""
    unsigned = msgspec.structs.replace(envelope, signature=None)
    compact = jws.serialize_compact({"alg": ALGORITHM}, canonical(plain(unsigned)), key, registry=_REGISTRY)
    head, _, tail = compact.split(".")
    return msgspec.structs.replace(envelope, signature=f"{head}..{tail}")


def verify(envelope: Envelope, keys: KeySet) -> None:
    """Check the signature of a message.

    Raises:
        BadMessage: it is missing, malformed, or not by a key of the sender.
    """
    head, dots, tail = (envelope.signature or "").partition("..")
    body = canonical(plain(msgspec.structs.replace(envelope, signature=None)))
    signed_text = f"{head}.{base64.urlsafe_b64encode(body).rstrip(b'=').decode()}".encode()
    if dots and _is_head(head):
        for key in keys.keys:
            public = key.get_op_key("verify") if isinstance(key, OKPKey) and key.curve_name == ALGORITHM else None
            if isinstance(public, Ed25519PublicKey):
                with suppress(InvalidSignature, ValueError):
                    public.verify(base64.urlsafe_b64decode(tail + "=="), signed_text)
                    return
    raise BadMessage(PROTOCOL, "$.signature", _REJECTED)


def _is_head(text: str) -> bool:
    """Whether this is the header of a signature that can be checked here: no extension (``crit``) is understood."""
    try:
        head = msgspec.json.decode(base64.urlsafe_b64decode(text + "=="))
    except (ValueError, msgspec.DecodeError):
        return False
    return isinstance(head, dict) and head.get("alg") in (ALGORITHM, _OLDER_NAME) and "crit" not in head


def encrypted(payload: dict[str, Any], keys: KeySet) -> dict[str, Any]:
    """The payload for the holder of the X25519 key among these.

    Raises:
        BadMessage: there is no such key.
    """
    for key in keys.keys:
        if isinstance(key, OKPKey) and key.curve_name == "X25519":
            head = {"alg": "ECDH-ES+A256KW", "enc": "A256GCM"}
            return {JWE: jwe.encrypt_compact(head, msgspec.json.encode(payload), key, algorithms=_ENCRYPTION)}
    raise BadMessage(PROTOCOL, "$.receiver", "an agent with an X25519 key in the directory")


def decrypted(payload: dict[str, Any], key: OKPKey) -> dict[str, Any]:
    """The decrypted output of ``encrypted``.

    Raises:
        BadMessage: it is not encrypted to this key.
    """
    try:
        opened = jwe.decrypt_compact(str(payload[JWE]), key, algorithms=_ENCRYPTION)
        return msgspec.json.decode(opened.plaintext or b"", type=dict[str, Any])
    except (JoseError, ValueError, KeyError, msgspec.DecodeError):
        raise BadMessage(PROTOCOL, "$.payload.jwe", "a payload encrypted to this agent's key") from None


def keys_of(text: str) -> KeySet:
    """The keys of a directory entry: a JWK Set, or one JWK.

    Raises:
        BadMessage: it is neither.
    """
    try:
        value = msgspec.json.decode(text)
        listed = value["keys"] if isinstance(value, dict) and "keys" in value else [value]
        return KeySet([OKPKey.import_key(item) for item in listed])
    except (JoseError, ValueError, KeyError, TypeError, msgspec.DecodeError):
        raise BadMessage(PROTOCOL, "$.payload.key", "a JWK or a JWK Set of OKP keys") from None
