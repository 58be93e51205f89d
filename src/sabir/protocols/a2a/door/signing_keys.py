"""The key that signs cards and webhooks: the operator's, or a generated one, sealed in the store.

Cards are signed only with a configured key, because a signature is a promise by the operator; webhooks are always
signed, so that their receiver can detect forgeries.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Final

from a2a.types import a2a_pb2 as pb
from a2a.utils.signing import ProtectedHeader, create_agent_card_signer
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from joserfc import jwt
from joserfc.jwk import ECKey, OKPKey, RSAKey

from sabir.errors import ConfigError
from sabir.guard import Seal
from sabir.stores.base import Record, Store

PrivateKey = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey
_SPACE: Final = "a2a-key"
_NAME: Final = "signing"
_PUBLIC: Final = frozenset({"kty", "crv", "x", "y", "n", "e"})
_CURVES: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}


class SigningKeys:
    """Signs, and publishes the public key."""

    def __init__(self, store: Store, seal: Seal, configured: str | None = None) -> None:
        self._store = store
        self._seal = seal
        self._key: PrivateKey | None = _read(configured) if configured else None
        self.signs_cards = self._key is not None

    async def start(self) -> None:
        """Load the key: the configured one, the one in the store, or a new one that all nodes then use."""
        if self._key is not None:
            return
        made = ec.generate_private_key(ec.SECP256R1())
        pem = made.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        sealed = self._seal.seal(_SPACE, pem, _NAME)
        if await self._store.put(Record(_SPACE, _NAME, sealed.encode()), expect=0):
            self._key = made
            return
        kept = await self._store.get(_SPACE, _NAME)
        opened = self._seal.open(_SPACE, kept.value.decode(errors="replace"), _NAME) if kept is not None else None
        if opened is None:
            # The gateway's secret has changed and this key with it; receivers fetch the new one.
            await self._store.put(Record(_SPACE, _NAME, sealed.encode()))
        self._key = _loaded(opened, "the stored signing key") if opened is not None else made

    @property
    def key(self) -> PrivateKey:
        if self._key is None:
            raise ConfigError("the A2A door has not been started")
        return self._key

    def public(self) -> dict[str, Any]:
        """The public key as a JSON Web Key Set."""
        return {"keys": [{**_jwk(self.key), "kid": self.id, "use": "sig", "alg": algorithm(self.key)}]}

    @property
    def id(self) -> str:
        public = json.dumps(_jwk(self.key), sort_keys=True).encode()
        return hashlib.sha256(public).hexdigest()[:16]

    def sign_card(self, card: pb.AgentCard, where: str) -> pb.AgentCard:
        """The card with a signature (JWS over its canonical form), if a key was configured."""
        if not self.signs_cards:
            return card
        header = ProtectedHeader(kid=self.id, alg=algorithm(self.key), jku=where, typ="JOSE")
        return create_agent_card_signer(self.key, header)(card)  # type: ignore[arg-type]  # takes key objects too

    def sign_claims(self, claims: dict[str, Any]) -> str:
        """A JSON Web Token of these claims."""
        name = algorithm(self.key)
        header = {"typ": "JWT", "alg": name, "kid": self.id}
        return jwt.encode(header, claims, _jose_key(self.key), algorithms=[name])


def algorithm(key: PrivateKey) -> str:
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return _CURVES[key.curve.name]
    return "EdDSA" if isinstance(key, ed25519.Ed25519PrivateKey) else "RS256"


def _jwk(key: PrivateKey) -> dict[str, Any]:
    found: dict[str, Any] = dict(_jose_key(key).as_dict(private=False))
    return {name: value for name, value in found.items() if name in _PUBLIC}


def _jose_key(key: PrivateKey) -> ECKey | OKPKey | RSAKey:
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return ECKey.import_key(pem)
    return OKPKey.import_key(pem) if isinstance(key, ed25519.Ed25519PrivateKey) else RSAKey.import_key(pem)


def _read(path: str) -> PrivateKey:
    try:
        return _loaded(Path(path).read_bytes(), path)
    except OSError as exc:
        raise ConfigError(f"doors.a2a.signing_key: {path}: {exc.strerror or 'cannot be read'}") from None


def _loaded(pem: bytes, what: str) -> PrivateKey:
    try:
        key = serialization.load_pem_private_key(pem, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ConfigError(f"doors.a2a.signing_key: {what}: expected a private key in PEM, without a password") from None
    if isinstance(key, ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey):
        return key
    if isinstance(key, ec.EllipticCurvePrivateKey) and key.curve.name in _CURVES:
        return key
    raise ConfigError(f"doors.a2a.signing_key: {what}: expected an EC (P-256, P-384, P-521), Ed25519 or RSA key")
