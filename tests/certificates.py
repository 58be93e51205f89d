"""Certificates for tests, of an authority of their own."""

from __future__ import annotations

import ssl
from pathlib import Path

import trustme

ORGANIZATION, UNIT = "Acme", "Staff"


class Authority:
    """Certificates of one authority, as files ``NAME.pem`` and ``NAME.key``; the authority's own is ``authority``."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self._authority = trustme.CA()
        self.cert = folder / "authority.pem"
        self._authority.cert_pem.write_to_path(str(self.cert))

    def make(self, name: str) -> tuple[str, str]:
        """A certificate for 127.0.0.1, client or server, and its key."""
        made = self._authority.issue_cert(
            "127.0.0.1", common_name=name, organization_name=ORGANIZATION, organization_unit_name=UNIT
        )
        cert, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        cert.write_bytes(b"".join(pem.bytes() for pem in made.cert_chain_pems))
        made.private_key_pem.write_to_path(str(key))
        return str(cert), str(key)

    def subject(self, name: str) -> str:
        """How a certificate of this name is called (RFC 4514)."""
        return f"CN={name},OU={UNIT},O={ORGANIZATION}"

    def context(self, name: str | None = None) -> ssl.SSLContext:
        """For a client: trusts this authority, and shows this certificate."""
        context = ssl.create_default_context(cafile=self.cert)
        if name is not None:
            context.load_cert_chain(self.folder / f"{name}.pem", self.folder / f"{name}.key")
        return context
