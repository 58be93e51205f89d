"""HTML pages and Markdown files to items: the JSON-LD inside, or else the page itself. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import urljoin

import msgspec
import yaml

from ...errors import MissingExtra
from ..item import JSON, Item, Problem
from ..schema_org import items

try:
    from markdown_it import MarkdownIt
    from selectolax.lexbor import LexborHTMLParser, LexborNode
except ImportError as missing:
    raise MissingExtra("reading pages", "search") from missing

_NOISE: Final = (
    "script, style, noscript, template, nav, header, footer, aside, form, svg, iframe, button, "
    "[role=navigation], [role=banner], [role=contentinfo], [aria-hidden=true], .breadcrumb, .cookie-banner"
)
_BLOCKS: Final = frozenset({"p", "li", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "td", "th", "dt", "dd", "pre",
                            "figcaption", "div", "section", "article", "br", "tr"})  # fmt: skip
_MARKDOWN: Final = MarkdownIt("commonmark").enable("table")


def page_items(html: str, *, site: str, url: str, source: str, place: str) -> Iterator[Item | Problem]:
    """The items of a page: what its JSON-LD describes; a page without any is an item itself."""
    tree = LexborHTMLParser(html)
    address = _canonical(tree, url)
    found = False
    for number, script in enumerate(tree.css('script[type="application/ld+json"]')):
        at = f"{place}#ld+json[{number}]"
        try:
            data = msgspec.json.decode(_repaired(script.text()))
        except msgspec.DecodeError as wrong:
            yield Problem(at, f"not JSON: {wrong}")
            continue
        for each in items(data, site=site, base=address, source=source, place=at):
            if isinstance(each, Item):
                found = True
                yield _spoken(each, _language(tree))
            elif "can be an item" not in each.reason:
                yield each
    if not found:
        yield from _page(tree, site=site, url=address, source=source, place=place)


def markdown_items(text: str, *, site: str, url: str, source: str, place: str) -> Iterator[Item | Problem]:
    """A Markdown file as an article; its front matter, if it has one, gives the properties."""
    about: dict[str, JSON] = {}
    front = re.match(r"---\s*\n(.*?)\n(?:---|\.\.\.)\s*(?:\n|$)", text, re.DOTALL)
    if front:
        try:
            read = yaml.safe_load(front[1])
        except yaml.YAMLError as wrong:
            yield Problem(place, f"front matter is not YAML: {' '.join(str(wrong).split())}")
            read = None
        about = {str(key): _value(value) for key, value in read.items()} if isinstance(read, dict) else {}
        text = text[front.end() :]
    title, body = _markdown(text)
    named = (
        about.get("name")
        or about.get("title")
        or title
        or re.sub(r"[-_]+", " ", place.rsplit("/", 1)[-1].rsplit(".", 1)[0])
    )
    node = {
        "@type": about.pop("type", None) or about.pop("@type", None) or "Article",
        **{_FRONT.get(key.casefold(), key): value for key, value in about.items()},
        "name": str(named),
        "articleBody": body,
    }
    node.setdefault("@id", url)
    yield from items(node, site=site, base=url, source=source, place=place)


_FRONT: Final = {"title": "name", "tags": "keywords", "date": "datePublished", "summary": "description",
                 "updated": "dateModified", "categories": "category", "lang": "inLanguage"}  # fmt: skip


def _value(value: JSON) -> JSON:
    """YAML knows dates; JSON-LD writes them."""
    if isinstance(value, list):
        return [_value(each) for each in value]
    if isinstance(value, dict):
        return {str(key): _value(each) for key, each in value.items()}
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _markdown(text: str) -> tuple[str, str]:
    title = ""
    lines: list[str] = []
    heading = ""
    for token in _MARKDOWN.parse(text):
        if token.type == "heading_open":
            heading = token.tag
        elif token.type in ("fence", "code_block"):
            lines.append(token.content.rstrip())
        elif token.type == "inline":
            words = "".join(
                " " if child.type in ("softbreak", "hardbreak") else child.content
                for child in token.children or ()
                if child.type in ("text", "code_inline", "softbreak", "hardbreak")
            )
            if heading == "h1" and not title:
                title = words
            else:
                lines.append(words)
            heading = ""
    return title, "\n".join(line for line in lines if line.strip())


def _repaired(script: str) -> str:
    """Scripts as pages carry them: in a comment or CDATA, with raw line breaks in strings."""
    script = re.sub(
        r"^\s*(?:<!--|//\s*<!\[CDATA\[|/\*\s*<!\[CDATA\[\s*\*/|<!\[CDATA\[)|(?:-->|//\s*\]\]>|\]\]>)\s*$", "", script
    )
    return re.sub(r"[\x00-\x1f]", " ", script).strip().rstrip(";")


def _canonical(tree: LexborHTMLParser, url: str) -> str:
    link = tree.css_first('link[rel="canonical"]')
    href = link.attributes.get("href") if link else None
    return urljoin(url, href) if href else url


def _meta(tree: LexborHTMLParser, *names: str) -> str:
    for name in names:
        for key in ("name", "property"):
            node = tree.css_first(f'meta[{key}="{name}"]')
            content = node.attributes.get("content") if node else None
            if content and content.strip():
                return " ".join(content.split())
    return ""


def _page(tree: LexborHTMLParser, *, site: str, url: str, source: str, place: str) -> Iterator[Item | Problem]:
    title = tree.css_first("title")
    first = tree.css_first("h1")
    name = _meta(tree, "og:title") or _words(first) or _words(title)
    description = _meta(tree, "description", "og:description", "twitter:description")
    published = _meta(tree, "article:published_time", "date", "dcterms.date")
    keywords, author = _meta(tree, "keywords"), _meta(tree, "author")
    main = tree.css_first("main") or tree.css_first("article") or tree.css_first('[role="main"]') or tree.body
    for noise in main.css(_NOISE) if main else ():
        noise.decompose()
    body = _text(main) if main else ""
    if not name and not body:
        yield Problem(place, "a page without JSON-LD, a title and text")
        return
    node: dict[str, JSON] = {
        "@type": "Article" if published else "WebPage",
        "@id": url or place,
        "name": name or " ".join(body.split()[:10]),
        "description": description,
        "text": "\n".join(line for line in body.splitlines() if line != name),
        "datePublished": published,
        "keywords": keywords,
        "author": author,
        "inLanguage": _language(tree),
    }
    yield from items(
        {key: value for key, value in node.items() if value}, site=site, base=url, source=source, place=place
    )


def _language(tree: LexborHTMLParser) -> str:
    return (tree.root.attributes.get("lang") if tree.root else None) or ""


def _spoken(item: Item, language: str) -> Item:
    """What a page describes is in the page's language, unless it says otherwise."""
    if not language or "inLanguage" in item.fields:
        return item
    return msgspec.structs.replace(item, fields={**item.fields, "inLanguage": language})


def _words(node: LexborNode | None) -> str:
    return " ".join(node.text(separator=" ").split()) if node else ""


def _text(node: LexborNode) -> str:
    """The text of a page, one block a line."""
    lines: list[str] = [""]
    for each in node.traverse(include_text=True):
        if each.tag == "-text":
            lines[-1] += each.text(deep=False)
        elif each.tag in _BLOCKS:
            lines.append("")
    return "\n".join(clean for line in lines if (clean := " ".join(line.split())))
