"""The address to cite for a record that has an id and no address of its own. Pure."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, urldefrag

_WEB: Final = ("http://", "https://")


def anchored(identity: str, url: str) -> str:
    """An anchor in the record's document, as the id itself leads to no page; empty if the document is a file."""
    if identity.startswith(_WEB):
        return identity
    return f"{urldefrag(url)[0]}#{quote(identity, safe='')}" if identity and url.startswith(_WEB) else ""
