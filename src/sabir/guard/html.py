"""A filter for HTML: what goes out to be shown has no active content.

HTML is read into tags and text and written anew from an allow-list, so what is not known does not pass. In plain
text and in JSON values nothing is changed but the links that run code.
"""

from __future__ import annotations

import re
from html import escape
from html.parser import HTMLParser
from typing import Final

import msgspec

from ..message import JSON, Message, Part
from ..turn import Caller

_TAGS: Final = {
    "a": {"href", "title"}, "abbr": {"title"}, "b": set(), "blockquote": set(), "br": set(), "code": set(),
    "dd": set(), "del": set(), "div": set(), "dl": set(), "dt": set(), "em": set(), "figcaption": set(),
    "figure": set(), "h1": set(), "h2": set(), "h3": set(), "h4": set(), "h5": set(), "h6": set(), "hr": set(),
    "i": set(), "img": {"src", "alt", "title", "width", "height"}, "ins": set(), "kbd": set(), "li": set(),
    "mark": set(), "ol": {"start"}, "p": set(), "pre": set(), "q": set(), "s": set(), "samp": set(), "small": set(),
    "span": set(), "strong": set(), "sub": set(), "sup": set(), "table": set(), "tbody": set(),
    "td": {"colspan", "rowspan"}, "tfoot": set(), "th": {"colspan", "rowspan", "scope"}, "thead": set(),
    "time": {"datetime"}, "tr": set(), "u": set(), "ul": set(), "var": set(),
}  # fmt: skip
_EMPTY: Final = frozenset({"br", "hr", "img"})
# Gone with all that is inside them.
_WHOLE: Final = frozenset(
    {"script", "style", "template", "iframe", "object", "embed", "svg", "math", "noscript", "title", "textarea",
     "xmp", "noembed", "noframes", "plaintext", "select", "applet", "frameset", "head"}
)  # fmt: skip
_LINKS: Final = frozenset({"href", "src"})
_SCHEMES: Final = frozenset({"http", "https", "mailto", "tel"})
_CONTROL: Final = re.compile(r"[\x00-\x20\x7f-\xa0\u200b-\u200f\u2028-\u202f\ufeff]")
_IN_TEXT: Final = re.compile(
    r"\b(?:(?:java|vb|live)script|data)\s{0,4}:(?=\S)(?:[^\s()]|\([^\s()]{0,200}\)){1,2000}", re.IGNORECASE
)


def sanitized(html: str) -> str:
    """The same HTML with allowed tags, attributes and links only."""
    writer = _Writer()
    writer.feed(html)
    writer.close()
    return writer.written()


def safe_link(url: str) -> bool:
    """Whether following a link cannot run code: relative, or of a scheme that only fetches."""
    bare = _CONTROL.sub("", url)
    scheme, colon, _ = bare.partition(":")
    if not colon or any(c in scheme for c in "/?#"):
        return True
    return scheme.lower() in _SCHEMES


class _Writer(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._out: list[str] = []
        self._open: list[str] = []
        self._gone = 0  # how deep inside something that goes as a whole

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _WHOLE:
            self._gone += 1
        elif not self._gone and tag in _TAGS:
            kept = "".join(
                f' {name}="{escape(value or "", quote=True)}"'
                for name, value in attrs
                if name in _TAGS[tag] and (name not in _LINKS or safe_link(value or ""))
            )
            extra = ' rel="noopener noreferrer nofollow"' if tag == "a" else ""
            self._out.append(f"<{tag}{kept}{extra}>")
            if tag not in _EMPTY:
                self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _EMPTY:
            self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if tag in _WHOLE:
            self._gone = max(0, self._gone - 1)
        elif not self._gone and tag in self._open:
            while (last := self._open.pop()) != tag:
                self._out.append(f"</{last}>")
            self._out.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        if not self._gone:
            self._out.append(escape(data, quote=False))

    def written(self) -> str:
        return "".join(self._out) + "".join(f"</{tag}>" for tag in reversed(self._open))


class Html:
    """Takes active content out of what goes out."""

    name = "html"

    async def inbound(self, message: Message, caller: Caller) -> Message:
        return message

    async def outbound(self, message: Message, caller: Caller) -> Message:
        parts = tuple(_safe(part) for part in message.parts)
        if parts == message.parts:
            return message
        return msgspec.structs.replace(message, content=parts[0].content, submessages=parts[1:])


def _harmless(match: re.Match[str]) -> str:
    return "about:blank" if _CODE.match(_CONTROL.sub("", match[0])) else match[0]


_CODE: Final = re.compile(
    r"(?:java|vb|live)script:|data:(?:text/html|image/svg|application/xhtml|text/xml)", re.IGNORECASE
)


_LINKED: Final = frozenset({"url", "uri", "href", "src", "link", "image", "thumbnail", "logo", "sameas", "@id"})


def _without_code(value: JSON, name: str = "") -> JSON:
    """A JSON value whose links run no code. Its texts are data and stay: who shows them must escape them."""
    if isinstance(value, str):
        is_link = name in _LINKED or not any(c.isspace() for c in value.strip())
        return "about:blank" if is_link and _CODE.match(_CONTROL.sub("", value[:200])) else value
    if isinstance(value, dict):
        return {key: _without_code(each, str(key).lower()) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_code(each, name) for each in value]
    return value


def _safe(part: Part) -> Part:
    content = part.content
    if part.format == "structured" and part.kind in ("html", "xml") and isinstance(content, str):
        return msgspec.structs.replace(part, content=sanitized(content))
    if part.format == "structured" and part.kind == "uri" and isinstance(content, str) and not safe_link(content):
        return msgspec.structs.replace(part, content="about:blank")
    if part.format == "structured" and part.kind == "json":
        return msgspec.structs.replace(part, content=_without_code(content))
    if part.format == "text" and isinstance(content, str):
        return msgspec.structs.replace(part, content=_IN_TEXT.sub(_harmless, content))
    return part
