"""The documentation site: it builds without a warning, every link resolves, and a gateway serves it at ``/docs``."""

from __future__ import annotations

import re
import subprocess
import sys
import zlib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from conftest import Served, serving
from sabir import Gateway, agent
from sabir.gateway.endpoints.playground_docs import NOT_BUILT, SITE, Documentation
from web.conftest import Drive

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
ROOT = Path(__file__).resolve().parents[2]
PUBLIC = (ROOT / "tests" / "suites" / "house" / "public_names.txt").read_text(encoding="utf-8").splitlines()


@agent
async def echo(turn: Any) -> str:
    return str(turn.text)


@pytest.fixture(scope="module")
def site() -> Path:
    """The site, built where the gateway looks for it, as `make docs` does."""
    command = [sys.executable, str(ROOT / "scripts" / "build_docs.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return SITE


@pytest.fixture(scope="module")
def gateway(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(Gateway(echo, home=tmp_path_factory.mktemp("home"))) as served:
        yield served


class Page(HTMLParser):
    """What a page refers to, and what a strict policy would not run."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.inline: list[str] = []
        self._open = ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self._open = tag if tag == "style" or (tag == "script" and "src" not in found) else ""
        if "id" in found:
            self.ids.add(found["id"])
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag != "a":
            self.loads += [found[name] for name in ("src", "href") if name in found]
        self.inline += [f"{tag} {name}" for name in found if name == "style" or name.startswith("on")]

    def handle_data(self, data: str) -> None:
        if self._open and data.strip():
            self.inline.append(data.strip()[:80])


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in site.rglob("*.html")}


def test_every_link_of_the_site_leads_to_a_page_and_a_place_on_it(pages: dict[Path, Page]) -> None:
    broken = []
    for path, page in pages.items():
        for link in [*page.links, *page.loads]:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            is_missing = parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids
            if not target.exists() or is_missing:
                broken.append(f"{path.name}: {link}")
    assert broken == []


def test_the_site_loads_nothing_from_elsewhere_and_has_no_inline_code(pages: dict[Path, Page]) -> None:
    assert [link for page in pages.values() for link in page.loads if urlsplit(link).scheme not in ("", "data")] == []
    assert [code for page in pages.values() for code in page.inline] == []


def test_the_navigation_has_tutorial_how_to_reference_and_explanation(site: Path) -> None:
    index = (site / "index.html").read_text(encoding="utf-8")
    captions = re.findall(r'<p class="caption"[^>]*><span class="caption-text">([^<]+)', index)
    assert captions[:4] == ["Tutorial", "How to", "Reference", "Explanation"]
    assert {"Python packages", "Examples"} <= set(captions)


def test_every_public_name_is_in_the_reference_with_its_signature(site: Path) -> None:
    head, _, packed = (site / "objects.inv").read_bytes().partition(b"compressed using zlib.\n")
    assert head.startswith(b"# Sphinx inventory version 2")
    listed = {line.split(" ")[0] for line in zlib.decompress(packed).decode().splitlines()}
    packages = [line.partition(": ") for line in PUBLIC]
    wanted = {f"{package}.{name}" for package, _, names in packages for name in names.split()}
    assert sorted(wanted - listed) == []
    page = (site / "api" / "sabir.html").read_text(encoding="utf-8")
    assert "sabir.connect(url:str" in re.sub(r"<[^>]+>|\s+", "", page)


def test_the_gateway_serves_the_site_under_a_strict_policy(gateway: Served) -> None:
    start = httpx2.get(f"{gateway.url}/docs", follow_redirects=True)
    assert start.status_code == 200 and str(start.url).endswith("/docs/")
    policy = start.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe-inline" not in policy
    assert httpx2.get(f"{gateway.url}/docs/howto/nginx.html").status_code == 200
    assert httpx2.get(f"{gateway.url}/docs/nothing.html").status_code == 404
    assert httpx2.get(f"{gateway.url}/docs/..%2f__init__.py").status_code == 404


def test_an_installation_without_the_site_says_how_to_build_it(tmp_path: Path) -> None:
    client = TestClient(Starlette(routes=Documentation(tmp_path / "nothing").routes()))
    answer = client.get("/docs/")
    assert (answer.status_code, answer.text) == (404, NOT_BUILT)


def test_a_person_reads_and_searches_the_site(chromium: str, drive: Drive, gateway: Served, shots: Path) -> None:
    seen = drive("docs.mjs", chromium, gateway.url, str(shots))
    assert seen["hosts"] == [urlsplit(gateway.url).netloc]
    assert seen["wrong"] == []
    assert seen["title"] == "Tutorial: one agent, every protocol"
    assert any("nginx" in result for result in seen["results"])
    assert seen["axe"] == []
    assert seen["logo"] == [True, 36]
    assert {over for look in seen["looks"].values() for over in look["overflow"].values()} == {0}
    assert seen["looks"]["wide-light"]["back"] != seen["looks"]["wide-dark"]["back"]
