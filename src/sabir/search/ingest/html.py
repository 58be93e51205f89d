"""HTML pages and Markdown files to items: from their markup and their text, or otherwise the page itself. Pure."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import urljoin

import msgspec
import yaml

from sabir.errors import MissingExtra
from sabir.misfits import NOT_JSON
from sabir.search.items.item import BREAK, JSON, Item, Problem
from sabir.search.items.schema_org import MAX_DEPTH, SUPPORTING, items, plain
from sabir.search.items.types import lineage
from sabir.search.query.words import fold

from .crawl import directives
from .markup import microdata, rdfa
from .open_graph import kind, metas, offer, properties

try:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token
    from selectolax.lexbor import LexborHTMLParser, LexborNode
except ImportError as missing:
    raise MissingExtra("reading pages", "search") from missing

_NOISE: Final = (
    "script, style, noscript, template, nav, header, footer, aside, form, svg, iframe, button, "
    "[role=navigation], [role=banner], [role=contentinfo], [aria-hidden=true], .breadcrumb, .cookie-banner"
)
_MAIN: Final = 'main, article, [role="main"]'
_OF_OTHERS: Final = (  # parts of a page that are not about its thing
    "#comments, .comments, .comment, #reviews, .reviews, .related, .related-products, .recommendations, .upsells"
)
MAX_TEXT: Final = 50_000  # characters of a thing, with the text of its page
_BLOCKS: Final = frozenset({"p", "li", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "td", "th", "dt", "dd", "pre",
                            "figcaption", "div", "section", "article", "br", "tr", "summary", "details", "ul", "ol",
                            "dl", "table", "caption", "figure", "hr", "address", "main"})  # fmt: skip
NOINDEX: Final = "the page asks not to be indexed (noindex)"


class _Markdown(MarkdownIt):
    """Markdown with tables. Every link is read as one: of those that run code, too, only the text is kept."""

    def validateLink(self, url: str) -> bool:  # noqa: N802  (the name in markdown-it)
        return True


_MARKDOWN: Final = _Markdown("commonmark").enable("table")


# Things that only accompany a page: an additional item if it is a company; never instead of the page.
_BESIDE: Final = frozenset({"Organization", "Corporation", "NewsMediaOrganization", "NGO"})


def page_items(html: str, *, site: str, url: str, source: str, place: str) -> Iterator[Item | Problem]:
    """The items of a page: from its JSON-LD, else its microdata, else its RDFa; the one that the page is about gets the
    text that its markup leaves out. If there is none, or only the company behind the site, the page itself is an item,
    with its Open Graph data."""
    tree = LexborHTMLParser(html)
    if "noindex" in directives(tree):
        yield Problem(place, NOINDEX)
        return
    address = _canonical(tree, url)
    said = metas(tree)
    where = {"site": site, "base": address, "source": source}
    found = list(_json_ld(tree, place, where))
    if not any(map(_is_content, found)):
        for read, name in ((microdata, "microdata"), (rdfa, "rdfa")):
            things = read(tree, address)
            marked = items({"@graph": things}, place=f"{place}#{name}", **where) if things else ()
            found += filter(_is_content, marked)
            if any(map(_is_content, found)):
                break
    content = [item for item in found if isinstance(item, Item) and _is_content(item)]
    own = [item for item in content if item.page.split("#")[0].rstrip("/") == address.rstrip("/")]
    about = [item for item in own if "Question" not in item.types]
    for item in found:
        if isinstance(item, Problem):
            yield item
        elif _is_content(item):
            whole = _with_text_of(tree, item) if about == [item] else item
            yield _spoken(_priced(whole, said), _language(tree))
        elif _BESIDE.issuperset(item.types):
            yield _spoken(item, _language(tree))
    if not own and all("Organization" in lineage(item.types) for item in content):
        person = _person(found, address)
        yield from _page(tree, said, person, site=site, url=address, source=source, place=place)


def _is_content(item: Item | Problem) -> bool:
    return isinstance(item, Item) and not SUPPORTING.issuperset(item.types)


def _person(found: list[Item | Problem], address: str) -> Mapping[str, JSON]:
    """What a page states of the person that it is about: a doctor, a teacher."""
    for item in reversed(found):
        if isinstance(item, Item) and item.types == ("Person",) and item.page.rstrip("/") == address.rstrip("/"):
            return item.fields
    return {}


def _json_ld(tree: LexborHTMLParser, place: str, where: Mapping[str, str]) -> Iterator[Item | Problem]:
    for number, script in enumerate(tree.css('script[type="application/ld+json"]')):
        at = f"{place}#ld+json[{number}]"
        try:
            data = _decoded(_repaired(script.text()))
        except NOT_JSON as exc:
            yield Problem(at, f"not JSON: {exc}")
            continue
        for item in items(data, place=at, **where):
            if isinstance(item, Item) or "can be an item" not in item.reason:
                yield item


def _with_text_of(tree: LexborHTMLParser, item: Item) -> Item:
    """The thing that a page is about, with what only the text of the page says; its markup is often a mere teaser."""
    main = _main(tree, f"{_NOISE}, {_OF_OTHERS}") if tree.css_matches(_MAIN) else None
    known = set(_sentences(item.name))
    for leaf in _leaves(item.fields):
        known.update(_sentences(plain(leaf)))
    lines = [line for line in _text(main).splitlines() if not known.issuperset(_sentences(line))] if main else []
    if not lines:
        return item
    text = "\n".join((item.text, BREAK, *dict.fromkeys(lines))).strip("\n")
    return msgspec.structs.replace(item, text=text[: max(MAX_TEXT, len(item.text))])


def _sentences(text: str) -> list[str]:
    """The sentences of a text, to be compared; numbers and signs alone say nothing."""
    found = (" ".join(fold(words).split()).rstrip(".!?:") for words in re.split(r"(?<=[.!?])\s|\n", text))
    return [words for words in found if any(map(str.isalpha, words))]


def _leaves(value: JSON, depth: int = 0) -> Iterator[str]:
    """Every string in the markup of a thing."""
    if isinstance(value, str):
        yield value
    elif depth < MAX_DEPTH:
        for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            yield from _leaves(item, depth + 1)


def _main(tree: LexborHTMLParser, noise: str = _NOISE) -> LexborNode | None:
    """The main part of a page, without what only surrounds its content."""
    main = tree.css_first("main") or tree.css_first("article") or tree.css_first('[role="main"]') or tree.body
    for part in main.css(noise) if main else ():
        if not _is_heading(part):
            part.decompose()
    return main


def _is_heading(part: LexborNode) -> bool:
    """Whether this is a button that opens a section of a page, and so has the section's heading as its text."""
    if part.tag != "button":
        return False
    attributes = part.attributes
    return "aria-controls" in attributes or "accordion" in (attributes.get("class") or "") or _in_heading(part)


