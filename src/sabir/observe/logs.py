"""Logs: without credentials, without content from callers, and without terminal control characters."""

from __future__ import annotations

import logging
import os
import re
import traceback
from typing import Final

import msgspec

# Anything that looks like a credential is kept out of the log, whoever logs it.
_CREDENTIALS: Final = re.compile(
    r"\bsb1\.[A-Za-z0-9_-]{8,}|\bsbk_[0-9a-f]{4,32}_[A-Za-z0-9_-]{8,}|\beyJ[\w-]{8,}\.[\w-]{4,}\.[\w-]{4,}"
    r"|\bsk-[A-Za-z0-9_-]{16,}|(?<=[Bb]earer )[A-Za-z0-9._~+/=-]{8,}|(?<=://)[^\s/:@]{1,128}:[^\s/:@]{1,256}(?=@)"
    r"|(?<=[?&]token=)[^\s&]{4,}|(?<=[?&]key=)[^\s&]{4,}"
)
# Control characters (which start escape sequences), direction overrides, and invisible letters. Characters that scripts
# need stay: joiners, and plain direction marks.
_ACTING: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)
UNTOLD: Final = "its message is logged at level debug"


_LINE: Final = 300  # characters of an exception's text


def scrubbed(text: str) -> str:
    """A text for the log: without credentials, and on one line."""
    clean = _CREDENTIALS.sub("[redacted]", text)
    if clean.isprintable():
        return clean
    return inert(clean.replace("\r", "\\r")).replace("\n", "\\n")


def inert(text: str) -> str:
    """A text for a terminal: line breaks and tabs stay; control characters and direction overrides are escaped."""
    return _ACTING.sub(_shown, text.replace("\r\n", "\n"))


def _shown(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def without_words(exc: BaseException) -> str:
    """A traceback without the texts of exceptions, which may contain content from callers."""
    chain: list[BaseException] = []
    link: BaseException | None = exc
    while link is not None and link not in chain:
        chain.append(link)
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    entries: list[str] = []
    for item in reversed(chain):
        kind = f"{type(item).__module__}.{type(item).__qualname__}".removeprefix("builtins.")
        within = (
            ", ".join(type(one).__qualname__ for one in item.exceptions) if isinstance(item, BaseExceptionGroup) else ""
        )
        frames = "".join(traceback.format_tb(item.__traceback__))
        entries.append(
            f"Traceback (most recent call last):\n{frames}{kind}{f' of {within}' if within else ''} ({UNTOLD})"
        )
    return "\n\n".join(entries)


def in_a_line(exc: BaseException) -> str:
    """The same in one line: type and place, and the text only if the log may contain it."""
    kind = type(exc).__qualname__
    if logging.getLogger("sabir").isEnabledFor(logging.DEBUG):
        return f"{kind}: {scrubbed(str(exc))[:_LINE]}"
    where = traceback.extract_tb(exc.__traceback__)[-1:]
    return kind + "".join(f" in {item.name}, {os.path.basename(item.filename)}:{item.lineno}" for item in where)


class Scrub(logging.Filter):
    """Removes credentials from log records, and texts from exceptions; those appear only at level debug, or in ``sabir
    dev``."""

    openly = False

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        clean = scrubbed(text)
        if clean != text:
            record.msg, record.args = clean, ()
        if record.exc_info and record.exc_info[1] is not None and not record.exc_text:
            if self.openly:  # the formatter of `sabir dev` shows it
                return True
            openly = logging.getLogger("sabir").isEnabledFor(logging.DEBUG)
            said = logging.Formatter().formatException(record.exc_info) if openly else without_words(record.exc_info[1])
            record.exc_text = _CREDENTIALS.sub("[redacted]", said)
        return True


# Here and not only where a log is set up: a program around ``Gateway(…).run()`` has its own handlers, or none.
LOGGERS: Final = (
    "sabir", "sabir.a2a", "sabir.access", "sabir.acl", "sabir.bus", "sabir.guard", "sabir.massgen", "sabir.mcp",
    "sabir.search", "sabir.store", "sabir.tools",
)  # fmt: skip
for _name in LOGGERS:
    logging.getLogger(_name).addFilter(Scrub())


class JsonLines(logging.Formatter):
    """One JSON object per line. Fields given as ``extra={"fields": {…}}`` are added to the text."""

    def format(self, record: logging.LogRecord) -> str:
        line = {"at": record.created, "level": record.levelname, "logger": record.name, "text": record.getMessage()}
        line.update(getattr(record, "fields", {}))
        if record.exc_text or record.exc_info:
            line["trace"] = record.exc_text or self.formatException(record.exc_info)  # type: ignore[arg-type]
        return msgspec.json.encode(line).decode()
