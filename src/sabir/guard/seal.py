"""Sealed tokens: made by us, opaque to others, bound to their holder (D-16, SG 3.5).

A token is encrypted and authenticated (AES-256-GCM), so ownership is proven without state. Its kind and holder are
authenticated with it: a token of one caller or kind opens for no other. A forged token reveals nothing except that it
does not open.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from sabir.errors import ConfigError
from sabir.ids import random_bytes
from sabir.private_files import own_folder

PREFIX = "sb1."
LEAST_SECRET: Final = 32  # characters; fewer could be guessed
KEY_BYTES: Final = 32  # of a generated secret
HOW_TO_MAKE_ONE: Final = "`openssl rand -hex 32` makes one"
_NONCE = 12
_URL_SAFE = bytes.maketrans(b"+/", b"-_")


class Seal:
    """Seals with the first key and opens with any of them, so that keys can be rotated."""

    def __init__(self, *keys: bytes, randomness: Callable[[int], bytes] = random_bytes) -> None:
        if not keys:
            raise ValueError("a seal needs a key")
        self._keys = [(hashlib.sha256(b"sabir key id" + key).digest()[:2], AESGCM(_stretched(key))) for key in keys]
        self._randomness = randomness
        self._mark = hashlib.sha256(b"sabir pseudonym" + _stretched(keys[0])).digest()

    def pseudonym(self, kind: str, name: str) -> str:
        """A stable pseudonym of a name, which cannot be traced back without our key."""
        return hmac.digest(self._mark, _bound(kind, name), "sha256")[:12].hex()

    def seal(self, kind: str, payload: bytes, holder: str) -> str:
        key_id, cipher = self._keys[0]
        nonce = self._randomness(_NONCE)
        sealed = cipher.encrypt(nonce, payload, _bound(kind, holder))
        return _written(key_id + nonce + sealed)

    def open(self, kind: str, token: object, holder: str) -> bytes | None:
        """The payload, or None if we did not make this token for this holder."""
        raw = _raw(token)
        if raw is None or _written(raw) != token:
            return None  # the last character has spare bits; only one spelling is accepted
        for key_id, cipher in self._keys:
            if raw[:2] == key_id:
                try:
                    return cipher.decrypt(raw[2 : 2 + _NONCE], raw[2 + _NONCE :], _bound(kind, holder))
                except (InvalidTag, ValueError):
                    continue
        return None

    def ours(self, token: object) -> bool:
        """Whether a token names one of our keys, so that it is ours or forged.

        Other gateways seal in the same way; their tokens are only to be echoed.
        """
        raw = _raw(token)
        return raw is not None and any(hmac.compare_digest(raw[:2], key_id) for key_id, _ in self._keys)


def _written(raw: bytes) -> str:
    return PREFIX + binascii.b2a_base64(raw, newline=False).translate(_URL_SAFE, b"=").decode("ascii")


def _raw(token: object) -> bytes | None:
    if not isinstance(token, str) or not token.startswith(PREFIX):
        return None
    body = token[len(PREFIX) :]
    try:
        return base64.b64decode(body + "=" * (-len(body) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None


def _stretched(key: bytes) -> bytes:
    return key if len(key) == 32 else hashlib.sha256(b"sabir seal" + key).digest()


@lru_cache(maxsize=1024)
def _bound(kind: str, holder: str) -> bytes:
    return f"{kind}\x00{holder}".encode()


def keys_from(
    home: Path, configured: Sequence[str] | None = None, environment: Mapping[str, str] = os.environ
) -> list[bytes]:
    """The configured secrets, newest first; otherwise one that is generated once and kept in ``home``.

    Raises:
        ConfigError: ``home`` cannot be written, or a secret is missing or too short.
    """
    if configured is not None:
        if not configured:
            raise ConfigError(f"secrets: expected at least one; {HOW_TO_MAKE_ONE}")
        return [_secret(f"secrets[{n}]", written, environment) for n, written in enumerate(configured)]
    try:
        return _kept(home)
    except OSError as exc:
        raise ConfigError(f"home: {home}: {exc.strerror or exc}; choose another with --home") from None


def _secret(place: str, written: str, environment: Mapping[str, str]) -> bytes:
    """A configured secret: the value itself, or ``env:NAME``."""
    found: str | None = written
    if written.startswith("env:"):
        place = f"{place}: the environment variable {written[4:]}"
        found = environment.get(written[4:])
    if not found or len(found) < LEAST_SECRET:
        seen = "is empty" if found == "" else "is not set" if found is None else f"has {len(found)}"
        raise ConfigError(f"{place}: expected {LEAST_SECRET} characters or more, and it {seen}; {HOW_TO_MAKE_ONE}")
    return found.encode()


def _kept(home: Path) -> list[bytes]:
    path = home / "secret.key"
    own_folder(home)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return [path.read_bytes()]
    with os.fdopen(handle, "wb") as file:
        key = os.urandom(KEY_BYTES)
        file.write(key)
        file.flush()
        os.fsync(file.fileno())
    return [key]
