"""Untrusted XML: a document with a DTD is rejected, because entities can expand without limit. Pure."""

from __future__ import annotations

from xml.parsers import expat


def has_dtd(body: bytes) -> bool:
    """Whether an XML document has a DTD, in any encoding and after any prolog."""
    return _beginning(body) == "DTD"


def begins_safely(head: bytes) -> bool:
    """Whether a document reaches its first element without a DTD."""
    return _beginning(head) == "element"


def _beginning(body: bytes) -> str:
    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = _found_dtd
    parser.StartElementHandler = _found_root
    try:
        parser.Parse(body, True)
    except _FoundDtd:
        return "DTD"
    except _FoundRoot:
        return "element"
    except (expat.ExpatError, ValueError, LookupError):  # invalid, or in an unknown encoding: the real parser says so
        return ""
    return ""


class _FoundDtd(Exception):
    """There is a DTD."""


class _FoundRoot(Exception):
    """The root element has started; no DTD can follow."""


def _found_dtd(*_: object) -> None:
    raise _FoundDtd


def _found_root(*_: object) -> None:
    raise _FoundRoot
