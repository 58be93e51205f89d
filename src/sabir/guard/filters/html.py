"""A filter for HTML: removes active content from output.

``nh3`` cleans HTML: it parses it as browsers do and keeps what an allow-list names. In plain text, JSON values and
unknown fields, only links that run code are changed.
"""

from __future__ import annotations

import asyncio
import re
from functools import cache
from typing import Final

import msgspec
import nh3

from sabir.message import JSON, Message, Part
from sabir.turn import Caller

from .slices import SLICE, substitute

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
# Removed with everything inside them.
_WHOLE: Final = frozenset(
    {"script", "style", "template", "iframe", "noscript", "title", "textarea", "xmp", "noembed", "noframes", "select",
     "applet"}
)  # fmt: skip
_SCHEMES: Final = frozenset({"http", "https", "mailto", "tel"})
_CONTROL: Final = re.compile(r"[\x00-\x20\x7f-\xa0\u200b-\u200f\u2028-\u202f\ufeff]")
_IN_TEXT: Final = re.compile(
    r"\b(?:(?:java|vb|live)script|data)\s{0,4}:(?=\S)(?:[^\s()]|\([^\s()]{0,200}\)){1,2000}", re.IGNORECASE
)
_LONGEST: Final = 2048  # cutting a longer one removes its scheme, so that it runs nothing


@cache
def _cleaner() -> nh3.Cleaner:
    return nh3.Cleaner(
        tags=set(_TAGS),
        attributes={tag: set(names) for tag, names in _TAGS.items() if names},
        url_schemes=set(_SCHEMES),
        link_rel="noopener noreferrer nofollow",
        clean_content_tags=set(_WHOLE),
    )


def sanitized(html: str) -> str:
    """The same HTML with allowed tags, attributes and links only."""
    return _cleaner().clean(html)


def safe_link(url: str) -> bool:
    """Whether following a link cannot run code: it is relative, or its scheme only fetches."""
    bare = _CONTROL.sub("", url)
    scheme, colon, _ = bare.partition(":")
    if not colon or any(c in scheme for c in "/?#"):
        return True
    return scheme.lower() in _SCHEMES


class Html:
    """Removes active content from output."""

    name = "html"

    async def inbound(self, message: Message, caller: Caller) -> Message:
        return message

    async def outbound(self, message: Message, caller: Caller) -> Message:
        parts = tuple([await _safe(part) for part in message.parts])
        extra = _without_code(message.extra) if message.extra else message.extra
        if parts == message.parts and extra == message.extra:
            return message
        return msgspec.structs.replace(message, content=parts[0].content, submessages=parts[1:], extra=extra)


def _harmless(match: re.Match[str]) -> str:
    return "about:blank" if _CODE.match(_CONTROL.sub("", match[0])) else match[0]


_CODE: Final = re.compile(
    r"(?:java|vb|live)script:|data:(?:text/html|image/svg|application/xhtml|text/xml)", re.IGNORECASE
)


_ENOUGH: Final = 32  # characters that show whether a link runs code
_LINKED: Final = frozenset({"url", "uri", "href", "src", "link", "image", "thumbnail", "logo", "sameas", "@id"})


def _without_code(value: JSON, name: str = "") -> JSON:
    """A JSON value whose links run no code. Its texts are data and stay: whoever renders them must escape them."""
    if isinstance(value, str):
        is_link = name in _LINKED or not any(c.isspace() for c in value.strip())
        return "about:blank" if is_link and _CODE.match(_beginning(value)) else value
    if isinstance(value, dict):
        return {key: _without_code(item, str(key).lower()) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_code(item, name) for item in value]
    return value


def _beginning(link: str) -> str:
    """How a link begins for a browser, which skips any number of blanks and control characters."""
    beginning = _CONTROL.sub("", link[:200])
    return beginning if len(beginning) >= _ENOUGH else _CONTROL.sub("", link)


async def _safe(part: Part) -> Part:
    extra = _without_code(part.extra) if part.extra else part.extra
    return msgspec.structs.replace(part, content=await _safe_content(part), extra=extra)


async def _safe_content(part: Part) -> JSON:
    content = part.content
    if part.format == "structured" and part.kind == "json":
        return _without_code(content)
    if not isinstance(content, str):
        return content
    if part.format == "structured" and part.kind in ("html", "xml"):
        # nh3 releases the GIL, so the event loop keeps running.
        return sanitized(content) if len(content) <= SLICE else await asyncio.to_thread(sanitized, content)
    if part.format == "structured" and part.kind == "uri":
        return content if safe_link(content) else "about:blank"
    if part.format == "text":
        return await substitute(_IN_TEXT, _harmless, content, _LONGEST)
    return content
