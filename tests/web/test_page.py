"""The page at ``/`` and the official NLWeb client, in a real browser against a real gateway."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx2
import pytest

from conftest import Served, serving
from protocols.nlweb.agents import asker, broken
from protocols.nlweb.conftest import Shop
from sabir import Gateway, agent
from sabir.agents.site.agent import Site
from sabir.events import Progress
from sabir.search import LocalIndex
from sabir.turn import Turn
from web.conftest import CLIENT, Drive

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # the first run installs packages


@agent(description="Cooks slowly")
async def kitchen(turn: Turn) -> AsyncIterator[Any]:
    for tenth in range(1, 10):
        yield Progress(tenth / 10, f"stirring, {tenth} of 10")
        await asyncio.sleep(0.2)
    yield f"Cooked {turn.text}."


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, elsewhere: tuple[str, Path]) -> Iterator[Served]:
    index = LocalIndex(None, None)
    shop = Shop(index, "pumpkins-r-us.com", name="shop", questions=False)
    shop.opened = index
    harbour = Site(index, "harbour.example", name="harbour", questions=False)
    home = tmp_path_factory.mktemp("web")
    gateway = Gateway(shop, harbour, asker, kitchen, broken, home=home, beside=(shop,), origins=[elsewhere[0]])
    with serving(gateway) as served:
        yield served


def looked(shots: Path, name: str) -> None:
    """A screenshot was taken and shows more than one colour's worth of page."""
    data = (shots / name).read_bytes()
    assert data.startswith(b"\x89PNG") and len(data) > 8_000, f"{name}: {len(data)} bytes"


def test_the_page_lets_a_browser_do_nothing_but_ask_its_own_gateway(site: Served) -> None:
    page = httpx2.get(f"{site.url}/")
    policy = page.headers["content-security-policy"]
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in policy and "script-src 'self'" in policy and "unsafe-inline" not in policy
    assert "<script>" not in page.text and "style=" not in page.text and "onclick" not in page.text
    assert "http://" not in page.text and "https://" not in page.text
    script = httpx2.get(f"{site.url}/web/app.js")
    assert script.status_code == 200 and "innerHTML" not in script.text
    again = httpx2.get(f"{site.url}/web/app.js", headers={"if-none-match": script.headers["etag"]})
    assert again.status_code == 304
    assert httpx2.get(f"{site.url}/web/../gateway.py").status_code == 404
    assert httpx2.get(f"{site.url}/web/nothing.js").status_code == 404


def test_a_person_asks_answers_waits_and_sees_what_failed(
    chromium: str, drive: Drive, site: Served, shots: Path
) -> None:
    answer = drive("page.mjs", chromium, site.url, str(shots))
    assert answer["hosts"] == [urlsplit(site.url).netloc]  # nothing from anywhere else
    assert [line for line in answer["wrong"] if "500" not in line] == []  # the broken agent's status is all
    assert len(answer["cards"]) > 2 and all("Pumpkin" in name or name for name in answer["cards"])
    assert all(link.startswith("https://harbour.example/") for link in answer["links"])
    assert answer["quote"] and answer["cited"] >= 1
    assert "pumpkin" in answer["understood"] and "nuts" in answer["understood"]
    assert len(answer["stated"]) == 1 and "11:30" in answer["stated"][0]  # not once as a note and once as a summary
    assert "stirring" in answer["progress"]
    assert "broken failed" in answer["failure"] and "hunter2" not in answer["failure"] and answer["injected"] == 0
    assert {look["overflow"] for look in answer["looks"].values()} == {0}
    assert "Sat, Dec 12, 2026, 5:30 PM" in answer["when"].replace(
        "\u202f", " "
    )  # by its own clock, not by that of Tokyo
    assert "$42" in answer["priced"]
    assert answer["sources"] and any(sentence in about for sentence, about in answer["sources"])
    assert answer["looks"]["wide-light"]["back"] != answer["looks"]["wide-dark"]["back"]
    for name in ("page-wide-light.png", "page-wide-dark.png", "page-narrow-light.png", "page-narrow-dark.png",
                 "page-question.png", "page-progress.png", "page-failure.png"):  # fmt: skip
        looked(shots, name)


def test_the_official_client_renders_results_summary_and_errors(
    chromium: str, drive: Drive, site: Served, elsewhere: tuple[str, Path], shots: Path
) -> None:
    origin, folder = elsewhere
    bundle = [
        "--bundle",
        "--jsx=automatic",
        "--minify",
        '--define:process.env.NODE_ENV="production"',
        f"--outfile={folder}/app.js",
    ]
    subprocess.run(
        [str(CLIENT / "node_modules" / ".bin" / "esbuild"), "official.jsx", *bundle, "--log-level=error"],
        cwd=CLIENT,
        check=True,
    )
    (folder / "index.html").write_text(
        '<!doctype html><meta charset="utf-8"><div id="root"></div><script src="app.js"></script>'
    )
    page = f"{origin}/?endpoint={quote(site.url + '/ask', safe='')}&site=pumpkins-r-us.com"
    answer = drive("official.mjs", chromium, page, str(shots))
    assert any("Pumpkin" in title for title in answer["titles"]) and len(answer["titles"]) > 2
    assert answer["summary"] and answer["summary"][:40] in answer["text"]
    assert "pumpkins-r-us.com" in answer["text"]
    # A Failure in the stream is read by the client and thrown; it catches that itself and tells the console.
    assert any("Error (NO_RESULTS): I found nothing for that." in line for line in answer["wrong"])
    assert answer["error"].startswith("HTTP 404")
    for name in ("official-results.png", "official-none.png", "official-error.png"):
        assert (shots / name).read_bytes().startswith(b"\x89PNG")
    looked(shots, "official-results.png")
