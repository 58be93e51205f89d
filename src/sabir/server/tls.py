"""The server's TLS: contexts, and certificates for development."""

from __future__ import annotations

import datetime
import ipaddress
import os
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from sabir.errors import ConfigError
from sabir.private_files import own_folder

from .settings import Serving, Tls


def check_tls(serving: Serving) -> None:
    """Check that the TLS files exist and match, before the address is announced.

    Raises:
        ConfigError: a file is missing or unusable, or they do not match.
    """
    if serving.tls.key and not serving.tls.cert:
        raise ConfigError("tls: there is a key but no certificate; add --tls-cert")
    if serving.tls.is_on:
        tls_context(serving.tls, Path(serving.home))


def tls_context(tls: Tls, home: Path) -> ssl.SSLContext:
    """The server's TLS context: 1.3 and up unless 1.2 is configured.

    Raises:
        ConfigError: the certificate or key cannot be used.
    """
    cert, key = (Path(tls.cert), Path(tls.key or tls.cert)) if tls.cert else dev_certificate(home / "dev-tls")
    minimum = {"1.3": ssl.TLSVersion.TLSv1_3, "1.2": ssl.TLSVersion.TLSv1_2}.get(tls.minimum)
    if minimum is None:
        raise ConfigError(f"tls.minimum: expected 1.3 or 1.2, not {tls.minimum!r}")
    for name, file in (("cert", cert), ("key", key), ("client_ca", tls.client_ca)):
        if file is not None and not Path(file).is_file():
            raise ConfigError(f"tls.{name}: there is no file {file}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = minimum
    try:
        context.load_cert_chain(cert, key)
        if tls.client_ca is not None:
            context.load_verify_locations(tls.client_ca)
            context.verify_mode = ssl.CERT_OPTIONAL
    except (OSError, ssl.SSLError) as exc:
        raise ConfigError(f"the certificate or key cannot be used ({cert}, {key}): {exc}") from exc
    context.set_alpn_protocols(["http/1.1"])
    return context


def dev_certificate(folder: Path) -> tuple[Path, Path]:
    """A self-signed certificate for the names of this machine, generated once and kept."""
    cert_path, key_path = folder / "cert.pem", folder / "key.pem"
    if cert_path.exists() and key_path.exists():
        return cert_path, key_path
    own_folder(folder)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "sabir development")])
    now = datetime.datetime.now(datetime.UTC)
    names: list[x509.GeneralName] = [
        x509.DNSName("localhost"),
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
        x509.IPAddress(ipaddress.ip_address("::1")),
    ]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=90))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    with os.fdopen(os.open(key_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
    cert_path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return cert_path, key_path
