"""The page at ``/`` and the official NLWeb client, in a real browser against a real gateway."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import quote, urlsplit

import httpx2
import pytest

from conftest import Served, serving
from nlweb.agents import asker, broken
from nlweb.conftest import Shop
from sabir import Gateway, agent
from sabir.agents.site import SiteAgent
from sabir.events import Progress
from sabir.search import LocalIndex
from sabir.turn import Turn

CLIENT = Path(__file__).with_name("client")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]  # the first run installs packages


@agent(description="Cooks slowly")
async def kitchen(turn: Turn) -> AsyncIterator[Any]:
    for tenth in range(1, 10):
        yield Progress(tenth / 10, f"stirring, {tenth} of 10")
        await asyncio.sleep(0.2)
    yield f"Cooked {turn.text}."


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        return


@pytest.fixture(scope="module")
def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None or shutil.which("npm") is None:
        pytest.skip("needs a Chromium and npm: apt-get install chromium npm")
    if not (CLIENT / "node_modules" / "playwright-core").exists():
        done = subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"], cwd=CLIENT, timeout=200)
        if done.returncode:
            pytest.skip("needs packages from the npm registry, and npm ci cannot have them here")
    return found


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A web server of another origin, and the folder that it serves."""
    folder = tmp_path_factory.mktemp("elsewhere")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", folder
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, elsewhere: tuple[str, Path]) -> Iterator[Served]:
    index = LocalIndex(None, None)
    shop = Shop(index, "pumpkins-r-us.com", name="shop", questions=False)
    shop.opened = index
    harbour = SiteAgent(index, "harbour.example", name="harbour", questions=False)
    home = tmp_path_factory.mktemp("web")
    gateway = Gateway(shop, harbour, asker, kitchen, broken, home=home, beside=(shop,), origins=[elsewhere[0]])
    with serving(gateway) as served:
        yield served


def drive(script: str, *arguments: str) -> dict[str, Any]:
    run = subprocess.run(["node", script, *arguments], cwd=CLIENT, capture_output=True, text=True, timeout=110)
    assert run.returncode == 0, run.stderr[-3000:]
    return dict(json.loads(run.stdout.splitlines()[-1]))


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


def test_a_person_asks_answers_waits_and_is_told_what_failed(chromium: str, site: Served, tmp_path: Path) -> None:
    told = drive("page.mjs", chromium, site.url, str(tmp_path))
    assert told["hosts"] == [urlsplit(site.url).netloc]  # nothing from anywhere else
    assert [line for line in told["wrong"] if "500" not in line] == []  # the broken agent's status is all
    assert len(told["cards"]) > 2 and all("Pumpkin" in name or name for name in told["cards"])
    assert all(link.startswith("https://harbour.example/") for link in told["links"])
    assert told["quote"] and told["cited"] >= 1
    assert "pumpkin" in told["understood"] and "nuts" in told["understood"]
    assert "stirring" in told["progress"]
    assert "broken failed" in told["failure"] and "hunter2" not in told["failure"] and told["injected"] == 0
    assert {look["overflow"] for look in told["looks"].values()} == {0}
    assert "Sat, Dec 12, 2026, 5:30 PM" in told["when"].replace("\u202f", " ")  # by its own clock, not by that of Tokyo
    assert "$42" in told["priced"]
    assert told["sources"] and any(sentence in about for sentence, about in told["sources"])
    assert told["looks"]["wide-light"]["back"] != told["looks"]["wide-dark"]["back"]
    for name in ("page-wide-light.png", "page-wide-dark.png", "page-narrow-light.png", "page-narrow-dark.png",
                 "page-question.png", "page-progress.png", "page-failure.png"):  # fmt: skip
        looked(tmp_path, name)


def test_the_official_client_renders_results_summary_and_errors(
    chromium: str, site: Served, elsewhere: tuple[str, Path], tmp_path: Path
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
    told = drive("official.mjs", chromium, page, str(tmp_path))
    assert any("Pumpkin" in title for title in told["titles"]) and len(told["titles"]) > 2
    assert told["summary"] and told["summary"][:40] in told["text"]
    assert "pumpkins-r-us.com" in told["text"]
    # A Failure in the stream is read by the client and thrown; it catches that itself and tells the console.
    assert any("Error (NO_RESULTS): I found nothing for that." in line for line in told["wrong"])
    assert told["error"].startswith("HTTP 404")
    for name in ("official-results.png", "official-none.png", "official-error.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    looked(tmp_path, "official-results.png")