def _in_heading(part: LexborNode) -> bool:
    return part.parent is not None and part.parent.tag in ("h1", "h2", "h3", "h4", "h5", "h6", "summary")


def _priced(item: Item, said: Mapping[str, str]) -> Item:
    """Take the price of a product from the page's Open Graph data, if it is only there."""
    if "Product" not in item.types or "offers" in item.fields or not (made := offer(said)):
        return item
    return msgspec.structs.replace(item, fields={**item.fields, "offers": made})


def markdown_items(text: str, *, site: str, url: str, source: str, place: str) -> Iterator[Item | Problem]:
    """A Markdown file as an article; its front matter, if any, gives the properties."""
    about: dict[str, JSON] = {}
    for language, (fence, ends, load) in _FRONTS.items():
        front, rest = _front(text, fence, ends)
        if front is None:
            continue
        try:
            read = load(front)
        except (yaml.YAMLError, tomllib.TOMLDecodeError) as exc:
            yield Problem(place, f"front matter is not {language}: {' '.join(str(exc).split())}")
            read = None
        about = {str(key): _value(value) for key, value in read.items()} if isinstance(read, dict) else {}
        text = rest
    if about.pop("draft", False) is True or about.pop("published", True) is False:
        yield Problem(place, "a draft, as its front matter says")
        return
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


