"""What a site is read from, as it is configured. Apart from ``sites``, which needs the search extra."""

from __future__ import annotations

import msgspec


class SiteSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One site: its name, and the files, folders or addresses that it is read from when the gateway starts."""

    name: str
    source: str | tuple[str, ...] = ()
    description: str = ""

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.source,) if isinstance(self.source, str) else self.source
