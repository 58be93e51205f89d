"""What can be used is documented: commands, flags, endpoints, metrics, error codes. Each check is shown to fail."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from sabir import Gateway
from sabir.agents.echo import echo
from sabir.cli.completion import CompletionPoint, places
from sabir.cli.failures import CODES, code_of
from sabir.cli.main import EXIT_CODES, parser
from sabir.errors import SabirError, tree
from sabir.observe.settings import ObserveSettings

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
METRIC = re.compile(
    r"""["']((?:sabir|nlip)_[a-z_]+_(?:total|seconds|bytes|running|open|waiting|depth|up|size|age))["']"""
)


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def pages() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(DOCS.rglob("*.md")))


def missing(names: Iterable[str], text: str) -> list[str]:
    return [name for name in names if not re.search(rf"(?<![\w/-]){name}(?![\w-])", text)]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Gateway:
    return Gateway(echo, home=tmp_path_factory.mktemp("home"), observe=ObserveSettings(metrics=True))


# -- the command line -----------------------------------------------------------------------------


def points() -> list[CompletionPoint]:
    return list(places(parser()))


def undocumented_flags(text: str) -> Iterator[str]:
    for point in points():
        usage = " ".join(("usage: sabir", *point.path))
        block = next((part for part in text.split("```") if part.strip().startswith(f"text\n{usage} ")), "")
        yield from (f"{usage} {flag}" for flag, _ in point.flags if flag not in block)


def test_every_flag_of_every_command_is_on_its_page() -> None:
    assert list(undocumented_flags(page("command-line.md"))) == []


def test_a_flag_that_is_missing_would_be_seen() -> None:
    text = page("command-line.md").replace("--save", "--sav")
    assert list(undocumented_flags(text)) == ["usage: sabir ask --save"]


def test_every_flag_has_a_help_text() -> None:
    assert [(point.path, flag) for point in points() for flag, about in point.flags if not about] == []


def silent_commands(text: str) -> list[str]:
    """The commands and actions whose help does not begin with a sentence."""
    helps = [block.removeprefix("text\n") for block in text.split("```") if block.startswith("text\nusage: sabir")]
    return [words.split(" [")[0] for words in helps if not words.split("\n\n")[1][0].isupper()]


def test_the_help_of_every_command_and_action_says_what_it_does() -> None:
    assert silent_commands(page("command-line.md")) == []


def test_a_help_without_a_sentence_would_be_seen() -> None:
    text = page("command-line.md").replace("Revoke a key.\n\n", "")
    assert silent_commands(text) == ["usage: sabir keys revoke"]


def test_every_exit_code_is_documented() -> None:
    text = page("command-line.md")
    codes = {code for _, code in EXIT_CODES} | {0, 130}
    assert [code for code in sorted(codes) if not re.search(rf"Exit codes:[^`]*\b{code} ", text)] == []


# -- endpoints, metrics, errors -------------------------------------------------------------------


def endpoints(gateway: Gateway) -> list[str]:
    """Every path of every door, with ``{agent}`` for the name of an agent."""
    paths = set()
    for door in gateway.doors:
        paths |= {str(getattr(route, "path", "") or getattr(route, "prefix", "")) for route in door.routes()}
        paths |= set(door.raw())
    return sorted({re.sub(r"/echo(?=/|$)", "/{agent}", path) for path in paths if path})


def undocumented_endpoints(gateway: Gateway, text: str) -> list[str]:
    found = []
    for path in endpoints(gateway):
        pattern = re.sub(r"\\\{[^}]*\}", r"[^\\s`/]+", re.escape(path))
        if not re.search(rf"{pattern.rstrip('/')}(?![\w-])", text):
            found.append(path)
    return found


def test_every_endpoint_is_documented(gateway: Gateway) -> None:
    assert len(endpoints(gateway)) > 40
    assert undocumented_endpoints(gateway, pages()) == []


def test_an_endpoint_that_is_missing_would_be_seen(gateway: Gateway) -> None:
    assert "/health/ready" in undocumented_endpoints(gateway, pages().replace("/health/ready", "/health/redy"))


def metrics(gateway: Gateway) -> list[str]:
    """The metrics that a gateway has, and those that the source names."""
    assert gateway.exchange.observer is not None
    named = set(gateway.exchange.observer.metrics._all)
    for path in (ROOT / "src").rglob("*.py"):
        named |= set(METRIC.findall(path.read_text(encoding="utf-8")))
    return sorted(named)


def test_every_metric_is_documented(gateway: Gateway) -> None:
    assert len(metrics(gateway)) > 15
    assert missing(metrics(gateway), page("watching.md")) == []


def test_a_metric_that_is_missing_would_be_seen(gateway: Gateway) -> None:
    text = page("watching.md").replace("sabir_turns_total", "sabir_turn_total")
    assert missing(metrics(gateway), text) == ["sabir_turns_total"]


def error_codes() -> list[str]:
    return [*(f"`{code_of(kind)}`" for kind in tree(SabirError)), *(f"`{code}`" for code in CODES)]


def test_every_error_code_is_documented() -> None:
    text = page("errors.md")
    assert [code for code in error_codes() if code not in text] == []
    assert [code for code in error_codes() if code not in text.replace("peer_refused", "")] == ["`peer_refused`"]
