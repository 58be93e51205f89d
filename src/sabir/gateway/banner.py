"""What a person sees when a gateway starts: where everything is, and what to try."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from sabir.card import Card
from sabir.http.door import Door
from sabir.server.settings import Serving


def url_of(serving: Serving) -> str:
    """The address at which a gateway listens, as a client on this machine would write it."""
    host = f"[{serving.host}]" if ":" in serving.host else serving.host
    if serving.host in ("0.0.0.0", "::"):
        host = "localhost"
    return f"{'https' if serving.tls.is_on else 'http'}://{host}:{serving.port}"


def banner(
    serving: Serving,
    agents: Iterable[str],
    default: Card,
    doors: Sequence[Door],
    gateways: Iterable[tuple[str, str]],
    unavailable: Iterable[str],
) -> list[str]:
    """The lines to print once the gateway answers."""
    url = url_of(serving)
    lines = [f"Sabir is listening on {url}", f"  agents: {', '.join(agents)} (default: {default.name})"]
    lines += [f"  gateway {name}: {address}" for name, address in gateways]
    if serving.socket:
        lines.append(f"  Unix socket: {serving.socket}")
    lines += _addresses(url, doors)
    lines += [f"  unavailable: {reason}" for reason in unavailable]
    example = next((example for skill in default.skills for example in skill.examples), "Hello")
    lines.append(f'Try:  {command()} ask {url} "{example}"{_trust(serving)}')
    return lines


def _addresses(url: str, doors: Sequence[Door]) -> list[str]:
    rows = [row for door in reversed(doors) for row in door.addresses()]  # NLIP first, health last
    width = max(len(name) for name, _ in rows)
    lines = []
    for name, path in rows:
        base = url.replace("http", "ws", 1) if "WebSocket" in name else url
        address = f"{base}{path}" if path.startswith("/") else path
        lines.append(f"  {name:<{width}}  {address}")
    return lines


def _trust(serving: Serving) -> str:
    """The option that trusts a certificate made for development; no other client does."""
    if not serving.tls.dev or serving.tls.cert is not None:
        return ""
    return f" --ca {shlex.quote(str(Path(serving.home) / 'dev-tls' / 'cert.pem'))}"


def command() -> str:
    """What to type for ``sabir``: the name if the shell finds it, else its path."""
    beside = Path(sys.executable).with_name("sabir")
    if shutil.which("sabir") or not beside.exists():
        return "sabir"
    near = os.path.relpath(beside)
    return shlex.quote(str(beside) if near.startswith("..") else near)
