"""Over TLS, by every protocol that HTTP carries: trust comes from ``--ca``, or from the system."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.conftest import Places, Sabir
from sabir.cli.main import UNREACHABLE

PROTOCOLS = ("nlip", "ws", "ws-text", "nlweb", "mcp", "a2a")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Places, Path]]:
    """A gateway with a certificate that it made for itself, and that certificate."""
    folder = tmp_path_factory.mktemp("secured")
    (folder / "sabir.yaml").write_text("agents: [{id: echo, use: echo}]\nsample: false\n")
    command = [sys.executable, "-m", "sabir", "serve", "--dev-tls", "--port", "0"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SABIR_")}
    with subprocess.Popen(command, cwd=folder, env=kept, stdout=subprocess.PIPE, text=True) as serving:
        assert serving.stdout is not None
        url = serving.stdout.readline().split()[-1]
        try:
            yield Places(url, ""), folder / ".sabir" / "dev-tls" / "cert.pem"
        finally:
            serving.send_signal(signal.SIGINT)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_untrusted_certificate_is_reported(protocol: str, secured: tuple[Places, Path], sabir: Sabir) -> None:
    places, certificate = secured
    url = places.of(protocol, "echo")
    assert sabir("ask", url, "hi", "--ca", str(certificate)).out == "You said: hi\n"
    said = sabir("ask", url, "hi")
    assert (said.code, said.out) == (UNREACHABLE, "")
    first, second = said.err.splitlines()
    assert first == f"sabir: {url}: its certificate is not accepted: self-signed certificate"
    assert "--ca FILE" in second


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_whom_the_system_trusts_is_trusted(protocol: str, secured: tuple[Places, Path], tmp_path: Path) -> None:
    places, certificate = secured
    command = [sys.executable, "-m", "sabir", "ask", places.of(protocol, "echo"), "hi"]
    trusting = {**os.environ, "SSL_CERT_FILE": str(certificate)}
    done = subprocess.run(command, cwd=tmp_path, env=trusting, capture_output=True, text=True, timeout=600)
    assert done.stdout == "You said: hi\n", done.stderr
