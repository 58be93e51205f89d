"""The reference is complete: every path that a gateway serves and every metric is documented."""

from __future__ import annotations

import re
from pathlib import Path

from sabir import Gateway, agent
from sabir.observe.settings import ObserveSettings

ROOT = Path(__file__).resolve().parents[3]
HTTP = (ROOT / "docs" / "http.md").read_text(encoding="utf-8")
WATCHING = (ROOT / "docs" / "watching.md").read_text(encoding="utf-8")
_METRIC = re.compile(r'"((?:sabir|nlip)_[a-z_]+_(?:total|seconds|running|waiting|up|open|size|unavailable|letters))"')


@agent
async def echo(turn: object) -> str:
    return "hello"


def served(home: Path) -> set[str]:
    """The paths of every door, as the reference writes them."""
    gateway = Gateway(echo, home=home, observe=ObserveSettings(metrics=True))
    found = set()
    for door in gateway.doors:
        routes = [route.path for route in door.routes() if hasattr(route, "path")]
        found |= {path for path in [*routes, *door.raw()] if path != "/a2a/echo"}
    return {path.replace(":path}", "}").rstrip("/") or "/" for path in found}


def test_every_path_is_in_the_reference(tmp_path: Path) -> None:
    documented = set(re.findall(r"`(/[^`]*)`", HTTP))
    below = {"/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource/mcp/{agent}"}
    assert sorted(served(tmp_path) - documented - below - {"/a2a/{place}"}) == []


def test_the_reference_names_no_path_that_is_not_served(tmp_path: Path) -> None:
    paths = served(tmp_path)
    known = {*paths, "/nlip/{agent}", "/nlip/tasks/{id}", "/mcp/{agent}", "/a2a/{agent}", "/a2a/{agent}/"}
    known |= {"/a2a/.well-known/jwks.json", "/.well-known/oauth-protected-resource/nlip"}  # not in routes()
    named = [line.split("|")[1] for line in HTTP.splitlines() if line.startswith("| `/")]
    listed = {path for cell in named for path in re.findall(r"`(/[^`]*)`", cell)}
    assert sorted(path for path in listed - known if not path.startswith("/a2a/{agent}/")) == []


def test_the_readme_shows_the_page_and_a_terminal() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    pictures = [ROOT / path for path in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", readme)]
    assert [path.suffix for path in pictures].count(".png") == 3
    assert [path.name for path in pictures if path.suffix == ".svg"] == ["terminal.svg"]
    assert [path.name for path in pictures if not 1_000 < path.stat().st_size < 300_000] == []


def test_every_metric_is_in_the_reference() -> None:
    names = {
        name for path in (ROOT / "src").rglob("*.py") for name in _METRIC.findall(path.read_text(encoding="utf-8"))
    }
    assert len(names) > 10
    assert sorted(name for name in names if f"`{name}`" not in WATCHING) == []
