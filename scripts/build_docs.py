"""Builds the documentation site from docs/, the root's pages and the examples: ``build_docs.py [--to FOLDER]``.

The pages stay plain Markdown that reads well on its own. This prepares a copy for Sphinx: links between files are
rewritten to the site's paths, the navigation comes from the lists of docs/README.md, and every public package gets a
page with its docstrings and signatures. Inline scripts and styles become files, so that the gateway can serve the site
under a policy that forbids inline ones.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from sphinx.cmd.build import build_main

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "src" / "sabir" / "web" / "docs"
NAMES = ROOT / "tests" / "suites" / "house" / "public_names.txt"
ROOT_PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "ETHICS.md")
_FENCE = re.compile(r"^(```.*?^```)", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(!?\[[^\]]*\]\()(?!https?:|mailto:|#)([^)\s#]*)(#[^)\s]*)?\)")
_INLINE = re.compile(r"<(script|style)(?P<attributes>[^>]*)>(?P<body>.+?)</\1>", re.DOTALL)
_REPLACED = {
    # Inline styles of the theme's pages, and their replacements.
    'style="opacity: 50%"': 'opacity="0.5"',
    'style="display: none;"': 'display="none"',
    # For screen readers and keyboards.
    'class="caption" role="heading"': 'class="caption" role="heading" aria-level="2"',
    "<pre>": '<pre tabindex="0">',
}


def place(path: Path) -> str:
    """Where a file of the repository is in the site."""
    if path.is_dir():
        path /= "README.md"
    inside = path.relative_to(ROOT).as_posix()
    if inside == "docs/README.md":
        return "index.md"
    if inside == "docs/search.md":
        return "site-search.md"  # search.html is the search page of the site itself
    if inside.startswith("docs/"):
        return inside.removeprefix("docs/")
    if path.suffix != ".md":
        return f"source/{inside}.md"
    return f"project/{inside}" if "/" not in inside else inside


class Stage:
    """The copy of the pages that Sphinx reads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.copied: set[str] = set()

    def page(self, path: Path, after: str = "") -> None:
        """Copy a page with its links rewritten; ``after`` is appended."""
        pieces = _FENCE.split(path.read_text(encoding="utf-8"))
        text = "".join(piece if piece.startswith("```") else self._linked(piece, path) for piece in pieces)
        self.write(place(path), text + after)

    def write(self, name: str, text: str) -> None:
        target = self.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        self.copied.add(name)

    def _linked(self, text: str, page: Path) -> str:
        def rewritten(found: re.Match[str]) -> str:
            target = (page.parent / found[2]).resolve()
            name = place(target)
            if target.suffix == ".py":
                self._source(target, name)
            elif target.suffix not in ("", ".md"):
                return f"{found[1]}{self._copy(target)})"
            here = Path(place(page)).parent
            return f"{found[1]}{os.path.relpath(name, here)}{found[3] or ''})"

        return _LINK.sub(rewritten, text)

    def _source(self, path: Path, name: str) -> None:
        """A page that shows a source file."""
        inside, text = path.relative_to(ROOT), path.read_text(encoding="utf-8")
        self.write(name, f"---\norphan: true\n---\n\n# {inside}\n\n`````python\n{text}`````\n")

    def _copy(self, path: Path) -> str:
        """Copy a picture or another file; its address in the site."""
        inside = path.relative_to(ROOT).as_posix()
        target = self.folder / inside
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        return f"/{inside}"


def navigation(readme: Path) -> list[tuple[str, list[str]]]:
    """The sections of docs/README.md, each with the pages that it links to, in order."""
    found = []
    for section in readme.read_text(encoding="utf-8").split("\n## ")[1:]:
        title = section.splitlines()[0]
        targets = [(readme.parent / link[2]).resolve() for link in _LINK.finditer(section)]
        found.append((title, list(dict.fromkeys(place(target).removesuffix(".md") for target in targets))))
    return found


def toctree(title: str, names: list[str]) -> str:
    return "\n```{toctree}\n:hidden:\n:caption: " + title + "\n\n" + "\n".join(names) + "\n```\n"


def public_packages() -> dict[str, list[str]]:
    lines = NAMES.read_text(encoding="utf-8").splitlines()
    return {package: names.split() for package, _, names in (line.partition(": ") for line in lines)}


