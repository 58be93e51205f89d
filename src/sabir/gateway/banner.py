"""What people see when a gateway starts: its addresses, and what to try."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sabir.card import Card
from sabir.http.door import Door
from sabir.server.settings import Serving

EVERYWHERE: Final = ("0.0.0.0", "::")  # all addresses of this machine


def url_of(serving: Serving) -> str:
    """The address of a gateway, as a client on this machine would write it."""
    host = f"[{serving.host}]" if ":" in serving.host else serving.host
    if serving.host in EVERYWHERE:
        host = "localhost"
    return f"{'https' if serving.tls.is_on else 'http'}://{host}:{serving.port}"


@dataclass(frozen=True, kw_only=True)
class Announcement:
    """What a gateway reports once it answers: its address, protocols and agents."""

    url: str  # where it listens
    public_url: str  # the address in cards and links
    agents: tuple[str, ...]
    default: str
    addresses: tuple[tuple[str, str], ...]  # label and address
    gateways: tuple[tuple[str, str], ...] = ()
    socket: str | None = None
    unavailable: tuple[str, ...] = ()
    command: str = ""  # to try it
    page: str | None = None  # to open in a browser

    def lines(self) -> list[str]:
        """The lines to print."""
        public = "" if self.public_url == self.url else f", public at {self.public_url}"
        lines = [f"Sabir is listening on {self.url}{public}"]
        lines.append(f"  agents: {', '.join(self.agents)} (default: {self.default})")
        lines += [f"  gateway {name}: {address}" for name, address in self.gateways]
        if self.socket:
            lines.append(f"  Unix socket: {self.socket}")
        width = max(len(name) for name, _ in self.addresses)
        lines += [f"  {name:<{width}}  {address}" for name, address in self.addresses]
        lines += [f"  unavailable: {reason}" for reason in self.unavailable]
        opened = [f"Open: {self.page}"] if self.page else []
        return [*lines, *opened, f"Try:  {self.command}"]

    def data(self) -> dict[str, Any]:
        """The same as plain data, for programs."""
        return {
            "url": self.url,
            "public_url": self.public_url,
            "agents": list(self.agents),
            "default": self.default,
            "addresses": dict(self.addresses),
        }


def announcement(
    serving: Serving,
    public_url: str,
    agents: Iterable[str],
    default: Card,
    doors: Sequence[Door],
    gateways: Iterable[tuple[str, str]],
    unavailable: Iterable[str],
) -> Announcement:
    """The report to show once the gateway answers."""
    url = url_of(serving)
    example = next((example for skill in default.skills for example in skill.examples), "Hello")
    return Announcement(
        url=url,
        public_url=public_url,
        agents=tuple(agents),
        default=default.name,
        addresses=tuple(addresses_of(public_url, doors)),
        gateways=tuple(gateways),
        socket=serving.socket,
        unavailable=tuple(unavailable),
        command=f'{command()} ask {url} "{example}"{_trust(serving)}',
        page=next((f"{url}/" for door in doors if door.name == "web"), None),
    )


def addresses_of(url: str, doors: Sequence[Door]) -> Iterator[tuple[str, str]]:
    """What can be reached below an address: NLIP first, health last."""
    for door in reversed(doors):
        for name, path in door.addresses():
            base = url.replace("http", "ws", 1) if "WebSocket" in name else url
            yield name, f"{base.rstrip('/')}{path}" if path.startswith("/") else path


def _trust(serving: Serving) -> str:
    """The option that trusts our development certificate, which no client trusts by default."""
    if not serving.tls.dev or serving.tls.cert is not None:
        return ""
    return f" --ca {shlex.quote(str(Path(serving.home) / 'dev-tls' / 'cert.pem'))}"


def command() -> str:
    """How to call ``sabir`` from a shell: its name if it is on PATH, otherwise its path."""
    beside = Path(sys.executable).with_name("sabir")
    if shutil.which("sabir") or not beside.exists():
        return "sabir"
    near = os.path.relpath(beside)
    return shlex.quote(str(beside) if near.startswith("..") else near)
