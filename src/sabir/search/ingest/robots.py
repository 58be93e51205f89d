"""robots.txt (RFC 9309): groups by user agent, the longest rule wins, with ``*`` and ``$``. Pure."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, urlsplit

import msgspec

MAX_DELAY: Final = 10.0  # longest delay between two pages that a site can ask for
_LINE: Final = re.compile(r"\s*([\w-]+)\s*:\s*([^#]*)")


class Robots(msgspec.Struct, frozen=True):
    """What one agent may fetch from a host, and how fast. ``rules`` are ``(path pattern, allowed)``."""

    rules: tuple[tuple[str, bool], ...] = ()
    delay: float = 0.0
    text: str = ""

    @classmethod
    def parse(cls, text: str, agent: str) -> Robots:
        """The rules of the agent's group, or of the one for all."""
        groups: dict[str, list[tuple[str, str]]] = {}
        named: list[str] = []
        fresh = True  # further user agents join the group until its first rule
        for line in text.splitlines():
            found = _LINE.match(line)
            if not found:
                continue
            key, value = found[1].casefold(), found[2].strip()
            if key == "user-agent":
                named = [value.casefold()] if not fresh else [*named, value.casefold()]
                fresh = True
                groups.setdefault(value.casefold(), [])
            elif key in ("allow", "disallow", "crawl-delay"):
                fresh = False
                for name in named:
                    groups[name].append((key, value))
        lines = groups.get(agent.casefold(), groups.get("*", []))
        rules = tuple((value, key == "allow") for key, value in lines if key != "crawl-delay" and value)
        return cls(rules, _delay(lines), text)

    def allows(self, url: str) -> bool:
        """The longest matching pattern decides; of two equally long ones, the one that allows."""
        parts = urlsplit(url)
        path = _normal(f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}")
        best, allowed = -1, True
        for pattern, allow in self.rules:
            if len(pattern) >= best and _matches(pattern, path):
                allowed = allow or (allowed and len(pattern) == best)
                best = len(pattern)
        return allowed


REFUSE_ALL: Final = Robots((("/", False),))


def _delay(lines: list[tuple[str, str]]) -> float:
    for key, value in lines:
        if key == "crawl-delay" and re.fullmatch(r"\d+(\.\d+)?", value):
            return min(float(value), MAX_DELAY)
    return 0.0


def _normal(path: str) -> str:
    return quote(path, safe="/%?=&;:@!$'()*+,~[]")


def _matches(pattern: str, path: str) -> bool:
    """Whether a pattern matches from the start of a path; ``*`` is any text, a final ``$`` the end. Linear time."""
    anchored = pattern.endswith("$")
    first, *rest = _normal(pattern.removesuffix("$")).split("*")
    if not path.startswith(first):
        return False
    at = len(first)
    for number, piece in enumerate(rest):
        if anchored and number == len(rest) - 1:
            return path.endswith(piece) and len(path) - len(piece) >= at
        at = path.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    return not anchored or at == len(path)
