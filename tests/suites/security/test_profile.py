"""ECMA-434 as configuration: what holds is reported from the hooks that run; production refuses what is not met."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest

from conftest import Serve
from deadline import DEADLINE
from sabir import Gateway
from sabir.agents.echo import echo
from sabir.config.build import gateway_of
from sabir.config.load import settings_of
from sabir.errors import ConfigError
from sabir.guard.ecma434 import CONTROLS, SecuritySettings, level_of, require
from sabir.server import Serving, Tls


def gateway(home: Path, **settings: object) -> Gateway:
    return gateway_of(settings_of({"home": str(home), "sites": [], **settings}))


def test_plain_http_on_this_machine_meets_no_profile(serve: Serve, home: Path) -> None:
    served = serve(Gateway(echo, home=home))
    body = httpx2.get(served.url + "/.well-known/nlip").json()
    assert body["security"]["profile"] is None
    assert "SEC-P1.1" not in body["security"]["holds"]
    assert body["agents"] == ["echo"]


def test_tls_alone_is_profile_2_in_part_because_audit_and_throttling_are_always_on(home: Path) -> None:
    answer = gateway(home, tls={"dev": True}).security_report()
    assert (answer["profile"], answer["degree"]) == (3, "partial")
    bare = {control.id: control.profile == 1 for control in CONTROLS}
    assert level_of(bare) == (1, "full")
    assert level_of({**bare, "SEC-P2.4": True}) == (2, "partial")


def test_each_control_follows_its_hook(home: Path) -> None:
    """SEC-C: the report equals the hooks that are on."""
    off = set(gateway(home / "a", tls={"dev": True}).security_report()["holds"])
    on = set(
        gateway(
            home / "b",
            tls={"dev": True},
            identity={"anonymous": False},
            rights=[{"roles": ["known"]}],
            filters=["prompt-injection", "secrets"],
        ).security_report()["holds"]
    )
    assert on - off == {"SEC-P2.1", "SEC-P2.2", "SEC-P3.1", "SEC-P3.3"}
    full = gateway(
        home / "c", tls={"dev": True}, identity={"anonymous": False}, rights=[{"roles": ["known"]}],
        filters=["prompt-injection", "secrets"],
    ).security_report()  # fmt: skip
    assert (full["profile"], full["degree"]) == (3, "full")


def test_production_refuses_to_start_without_a_profile_it_meets(home: Path) -> None:
    """CORE-2.3."""
    with pytest.raises(ConfigError, match=r"needs security.profile"):
        gateway(home / "a", security={"production": True}).run(port=0, say=lambda line: None)
    with pytest.raises(ConfigError, match=r"profile 1 is not met; missing: SEC-P1.1"):
        gateway(home / "b", security={"production": True, "profile": 1}).run(port=0, say=lambda line: None)
    met = Gateway(
        echo,
        home=home / "c",
        serving=Serving(tls=Tls(dev=True)),
        security=SecuritySettings(profile=1, production=True),
    )
    require(met.security, met.security_report())


def test_the_statements_are_served_and_asked_for_by_control(serve: Serve, home: Path) -> None:
    """SEC-P1.3, SEC-P2.7."""
    url = serve(Gateway(echo, home=home)).url
    assert "# Ethics" in httpx2.get(url + "/ethics").text
    assert "Reporting a vulnerability" in httpx2.get(url + "/security").text
    body = {
        "messagetype": "control",
        "format": "text",
        "subformat": "english",
        "content": "What is your ethics statement?",
    }
    reply = httpx2.post(url + "/nlip", json=body).json()
    assert "Transparency" in reply["content"]
    report = httpx2.post(
        url + "/nlip", json={**body, "content": "Report your ECMA-434 profile"}, timeout=DEADLINE
    ).json()
    labelled = next(part for part in report["submessages"] if part.get("label") == "security")
    assert labelled["content"]["standard"] == "ECMA-434:2025"
