"""The addresses to cite for the records of a document, without what only its owner may know. Pure.

The address of a source may have a password before the host and a key in the query: "https://me:pw@x.org/a.json?key=1".
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final
from urllib.parse import quote, urlsplit

_WEB: Final = ("http://", "https://")


def without_user(url: str) -> str:
    """An address without user and password; what is no web address is left as it is."""
    if not url.startswith(_WEB):
        return url
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def publishable(url: str) -> str:
    """The address of a feed without user, query and fragment."""
    return urlsplit(without_user(url))._replace(query="", fragment="").geturl() if url.startswith(_WEB) else url


def told_apart(identity: str, url: str) -> str:
    """An id that is a fragment of a feed's publishable address, different for feeds that differ by their query."""
    query = urlsplit(url).query if url.startswith(_WEB) else ""
    start = f"{publishable(url)}#"
    if not query or not identity.startswith(start):
        return identity
    return f"{start}{blake2b(query.encode(), digest_size=4).hexdigest()}-{identity.removeprefix(start)}"


def anchored(identity: str, url: str) -> str:
    """An anchor in the record's document, as the id itself leads to no page; empty if the document is a file."""
    if identity.startswith(_WEB):
        return identity
    return f"{publishable(url)}#{quote(identity, safe='')}" if identity and url.startswith(_WEB) else ""
