"""The gateway's own MCP resources: the caller's conversations and uploads, and the items of sites.

``sabir://conversations/{id}``, ``sabir://uploads/{id}`` and ``sabir://sites/{site}/items/{id}``. What belongs to
another caller, or to a site that the caller may not ask, looks as if it did not exist.
"""

from __future__ import annotations

import asyncio
import mimetypes
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final, Protocol, runtime_checkable
from urllib.parse import quote, unquote

import msgspec

from sabir.card import Card
from sabir.errors import NotFound
from sabir.http.door import DoorContext
from sabir.message import Message, Part
from sabir.protocols.mcp.wire import cards as mcp_card
from sabir.protocols.mcp.wire import content as wire
from sabir.protocols.nlweb.door.routes import OfSites
from sabir.stores.base import AuditLine
from sabir.turn import Caller
from sabir.uploads import Upload, Uploads

from .response import DOOR

Json = dict[str, Any]
CONVERSATION: Final = "sabir://conversations/{id}"
UPLOAD: Final = "sabir://uploads/{id}"
ITEM: Final = "sabir://sites/{site}/items/{id}"
MAX_BYTES: Final = 1024 * 1024  # of an upload that is returned inline; a larger one is returned as a link
MAX_VALUES: Final = 100  # completions for an argument
_MAX_LISTED: Final = 20_000  # items of a site whose ids are searched for completions
_SCHEMA: Final = "application/ld+json"
_TURNS: Final = 100  # of a conversation that are shown
_TEXTS: Final = frozenset({"plain", "csv", "html", "markdown", "css", "calendar", "vcard"})
_READABLE: Final = ("text/", "application/json", "application/xml", "application/yaml", _SCHEMA)


@runtime_checkable
class HasItems(Protocol):
    """The index behind a site agent, as far as it is used here."""

    async def sites(self) -> Sequence[Any]: ...

    async def get(self, site: str, item_id: str) -> Any: ...

    async def search(self, query: Any) -> Any: ...

    def listed(self, site: str) -> AsyncIterator[tuple[str, str, str]]: ...


class OneSite(msgspec.Struct, frozen=True):
    """A site that a caller may ask: its name, the number of its items, its agent and its index."""

    name: str
    count: int
    agent: str
    engine: Any  # a HasItems


