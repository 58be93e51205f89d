"""Filters for what must not leave: credentials, personal data, and internal text.

They look for shapes, so they only find what has one. They are the last line of defence, not the first: secrets should
not reach agents at all.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import Final

from .base import TextFilter
from .slices import SLICE, SlicePace, substitute

REDACTED: Final = "[redacted]"

# Credentials with a recognisable shape. Each is bounded in length, so that no text makes matching slow.
SECRET_SHAPES: Final[tuple[tuple[str, str], ...]] = (
    ("private key", r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY-----"
                    r"(?:[\s\S]{0,8192}?-----END [A-Z0-9 ]{1,60}-----|[\s\S]{0,8192})"),
    ("sabir key", r"\bsbk_[0-9a-f]{6,32}_[A-Za-z0-9_-]{20,90}"),
    # Except in upload and download addresses, which are for the caller and bound to it.
    ("sabir token", r"(?<!/nlip/upload/)\bsb1\.[A-Za-z0-9_-]{24,2000}"),
    ("jwt", r"\beyJ[A-Za-z0-9_-]{8,8192}\.[A-Za-z0-9_-]{4,8192}\.[A-Za-z0-9_-]{8,2048}"),
    ("aws key id", r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    ("openai or anthropic key", r"\bsk-(?:ant-|proj-|svcacct-)?[A-Za-z0-9_-]{20,200}"),
    ("github token", r"\b(?:gh[pousr]_[A-Za-z0-9]{30,255}|github_pat_[A-Za-z0-9_]{40,255})"),
    ("gitlab token", r"\bglpat-[A-Za-z0-9_-]{20,100}"),
    ("slack token", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,250}"),
    ("google key", r"\bAIza[A-Za-z0-9_-]{35}\b"),
    ("stripe key", r"\b(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,250}"),
    ("hugging face token", r"\bhf_[A-Za-z0-9]{30,100}"),
    ("npm token", r"\bnpm_[A-Za-z0-9]{36}\b"),
    ("url password", r"(?<=://)[^\s/:@]{1,128}:[^\s/:@]{1,256}(?=@)"),
    ("bearer", r"(?<=\b[Bb]earer )[A-Za-z0-9._~+/=-]{16,8192}"),
)  # fmt: skip
# Substrings that all of these contain: a long text without them is not searched.
_LONG: Final = {"private key": "-----BEGIN ", "sabir token": "sb1.", "jwt": "eyJ", "bearer": "earer "}
_LONGEST: Final = 2 * 8192 + 2048 + 100  # characters that one match can have
_LONGEST_SHORT: Final = 700
# key = value, where the key suggests a secret and the value looks random.
_ASSIGNED: Final = re.compile(
    r"""(?ix)(?P<name>passw(?:or)?d|secret|api[_-]?key|access[_-]?key|auth[_-]?token|private[_-]?key)
    (?P<is>["']?\s{0,3}(?::|=|:=|=>)\s{0,3}["']?)(?P<value>[^\s"'<>,;]{8,512})"""
)

_ASSIGNED_WORDS: Final = ("passw", "secret", "api", "access", "auth", "private")


class Secrets(TextFilter):
    """Removes credentials from output."""

    name = "secrets"
    _shapes = re.compile("|".join(f"(?:{shape})" for _, shape in SECRET_SHAPES))
    _long_shapes = tuple((_LONG[name], re.compile(shape)) for name, shape in SECRET_SHAPES if name in _LONG)
    _short_shapes = re.compile("|".join(f"(?:{shape})" for name, shape in SECRET_SHAPES if name not in _LONG))

    def words(self, text: str) -> str:
        if len(text) < 16:
            return text
        if self._shapes.search(text) is not None:
            for _, shape in self._long_shapes:  # first, so that a key in front of one does not hide its start
                text = shape.sub(REDACTED, text)
            text = self._short_shapes.sub(REDACTED, text)
        return _ASSIGNED.sub(self._assigned, text)

    async def long_words(self, text: str) -> str:
        for literal, shape in self._long_shapes:
            if literal in text:
                text = await substitute(shape, REDACTED, text, _LONGEST)
        text = await substitute(self._short_shapes, REDACTED, text, _LONGEST_SHORT)
        lower = text.lower()
        if not any(word in lower for word in _ASSIGNED_WORDS):
            return text
        return await substitute(_ASSIGNED, self._assigned, text, _LONGEST_SHORT)

    @staticmethod
    def _assigned(match: re.Match[str]) -> str:
        value = match["value"]
        if value == REDACTED or (entropy(value) < 3.0 and value.isalpha()):
            return match[0]
        return f"{match['name']}{match['is']}{REDACTED}"


def entropy(text: str) -> float:
    """Entropy of the text in bits per character."""
    counts = Counter(text)
    return -sum(n / len(text) * math.log2(n / len(text)) for n in counts.values())


class PersonalData(TextFilter):
    """Removes personal data from output: mail addresses, payment cards, bank accounts, phone and US social security
    numbers. ``kinds`` selects which."""

    name = "pii"
    SHAPES: Final = {
        "email": r"\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}\b",
        "card": r"\b(?:\d[ -]?){12,18}\d\b",
        "iban": r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b",
        "ssn": r"\b(?!000|666|9\d\d)\d{3}-(?!00)\d{2}-(?!0000)\d{4}\b",
        "phone": r"(?<![\w.])(?:\+\d{1,3}(?:[ .-]?\(?\d{1,4}\)?){2,6}"
                 r"|\(\d{3}\) ?\d{3}[ .-]\d{4}|\d{3}[.-]\d{3}[.-]\d{4})(?!\w)",
    }  # fmt: skip

    def __init__(self, kinds: Iterable[str] = tuple(SHAPES)) -> None:
        chosen = tuple(kinds)
        unknown = [kind for kind in chosen if kind not in self.SHAPES]
        if unknown:
            raise ValueError(f"pii: expected some of {', '.join(self.SHAPES)}, not {', '.join(unknown)}")
        self._kinds = [(kind, re.compile(self.SHAPES[kind])) for kind in self.SHAPES if kind in chosen]

    def words(self, text: str) -> str:
        for kind, shape in self._kinds:
            text = shape.sub(partial(_masked, kind), text)
        return text

    async def long_words(self, text: str) -> str:
        for kind, shape in self._kinds:
            text = await substitute(shape, partial(_masked, kind), text, _LONGEST_SHORT)
        return text


def _masked(kind: str, match: re.Match[str]) -> str:
    text = match[0]
    if (kind == "card" and not _luhn(text)) or (kind == "iban" and not _mod97(text)):
        return text
    return f"[{kind}]"


def _luhn(text: str) -> bool:
    digits = [int(c) for c in text if c.isdigit()]
    doubled = [d * 2 - 9 if d > 4 else d * 2 for d in digits[-2::-2]]
    return (sum(doubled) + sum(digits[-1::-2])) % 10 == 0


def _mod97(text: str) -> bool:
    bare = text.replace(" ", "")
    return int("".join(str(int(c, 36)) for c in bare[4:] + bare[:4])) % 97 == 1


class Inside(TextFilter):
    """Keeps internal text from leaving: the reasoning of models, and protected texts such as system prompts.

    ``markers`` are matched literally: a planted marker that appears in output reveals a leak and stops it.
    """

    name = "inside"
    _THINKING: Final = re.compile(
        r"<(think|thinking|reasoning|scratchpad|internal)\b[^>]{0,200}>[\s\S]*?(?:</\1\s{0,10}>|\Z)\s{0,10}",
        re.IGNORECASE,
    )
    _OPENING: Final = re.compile(r"<(think|thinking|reasoning|scratchpad|internal)\b[^>]{0,200}>", re.IGNORECASE)
    _LONGEST_TAG: Final = 220
    LEAST: Final = 40  # consecutive characters of a protected text that count as a leak

    def __init__(self, markers: Iterable[str] = (), protected: Iterable[str] = ()) -> None:
        self._markers = {marker for marker in markers if len(marker) >= 6}
        self._protected: set[str] = set()
        for text in protected:
            self.protect(text)

    def protect(self, text: str) -> None:
        """Protect a text, and any longer piece of it."""
        plain = _plain(text)
        self._protected.update(plain[at : at + self.LEAST] for at in range(max(1, len(plain) - self.LEAST + 1)))

    def words(self, text: str) -> str:
        text = self._without_markers(self._THINKING.sub("", text))
        return REDACTED if self._protected and self._reveals(_plain(text)) else text

    async def long_words(self, text: str) -> str:
        text = self._without_markers(await self._without_long_thoughts(text))
        if not self._protected:
            return text
        pieces, pace = [], SlicePace()
        for start in range(0, len(text), SLICE):
            pieces.append(_plain(text[start : start + SLICE], strip=False))
            await pace.rest()
        plain = " ".join("".join(pieces).split())
        for start in range(0, len(plain), SLICE):
            if self._reveals(plain[start : start + SLICE + self.LEAST]):
                return REDACTED
            await pace.rest()
        return text

    async def _without_long_thoughts(self, text: str) -> str:
        """The same result as one pattern for the whole, in linear time."""
        kept: list[str] = []
        copied = start = 0
        pace = SlicePace()
        while start < len(text):
            stop = start + SLICE
            opening = self._OPENING.search(text, start, stop + self._LONGEST_TAG)
            if opening is None or opening.start() >= stop:
                start = stop
            else:
                kept.append(text[copied : opening.start()])
                closing = re.compile(rf"</{opening[1]}\s{{0,10}}>\s{{0,10}}", re.IGNORECASE).search(text, opening.end())
                copied = start = len(text) if closing is None else closing.end()
            await pace.rest()
        kept.append(text[copied:])
        return "".join(kept)

    def _without_markers(self, text: str) -> str:
        for marker in self._markers:
            if marker in text:
                text = text.replace(marker, REDACTED)
        return text

    def _reveals(self, plain: str) -> bool:
        if not self._protected or len(plain) < self.LEAST:
            return False
        windows = (plain[at : at + self.LEAST] for at in range(len(plain) - self.LEAST + 1))
        return any(window in self._protected for window in windows)


def _plain(text: str, *, strip: bool = True) -> str:
    plain = re.sub(r"\W+", " ", text.lower())
    return plain.strip() if strip else plain