# By language: the line before the front matter, those that may follow it, and its reader.
_FRONTS: Final[Mapping[str, tuple[str, tuple[str, ...], Callable[[str], Any]]]] = {
    "YAML": ("---", ("---", "..."), yaml.safe_load),
    "TOML": ("+++", ("+++",), tomllib.loads),
}
_FRONT: Final = {"title": "name", "tags": "keywords", "date": "datePublished", "summary": "description",
                 "updated": "dateModified", "categories": "category", "lang": "inLanguage"}  # fmt: skip


def _front(text: str, fence: str, ends: tuple[str, ...]) -> tuple[str | None, str]:
    """The front matter of a file, if it has one, and the rest."""
    lines = text.splitlines(keepends=True)
    if not lines or lines[0].rstrip() != fence:
        return None, text
    last = next((at for at, line in enumerate(lines) if at and line.rstrip() in ends), None)
    if last is None:
        return None, text
    return "".join(lines[1:last]), "".join(lines[last + 1 :])


def _value(value: JSON) -> JSON:
    """YAML has dates; JSON-LD writes them as text."""
    if isinstance(value, list):
        return [_value(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _value(item) for key, item in value.items()}
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _markdown(text: str) -> tuple[str, str]:
    """The title and the text of a Markdown file: a line for each block and for each row of a table, as of a page."""
    title = ""
    lines: list[str] = []
    heading = ""
    cells: list[list[str]] = []  # of the current table
    for token in _MARKDOWN.parse(text):
        if token.type == "heading_open":
            heading = token.tag
        elif token.type == "table_open":
            cells = []
        elif token.type == "tr_open":
            cells.append([])
        elif token.type == "table_close":
            lines += _row_lines(cells, has_header=True)
            cells = []
        elif token.type in ("fence", "code_block"):
            lines.append(token.content.rstrip())
        elif token.type == "html_block":
            page = LexborHTMLParser(token.content)
            lines.append(_text(main) if (main := _main(page)) else "")
        elif token.type == "inline":
            words = _inline(token)
            if cells:
                cells[-1].append(words)
            elif heading == "h1" and not title:
                title = words
            else:
                lines.append(words)
            heading = ""
    return title, "\n".join(line for line in lines if line.strip())


def _inline(token: Token) -> str:
    """The words of a block; of a link and a picture, only their text."""
    return "".join(
        " " if child.type in ("softbreak", "hardbreak") else child.content
        for child in token.children or ()
        if child.type in ("text", "code_inline", "softbreak", "hardbreak")
    )


def _repaired(script: str) -> str:
    """Scripts as found in pages: in a comment or CDATA, with raw line breaks in strings."""
    script = re.sub(
        r"^\s*(?:<!--|//\s*<!\[CDATA\[|/\*\s*<!\[CDATA\[\s*\*/|<!\[CDATA\[)|(?:-->|//\s*\]\]>|\]\]>)\s*$", "", script
    )
    return re.sub(r"[\x00-\x1f]", " ", script).strip().rstrip(";")


def _decoded(script: str) -> JSON:
    """The content of a script; commas before a closing bracket, which JSON forbids, do no harm."""
    try:
        return msgspec.json.decode(script)
    except NOT_JSON:
        repaired = re.sub(r",(?=\s*[}\]])", "", script)
        if repaired == script:
            raise
        return msgspec.json.decode(repaired)


def _canonical(tree: LexborHTMLParser, url: str) -> str:
    link = tree.css_first('link[rel="canonical"]')
    href = (link.attributes.get("href") or "").strip() if link else ""
    try:
        joined = urljoin(url, href)
    except ValueError:
        return url
    return joined if href and joined.startswith(("http://", "https://")) else url


def _page(
    tree: LexborHTMLParser,
    said: Mapping[str, str],
    person: Mapping[str, JSON],
    *,
    site: str,
    url: str,
    source: str,
    place: str,
) -> Iterator[Item | Problem]:
    """The page itself, with what it states of the person that it is about."""
    name = said.get("og:title") or _words(tree.css_first("h1")) or _words(tree.css_first("title"))
    main = _main(tree)
    body = _text(main) if main else ""
    if not name and not body:
        yield Problem(place, "a page without JSON-LD, a title and text")
        return
    about = properties(said)
    if not body and not about and not person:
        yield Problem(place, "a page without text: a script may write it")
        return
    node: dict[str, JSON] = {
        "@type": kind(said) or ("Article" if "datePublished" in about else "WebPage"),
        "@id": url or place,
        "name": name or " ".join(body.split()[:10]),
        **about,
        "text": "\n".join(line for line in body.splitlines() if line != name),
        "inLanguage": _language(tree),
        **person,
    }
    yield from items(
        {key: value for key, value in node.items() if value}, site=site, base=url, source=source, place=place
    )


def _language(tree: LexborHTMLParser) -> str:
    return (tree.root.attributes.get("lang") if tree.root else None) or ""


def _spoken(item: Item, language: str) -> Item:
    """The items of a page have the page's language, unless they state another."""
    if not language or "inLanguage" in item.fields:
        return item
    return msgspec.structs.replace(item, fields={**item.fields, "inLanguage": language})


def _words(node: LexborNode | None) -> str:
    return " ".join(node.text(separator=" ").split()) if node else ""


_CELL: Final = 160  # characters of a cell; a longer one is prose, and its table only a layout
_NAMES: Final = re.compile(r"[^?!.]\Z")  # a term; a question has its answer in a sentence of its own


def _begin_block(lines: list[str], *, means: bool) -> None:
    """Begin a line; the meaning of a term continues the line of the term."""
    while means and len(lines) > 1 and not lines[-1].strip():
        lines.pop()
    if means and _NAMES.search(lines[-1].strip()):
        lines[-1] = f"{lines[-1].strip().rstrip(':')}: "
    else:
        lines.append("")


def _tables(node: LexborNode) -> dict[int, list[str]]:
    """The lines of each table of data: "Adults: £5", "Monday: 9 to 5"."""
    rows: dict[int, list[str]] = {}
    for table in node.css("table"):
        cells = [[_words(cell) for cell in row.css("td, th")] for row in table.css("tr")]
        is_layout = len(table.css("table")) > 1 or table.css_first("p, ul, ol, h1, h2, h3, h4, div") is not None
        if (
            is_layout
            or not cells
            or max(map(len, cells)) < 2
            or any(len(text) > _CELL for row in cells for text in row)
        ):
            continue
        first = table.css_first("tr")
        has_header = first is not None and first.css_first("td") is None and len(cells) > 1
        rows[table.mem_id] = list(_row_lines(cells, has_header=has_header))
    return rows


def _row_lines(cells: list[list[str]], *, has_header: bool) -> Iterator[str]:
    """The rows of a table; in a wide one, each cell with the header of its column."""
    header = cells[0] if has_header else []
    if header:
        yield ", ".join(text for text in header if text)
    for row in cells[1:] if header else cells:
        name, *values = row
        if len(header) == len(row) > 2:
            values = [
                f"{column} {text}" if column else text for column, text in zip(header[1:], values, strict=True) if text
            ]
        said = ", ".join(text for text in values if text)
        yield f"{name.rstrip(':')}: {said}" if name and said else name or said


def _text(node: LexborNode) -> str:
    """The text of a page, one block per line; a row of a table and a term with what it means are one line each."""
    rows = _tables(node)
    lines: list[str] = [""]
    waiting: list[LexborNode | None] = [node]  # None: a block ends
    last = ""
    while waiting:
        item = waiting.pop()
        if item is None:
            lines.append("")
        elif item.mem_id in rows:
            lines += ["", *rows[item.mem_id], ""]
        elif item.tag == "-text":
            lines[-1] += item.text(deep=False)
        else:
            if item.tag in _BLOCKS:
                _begin_block(lines, means=item.tag == "dd" and last == "dt")
                waiting.append(None)
                last = item.tag
            waiting.extend(reversed(list(item.iter(include_text=True))))
    return "\n".join(clean for line in lines if (clean := " ".join(line.split())))