class Resources:
    """The resources of one endpoint that are not an agent's skill."""

    def __init__(self, services: DoorContext, cards: Callable[[Caller], list[Card]], *, owned: bool) -> None:
        self.services = services
        self._cards = cards
        self._owned = owned  # whether the caller's own resources are included, or only an agent's
        self._uploads: Uploads = services.uploads

    # -- lists --------------------------------------------------------------------------------------

    async def page(self, first: list[Json], caller: Caller, start: int, limit: int) -> tuple[list[Json], bool]:
        """Entries from ``start`` on: ``first``, then the caller's own, then items; and whether there are more."""
        entries = [*first]
        if self._has_own(caller):
            entries += [*await self._conversations(caller), *map(_upload, await self._complete_uploads(caller))]
        page, at = entries[start : start + limit], len(entries)
        for site in await self._sites(caller):
            if len(page) == limit:
                return page, True
            if start + len(page) < at + site.count:
                found = await _items(site, "", start + len(page) - at, limit - len(page))
                page += map(_item, found)
                if len(page) == limit and start + limit < at + site.count:
                    return page, True
            at += site.count
        return page, start + limit < at

    def _has_own(self, caller: Caller) -> bool:
        return self._owned and not caller.is_anonymous

    async def templates(self, caller: Caller) -> list[Json]:
        own = [(CONVERSATION, "Conversation", "application/json"), (UPLOAD, "Upload", None)]
        known = own if self._has_own(caller) else []
        if await self._sites(caller):
            known = [*known, (ITEM, "Item of a site", _SCHEMA)]
        return [
            {"uriTemplate": uri, "name": name, **({"mimeType": media} if media is not None else {})}
            for uri, name, media in known
        ]

    async def _conversations(self, caller: Caller) -> list[Json]:
        return [
            {
                "uri": CONVERSATION.replace("{id}", row.id),
                "name": f"Conversation {row.id[:8]}",
                "mimeType": "application/json",
            }
            for row in await self.services.store.conversations(caller.id)
            if not row.ended
        ]

    async def _complete_uploads(self, caller: Caller) -> list[Upload]:
        held = await self._uploads.held(caller)
        return [item for item in held if item.is_complete]

    async def _sites(self, caller: Caller) -> list[OneSite]:
        """The sites that this caller may ask here, each once."""
        found: dict[str, OneSite] = {}
        for card in self._cards(caller):
            agent = self.services.agents[card.name]
            if not isinstance(agent, OfSites) or not isinstance(agent.engine, HasItems):
                continue
            for site in await agent.engine.sites():
                if agent.site in (None, site.name):
                    found.setdefault(site.name, OneSite(site.name, site.items, card.name, agent.engine))
        return list(found.values())

    # -- reading ------------------------------------------------------------------------------------

    async def read(self, caller: Caller, uri: str) -> Json | None:
        """The content of a resource; None if this caller has no resource at this address."""
        for template, read in ((CONVERSATION, self._conversation), (UPLOAD, self._upload)):
            named = mcp_card.matched(template, uri) if self._has_own(caller) else None
            if named is not None and (contents := await read(caller, unquote(named["id"]), uri)) is not None:
                return await self._audited_contents(caller, template.partition("/{")[0], "", contents)
        site, item_id = _named_item(uri)
        for entry in await self._sites(caller) if item_id else ():
            item = await entry.engine.get(entry.name, item_id) if site in (None, entry.name) else None
            if item is not None:
                return await self._audited_contents(caller, "sabir://items", entry.agent, _item_contents(item, uri))
        return None

    async def mark(self, caller: Caller, uri: str) -> object:
        """A value that changes with the resource; None if this caller has no resource at this address."""
        own = self._has_own(caller)
        named = mcp_card.matched(CONVERSATION, uri) if own else None
        if named is not None:
            row = await self.services.store.conversation(unquote(named["id"]))
            return (row.touched, row.turns, row.ended) if row is not None and row.owner == caller.id else None
        named = mcp_card.matched(UPLOAD, uri) if own else None
        if named is not None:
            held, item_id = await self._complete_uploads(caller), unquote(named["id"])
            return next(((entry.id, entry.size) for entry in held if entry.id == item_id), None)
        site, item_id = _named_item(uri)
        for entry in await self._sites(caller) if item_id else ():
            item = await entry.engine.get(entry.name, item_id) if site in (None, entry.name) else None
            if item is not None:
                return _item_contents(item, uri)
        return None

    async def _audited_contents(self, caller: Caller, kind: str, agent: str, contents: list[Json]) -> Json:
        """The filtered contents, with an audit entry."""
        passed = [await self._passed(content, caller) for content in contents]
        detail = {"resource": kind.removeprefix("sabir://")}
        await self.services.store.audit(AuditLine(time.time(), "read", caller.id, DOOR, agent, detail=detail))
        return {"contents": passed}

    async def _passed(self, contents: Json, caller: Caller) -> Json:
        filters = self.services.filters
        if not filters.filters or "text" not in contents:
            return contents
        if not contents["mimeType"].endswith("json"):
            return {**contents, "text": await filters.words(contents["text"], caller)}
        said = Message("structured", "json", msgspec.json.decode(contents["text"]))
        passed = await filters.outbound(said, caller)
        return {**contents, "text": _written(passed.first.value)}

    async def _conversation(self, caller: Caller, conversation_id: str, uri: str) -> list[Json] | None:
        row = await self.services.store.conversation(conversation_id)
        if row is None or row.owner != caller.id:
            return None
        turns = await self.services.store.turns(conversation_id, _TURNS)
        shown = [{"at": t.at, "agent": t.agent, "asked": t.asked.text, "answered": t.answered.text} for t in turns]
        return [{"uri": uri, "mimeType": "application/json", "text": _written({"turns": shown})}]

    async def _upload(self, caller: Caller, upload_id: str, uri: str) -> list[Json] | None:
        upload = next(
            (upload for upload in await self._complete_uploads(caller) if upload.id == upload_id),
            None,
        )
        if upload is None:
            return None
        if (upload.size or 0) > MAX_BYTES:
            return [{"uri": uri, "mimeType": "text/uri-list", "text": self._uploads.address(upload)}]
        try:
            data = await asyncio.to_thread(self._uploads.file(upload).read_bytes)
        except FileNotFoundError:  # another node has it, or it was just removed
            return None
        media = _media(upload)
        if media.startswith(_READABLE) or media.endswith(("+json", "+xml")):
            try:
                return [{"uri": uri, "mimeType": media, "text": data.decode()}]
            except UnicodeDecodeError:
                pass
        return [wire.contents_of(Part("binary", upload.subformat, data, extra={"mimeType": media}), uri)]

    # -- proposals ----------------------------------------------------------------------------------

    async def complete(
        self, caller: Caller, template: str, argument: str, value: str, known: Mapping[str, str]
    ) -> list[str] | None:
        """Completions for an argument of a template; None if the template is not one of these."""
        if template not in {item["uriTemplate"] for item in await self.templates(caller)}:
            return None
        if template == ITEM:
            sites = await self._sites(caller)
            if argument == "site":
                return _begun(value, [site.name for site in sites])
            chosen = [site for site in sites if known.get("site", site.name) == site.name]
            return await _proposed(chosen, value) if argument == "id" else []
        if argument != "id":
            return []
        if template == UPLOAD:
            return _begun(value, [upload.id for upload in await self._complete_uploads(caller)])
        return _begun(value, [row.id for row in await self.services.store.conversations(caller.id)])


