"""A private RabbitMQ with authentication by certificate (SASL EXTERNAL): free ports, its own folder."""

from __future__ import annotations

import datetime
import glob
import ipaddress
import json
import os
import signal
import ssl
import subprocess
import time
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from deadline import DEADLINE
from free_ports import free_port

START_SECONDS = 120.0


class Authority:
    """Certificates of one authority, as files ``NAME.pem`` and ``NAME.key``; the authority's own is ``authority``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
        self._write("authority", self._key, self._name, ca=True)

    def make(self, name: str) -> None:
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._write(name, ec.generate_private_key(ec.SECP256R1()), subject, ca=False)

    def _write(self, name: str, key: ec.EllipticCurvePrivateKey, subject: x509.Name, *, ca: bool) -> None:
        now = datetime.datetime.now(datetime.UTC)
        here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        made = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(here, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        (self.folder / f"{name}.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
        pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
        (self.folder / f"{name}.key").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))

    def context(self, name: str | None = None) -> ssl.SSLContext:
        """For a client: trusts this authority, and shows this certificate."""
        context = ssl.create_default_context(cafile=self.folder / "authority.pem")
        if name is not None:
            context.load_cert_chain(self.folder / f"{name}.pem", self.folder / f"{name}.key")
        return context


class PrivateRabbit:
    """One broker process. Its user is ``sabir``, who has no password, only a certificate."""

    def __init__(self, folder: Path) -> None:
        found = sorted(glob.glob("/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server"))
        if not found or not glob.glob("/usr/lib/rabbitmq/lib/*/plugins/rabbitmq_auth_mechanism_ssl*"):
            pytest.skip("needs RabbitMQ with rabbitmq_auth_mechanism_ssl: scripts/services")
        self._command = found[-1]
        self.folder = folder
        self.port = free_port()
        self.authority = Authority(folder)
        self.authority.make("broker")
        self.authority.make("sabir")
        self._process: subprocess.Popen[bytes] | None = None
        permission = {"user": "sabir", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}
        user = {"name": "sabir", "password_hash": "", "tags": ""}
        definitions = {"users": [user], "vhosts": [{"name": "/"}], "permissions": [permission]}
        (folder / "definitions.json").write_text(json.dumps(definitions))
        (folder / "enabled_plugins").write_text("[rabbitmq_amqp1_0,rabbitmq_auth_mechanism_ssl].\n")
        (folder / "rabbitmq.conf").write_text(
            f"listeners.tcp = none\nlisteners.ssl.1 = 127.0.0.1:{self.port}\n"
            f"ssl_options.cacertfile = {folder}/authority.pem\nssl_options.certfile = {folder}/broker.pem\n"
            f"ssl_options.keyfile = {folder}/broker.key\nssl_options.verify = verify_peer\n"
            "ssl_options.fail_if_no_peer_cert = false\nauth_mechanisms.1 = EXTERNAL\n"
            f"ssl_cert_login_from = common_name\nload_definitions = {folder}/definitions.json\n"
        )

    @property
    def url(self) -> str:
        return f"amqps://127.0.0.1:{self.port}"

    def start(self) -> None:
        node = f"sabir-test-{self.port}@localhost"
        own = {
            "RABBITMQ_NODENAME": node,
            "RABBITMQ_MNESIA_BASE": str(self.folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(self.folder / "log"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "enabled_plugins"),
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq"),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "HOME": str(self.folder),
        }
        with (self.folder / "out").open("wb") as out:
            self._process = subprocess.Popen(
                [self._command], env={**os.environ, **own}, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
            )
        end = time.monotonic() + START_SECONDS
        while b"Starting broker... completed" not in (self.folder / "out").read_bytes():
            assert self._process.poll() is None, (self.folder / "out").read_text()
            assert time.monotonic() < end, "RabbitMQ did not start"
            time.sleep(0.1)

    def stop(self) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(DEADLINE)