class Reference:
    """The pages on the public packages: every public name with its signature and docstring."""

    def __init__(self) -> None:
        self._described: dict[int, str] = {}  # objects that already have an entry, by id

    def page(self, package: str, names: list[str]) -> str:
        module = importlib.import_module(package)
        about = (module.__doc__ or "").strip()
        rst = [f".. py:module:: {package}", about, *(self._name(package, name) for name in names)]
        return f"# {package}\n\n```{{eval-rst}}\n" + "\n\n".join(rst) + "\n```\n"

    def _name(self, package: str, name: str) -> str:
        thing, full = getattr(importlib.import_module(package), name), f"{package}.{name}"
        first = self._described.setdefault(id(thing), full)
        if first != full:
            return f".. py:data:: {name}\n\n   The same as :py:obj:`{first}`."
        if isinstance(thing, type) and issubclass(thing, BaseException):
            return f".. autoexception:: {full}\n   :show-inheritance:"
        if isinstance(thing, type):
            return f".. autoclass:: {full}\n   :members:"
        if callable(thing):
            return f".. autofunction:: {full}"
        if isinstance(thing, ModuleType):
            return f".. py:data:: {name}\n\n   {(thing.__doc__ or '').splitlines()[0]}"
        return f".. py:data:: {name}\n\n   {self._written(thing)}"

    def _written(self, thing: object) -> str:
        if isinstance(thing, Mapping):
            return "A table of " + ", ".join(f"``{key}``" for key in thing) + "."
        text = str(thing)
        return f"``{re.sub(r'sabir[.a-z_]*[.](?=[A-Z])', '', text)}``"


def prepare(folder: Path) -> None:
    """Write everything that Sphinx needs into a folder."""
    stage = Stage(folder)
    readme = ROOT / "docs" / "README.md"
    for path in sorted((ROOT / "docs").rglob("*.md")):
        if path != readme:
            stage.page(path)
    for name in ROOT_PAGES:
        stage.page(ROOT / name)
    examples = sorted((ROOT / "examples").rglob("README.md"))
    for path in examples:
        stage.page(path)
    packages = public_packages()
    reference = Reference()
    for package in sorted(packages):
        stage.write(f"api/{package}.md", reference.page(package, packages[package]))
    trees = [toctree(title, names) for title, names in navigation(readme)]
    trees.append(toctree("Python packages", [f"api/{package}" for package in sorted(packages)]))
    trees.append(toctree("Examples", [place(path).removesuffix(".md") for path in examples]))
    trees.append(toctree("Project", [f"project/{name.removesuffix('.md')}" for name in ROOT_PAGES]))
    stage.page(readme, after="".join(trees))


def finish(site: Path) -> None:
    """Finish the pages: move inline scripts and styles to files, because the gateway's policy forbids them."""
    for page in site.rglob("*.html"):
        up = os.path.relpath(site, page.parent)
        text = page.read_text(encoding="utf-8")

        def moved(found: re.Match[str], up: str = up) -> str:
            kind, body = found[1], found["body"]
            if "src=" in found["attributes"] or not body.strip():
                return found[0]
            name = (
                f"_static/inline-{hashlib.sha256(body.encode()).hexdigest()[:12]}.{'js' if kind == 'script' else 'css'}"
            )
            (site / name).write_text(body, encoding="utf-8")
            if kind == "script":
                return f'<script src="{up}/{name}"></script>'
            return f'<link rel="stylesheet" href="{up}/{name}">'

        text = _INLINE.sub(moved, text)
        for before, after in _REPLACED.items():
            text = text.replace(before, after)
        page.write_text(re.sub(r' style="[^"]*"', "", text), encoding="utf-8")


def build(to: Path) -> int:
    """Build the site; a broken link, or any other warning, is an error."""
    with tempfile.TemporaryDirectory() as work:
        source, site = Path(work) / "source", Path(work) / "site"
        prepare(source)
        options = ["-q", "-W", "--keep-going", "-b", "html", "-c", str(ROOT / "docs" / "site"), "-d", f"{work}/trees"]
        failed = build_main([*options, str(source), str(site)])
        if failed:
            return failed
        finish(site)
        shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(site, to, ignore=shutil.ignore_patterns(".buildinfo", "_sources", "*.map"))
    return 0


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument(
        "--to", type=Path, default=SITE, help="the folder to write (default: the one that /docs serves)"
    )
    return build(arguments.parse_args().to)


if __name__ == "__main__":
    sys.exit(main())