def start_of(cursor: str | None) -> int:
    """Where a page starts.

    Raises:
        NotFound: invalid cursor.
    """
    if cursor is not None and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 10):
        raise NotFound("invalid cursor")
    return int(cursor or 0)


def _begun(value: str, names: Sequence[str]) -> list[str]:
    return [name for name in names if name.lower().startswith(value.lower())][:MAX_VALUES]


async def _proposed(sites: Sequence[OneSite], value: str) -> list[str]:
    """Ids that start like this; otherwise those of items that match the words. An address is not words."""
    ids: list[str] = []
    for site in sites:
        if site.count <= _MAX_LISTED:
            ids += [item_id async for item_id, _, _ in site.engine.listed(site.name) if item_id.startswith(value)]
        if len(ids) >= MAX_VALUES:
            break
    if not ids and "://" not in value:
        for site in sites:
            ids += [item.id for item in await _items(site, value, 0, MAX_VALUES - len(ids))]
    return sorted(ids)[:MAX_VALUES]


async def _items(site: OneSite, words: str, start: int, limit: int) -> list[Any]:
    from sabir.search import OnSite, SearchQuery  # noqa: PLC0415 - an extra: there is a site, so it is installed

    query = SearchQuery(words, (OnSite((site.name,)),), start, limit)
    return [hit.item for hit in (await site.engine.search(query)).hits]


def _item(item: Any) -> Json:
    """An item of a site as a resource in a list."""
    uri = ITEM.replace("{site}", quote(item.site, safe="")).replace("{id}", quote(item.id, safe=""))
    entry: Json = {"uri": uri, "name": item.name or item.id, "mimeType": _SCHEMA}
    if item.description:
        entry["description"] = item.description[:200]
    return entry


def _named_item(uri: str) -> tuple[str | None, str]:
    """The site and the id in an address; an item's own address names no site."""
    if uri.startswith(("http://", "https://")):
        return None, uri
    named = mcp_card.matched(ITEM, uri)
    return (unquote(named["site"]), unquote(named["id"])) if named is not None else (None, "")


def _item_contents(item: Any, uri: str) -> list[Json]:
    """The schema.org object, and its text for people."""
    described = {"@context": "https://schema.org", **item.fields}
    words = "\n\n".join(entry for entry in (item.name, item.description, item.text, item.page) if entry)
    return [
        {"uri": uri, "mimeType": _SCHEMA, "text": _written(described)},
        {"uri": uri, "mimeType": "text/plain", "text": words},
    ]


def _upload(upload: Upload) -> Json:
    uri = UPLOAD.replace("{id}", quote(upload.id, safe=""))
    name = upload.name or f"{'Download' if upload.is_given else 'Upload'} {upload.id[:8]}"
    return {"uri": uri, "name": name, "mimeType": _media(upload), "size": upload.size}


def _media(upload: Upload) -> str:
    """The media type of an upload: by its file name, otherwise as declared."""
    guessed, _ = mimetypes.guess_type(upload.name) if upload.name else (None, None)
    kind, _, encoding = upload.subformat.partition("/")
    if guessed is not None and kind == "generic":
        return guessed
    if kind == "generic" and encoding in _TEXTS:
        return f"text/{encoding}"
    return wire.media_type(kind, encoding)


def _written(value: object) -> str:
    return msgspec.json.encode(value).decode()
