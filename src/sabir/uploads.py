"""Uploads: large data outside the messages (CORE-6.4, HTTP-6.1.1).

The concierge offers a place: a sealed URI, bound to its caller and its conversation, that expires. The upload is
streamed to disk; the next message refers to the URI, and the agent reads the bytes through ``turn.attachments`` without
holding them in memory. Large replies are sent the same way.

State is a record in the store (space ``upload``) and a file under ``home/uploads``: ``<id>.part`` while it arrives,
``<id>`` once it is complete. The size of the ``.part`` file is the offset to resume from. A caller's usage is reserved
in the store before data arrives (``guard.quotas.reservations``), so its limits hold across nodes.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
import sys
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from .errors import BadMessage, Conflict, Forbidden, NotFound, StoreUnavailable, TooLarge, Unavailable
from .guard.quotas.reservations import Cap, Reservations
from .guard.seal import Seal
from .message import Message, Part, binary_part, uri_part
from .private_files import own_folder
from .stores.base import Record, Store
from .stores.rows import value_of
from .turn import Caller

if sys.platform != "win32":
    import fcntl

SPACE: Final = "upload"
PATH: Final = "/nlip/upload/"
BLOCK: Final = 1024 * 1024  # bytes written and hashed at a time, off the event loop
AHEAD: Final = 16 * BLOCK  # reserved at most in advance, if the size is unknown
_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)
_GIVEN: Final = "g."  # prefix of ids of files that we offer to the caller


class UploadLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits and lifetime of uploads."""

    bytes: int = 4 * 1024**3  # of one upload
    bytes_per_caller: int = 16 * 1024**3  # of all that have not expired
    places_per_caller: int = 1000
    seconds: float = 3600.0  # how long a place is open, and its data is kept


class Upload(msgspec.Struct, frozen=True, omit_defaults=True):
    """The stored record of one place."""

    id: str
    conversation: str
    owner: str
    expires: float
    max_bytes: int = msgspec.field(name="most")
    total: int | None = None  # as announced by the client
    size: int | None = None  # once complete
    sha256: str = ""
    subformat: str = "generic/octet-stream"  # kind and encoding
    name: str = ""
    account: str = ""  # whose quota is charged: the owner, or the address of an anonymous caller

    @property
    def is_complete(self) -> bool:
        return self.size is not None

    @property
    def is_given(self) -> bool:
        return self.id.startswith(_GIVEN)


_decode = msgspec.json.Decoder(Upload).decode


class Uploads:
    """Offers places, stores uploads, and serves them to their owners."""

    def __init__(
        self, home: Path, store: Store, seal: Seal, limits: UploadLimits | None = None, public_url: str = ""
    ) -> None:
        self.folder = home / "uploads"
        self.store = store
        self.limits = limits or UploadLimits()
        self.public_url = public_url
        self._seal = seal
        self._writing: set[str] = set()
        self._reservations = Reservations(store, SPACE, "your uploads here are used up; wait until some have expired")

    # -- places -----------------------------------------------------------------------------------

    async def offer(self, conversation: str, caller: Caller) -> tuple[str, Upload]:
        """A place for one upload: its path on this gateway, and its limits.

        Raises:
            RateLimited: the caller has too many places, or has used up its bytes.
        """
        account, expires = self.account(caller), time.time() + self.limits.seconds
        max_bytes = min(self.limits.bytes, self.limits.bytes_per_caller)
        upload = Upload(secrets.token_urlsafe(16), conversation, caller.id, expires, max_bytes, account=account)
        left = await self._reservations.begin(account, upload.id, expires, self._cap, self._record(upload))
        return self._path(upload), msgspec.structs.replace(upload, max_bytes=min(max_bytes, left))

    @property
    def _cap(self) -> Cap:
        return Cap(self.limits.bytes_per_caller, self.limits.places_per_caller)

    def account(self, caller: Caller) -> str:
        """The account to charge. Anonymous callers share one id, so a pseudonym of their address is used."""
        return f"anonymous@{self._seal.pseudonym(SPACE, caller.address)}" if caller.is_anonymous else caller.id

    def _path(self, upload: Upload) -> str:
        return PATH + self._seal.seal(SPACE, upload.id.encode(), upload.owner)

    def address(self, upload: Upload) -> str:
        """Where its owner can download an upload."""
        return self.public_url + self._path(upload)

    async def held(self, caller: Caller) -> list[Upload]:
        """A known caller's uploads that have not expired, complete or not, and files offered to it."""
        limit = self.limits.places_per_caller
        held = [self._read(item) for item in await self.store.list(SPACE, owner=self.account(caller), limit=limit)]
        return [item for item in held if item and item.owner == caller.id and item.expires > time.time()]

    async def at(self, place: str, caller: Caller) -> Upload:
        """The upload at a place, for the caller it was made for.

        Raises:
            NotFound: invalid, made for another caller, expired, or never offered: all give the same error.
        """
        upload_id = self._seal.open(SPACE, place, caller.id)
        record = await self.store.get(SPACE, upload_id.decode()) if upload_id is not None else None
        upload = self._read(record) if record is not None else None
        if upload is None or upload.expires <= time.time():
            raise NotFound("upload URL not found or expired")
        return upload

    # -- putting ----------------------------------------------------------------------------------

    def offset(self, upload: Upload) -> int:
        """How many bytes have arrived."""
        if upload.size is not None:
            return upload.size
        try:
            return self._part(upload).stat().st_size
        except FileNotFoundError:
            return 0

    def begin(self, upload: Upload, offset: int = 0, total: int | None = None) -> Writing:
        """Write to a place from an offset on; use the result as an async context manager.

        Raises:
            Conflict: it is already complete, is being written, or the offset is wrong.
            TooLarge: the announced size is over the limit.
        """
        if upload.is_complete or upload.is_given:
            raise Conflict("this upload is complete; ask for another place")
        if upload.id in self._writing:
            raise Conflict("this upload is under way on another connection")
        if total is not None and total > upload.max_bytes:
            raise TooLarge("upload", "Content-Length", f"at most {upload.max_bytes} bytes")
        if offset and offset != self.offset(upload):
            raise Conflict(f"the upload continues at offset {self.offset(upload)}")
        if upload.total is not None and total is not None and total != upload.total:
            raise Conflict(f"the upload was announced with {upload.total} bytes")
        return Writing(self, upload, offset, total if total is not None else upload.total)

    @staticmethod
    def _record(upload: Upload) -> Record:
        return Record(SPACE, upload.id, msgspec.json.encode(upload), owner=upload.account, expires=upload.expires)

    @staticmethod
    def _read(record: Record) -> Upload | None:
        return value_of(record, _decode)

    def _part(self, upload: Upload) -> Path:
        return self.folder / f"{upload.id}.part"

    def file(self, upload: Upload) -> Path:
        """The path of the complete file."""
        return self.folder / upload.id

    # -- reading ----------------------------------------------------------------------------------

    def of(self, conversation: str, caller: Caller) -> Attachments:
        """The uploads that one conversation may see."""
        return Attachments(self, conversation, caller)

    async def drop(self, upload: Upload) -> None:
        """Remove a place and its data.

        Raises:
            Conflict: it is being written.
        """
        if upload.id in self._writing:
            raise Conflict("this upload is under way on another connection")
        await self.store.delete(SPACE, upload.id)
        self._part(upload).unlink(missing_ok=True)
        self.file(upload).unlink(missing_ok=True)
        await self._reservations.end(upload.account, upload.id)

    async def erase(self, conversation: str, caller: Caller) -> int:
        """Remove the files of a conversation; returns how many. One that is being written stays."""
        erased = 0
        limit = self.limits.places_per_caller
        for record in await self.store.list(SPACE, owner=self.account(caller), limit=limit):
            upload = self._read(record)
            if upload is None or upload.id in self._writing:
                continue
            if upload.conversation == conversation and upload.owner == caller.id:
                await self.drop(upload)
                erased += 1
        return erased

    async def sweep(self) -> int:
        """Remove files whose record has expired; returns how many."""
        removed = 0
        now = time.time()
        if not self.folder.is_dir():
            return 0
        for path in sorted(self.folder.iterdir()):
            upload_id = path.name.removesuffix(".part")
            if upload_id in self._writing or path.stat().st_mtime > now - 60.0:
                continue
            if await self.store.get(SPACE, upload_id) is None:
                path.unlink(missing_ok=True)
                removed += 1
        return removed


class Writing:
    """One upload on its way to disk. Leaving it early keeps what has arrived, to be resumed."""

    def __init__(self, uploads: Uploads, upload: Upload, offset: int, total: int | None) -> None:
        self._uploads = uploads
        self.upload = msgspec.structs.replace(upload, total=total)
        self.received = offset
        self._offset = offset
        self._hash = hashlib.sha256()
        self._buffer = bytearray()
        self._handle: int | None = None
        self._counted = -1  # bytes of the caller's quota reserved for this upload; not known yet

    async def __aenter__(self) -> Writing:
        uploads, upload = self._uploads, self.upload
        uploads._writing.add(upload.id)
        try:
            self._handle = await asyncio.to_thread(self._open)
            if upload.total is not None:
                # Stored, so that a resumed upload knows when it is complete.
                await self._count(upload.total, upload.total, uploads._record(upload))
        except BaseException:
            uploads._writing.discard(upload.id)
            if self._handle is not None:
                os.close(self._handle)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await self._flush()
        finally:
            if self._handle is not None:
                os.close(self._handle)
            self._uploads._writing.discard(self.upload.id)
            if self.upload.total is None and self._counted > self.received:  # an announced one may still be resumed
                with suppress(StoreUnavailable):  # then it counts until it expires
                    await self._settle(self.received)

    def _open(self) -> int:
        own_folder(self._uploads.folder)
        path = self._uploads._part(self.upload)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | _NO_LINK, 0o600)
        if sys.platform != "win32":
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # another worker may be writing it
            except BlockingIOError:
                os.close(handle)
                raise Conflict("this upload is under way on another connection") from None
        os.ftruncate(handle, self._offset)
        while block := os.read(handle, BLOCK):  # include earlier data in the checksum
            self._hash.update(block)
        return handle

    async def _count(self, wanted: int, least: int, record: Record | None = None) -> None:
        """Reserve this many bytes of the caller's quota for this upload, before they arrive."""
        uploads, upload, may_refuse = self._uploads, self.upload, not self.upload.is_given
        holding = uploads._reservations.reserve(
            upload.account, upload.id, upload.expires, uploads._cap, wanted,
            least=least, refuse=may_refuse, record=record,
        )  # fmt: skip
        self._counted = await holding

    async def _settle(self, size: int, record: Record | None = None) -> None:
        self._counted = size
        await self._uploads._reservations.commit(self.upload.account, self.upload.id, size, record)

    async def write(self, data: bytes) -> None:
        """Add bytes.

        Raises:
            TooLarge: over the limit, or over the announced size.
            RateLimited: over the caller's quota for all its places together.
        """
        received, total = self.received + len(data), self.upload.total
        if received > self.upload.max_bytes or (total is not None and received > total):
            raise TooLarge("upload", "body", f"at most {self.upload.max_bytes if total is None else total} bytes")
        if received > self._counted:
            await self._count(received + min(received, AHEAD), received)
        self.received = received
        self._buffer += data
        if len(self._buffer) >= BLOCK:
            await self._flush()

    async def _flush(self) -> None:
        if self._buffer and self._handle is not None:
            block, self._buffer = bytes(self._buffer), bytearray()
            try:
                await asyncio.to_thread(self._store, self._handle, block)
            except OSError as exc:
                raise Unavailable("no space for uploads", retry_after=60.0) from exc

    def _store(self, handle: int, block: bytes) -> None:
        view = memoryview(block)
        while view:
            view = view[os.write(handle, view) :]
        self._hash.update(block)

    @property
    def is_whole(self) -> bool:
        return self.upload.total is None or self.received == self.upload.total

    async def finish(self, sha256: str | None = None, subformat: str = "", name: str = "") -> Upload:
        """Complete the upload: verify it, and make it readable.

        Raises:
            BadMessage: the checksum differs from the announced one; the data is discarded.
        """
        await self._flush()
        digest = self._hash.hexdigest()
        uploads = self._uploads
        if sha256 is not None and sha256.lower() != digest:
            uploads._part(self.upload).unlink(missing_ok=True)
            await self._settle(0)
            raise BadMessage("upload", "digest", f"the checksum of what arrived, {digest}")
        done = msgspec.structs.replace(
            self.upload,
            size=self.received,
            sha256=digest,
            subformat=subformat or self.upload.subformat,
            name=name or self.upload.name,
        )
        assert self._handle is not None
        await asyncio.to_thread(os.fsync, self._handle)
        os.replace(uploads._part(done), uploads.file(done))
        if self._counted == self.received:
            await uploads.store.put(uploads._record(done))
        else:
            await self._settle(self.received, uploads._record(done))
        self.upload = done
        return done


@dataclass(slots=True)
class Attachment:
    """A complete upload, not loaded."""

    uri: str
    size: int
    sha256: str
    subformat: str
    name: str
    path: Path

    async def chunks(self, block: int = BLOCK) -> AsyncIterator[bytes]:
        """The bytes, a block at a time."""
        with await asyncio.to_thread(_opened, self.path) as file:
            while data := await asyncio.to_thread(file.read, block):
                yield data

    async def part(self, max_bytes: int = 64 * 1024**2) -> Part:
        """The bytes as a Part, loaded.

        Raises:
            TooLarge: more than ``max_bytes``; read them in chunks.
        """
        if self.size > max_bytes:
            raise TooLarge("upload", self.name or "attachment", f"at most {max_bytes} bytes to be loaded at once")
        with await asyncio.to_thread(_opened, self.path) as file:
            return binary_part(await asyncio.to_thread(file.read), self.subformat, label=self.name or None)


class Attachments(msgspec.Struct, frozen=True, eq=False):
    """The type of ``turn.attachments``: the uploads of one conversation."""

    _uploads: Uploads
    _conversation: str
    _caller: Caller

    def refers(self, message: Message) -> bool:
        """Whether a message refers to an upload here."""
        if message.format != "structured" and not message.submessages:
            return False
        return any(self.is_ours(part) for part in message.parts)

    def is_ours(self, part: Part) -> bool:
        """Whether a part refers to an upload of this gateway; other addresses are ignored."""
        return _place(part) is not None and str(part.content).startswith(self._uploads.public_url)

    async def check(self, message: Message) -> None:
        """Raises:
        Forbidden: the message refers to an upload that is not of this conversation, or not complete.
        """
        for part in message.parts:
            if self.is_ours(part):
                await self.open(part)

    async def all(self, message: Message) -> list[Attachment]:
        """Every upload that a message refers to."""
        return [await self.open(part) for part in message.parts if self.is_ours(part)]

    async def open(self, reference: Part | str) -> Attachment:
        """The upload that a URI refers to.

        Raises:
            Forbidden: it is not of this conversation, or not complete.
        """
        part = uri_part(reference) if isinstance(reference, str) else reference
        place = _place(part)
        try:
            upload = await self._uploads.at(place or "", self._caller)
        except NotFound:
            raise Forbidden("the upload is not of this conversation, or has expired") from None
        if upload.conversation != self._conversation:
            raise Forbidden("the upload is not of this conversation, or has expired")
        if upload.size is None:
            raise Forbidden("the upload is not complete")
        path = self._uploads.file(upload)
        return Attachment(str(part.content), upload.size, upload.sha256, upload.subformat, upload.name, path)

    async def give(
        self, data: bytes | Path | AsyncIterator[bytes], subformat: str = "generic/octet-stream", name: str = ""
    ) -> Part:
        """Offer a large file to the caller; returns the part with its address."""
        uploads = self._uploads
        expires = time.time() + uploads.limits.seconds
        upload = Upload(
            _GIVEN + secrets.token_urlsafe(16),
            self._conversation,
            self._caller.id,
            expires,
            uploads.limits.bytes,
            account=uploads.account(self._caller),
        )
        async with Writing(uploads, upload, 0, None) as writing:
            async for block in _blocks(data):
                await writing.write(block)
            await writing.finish(subformat=subformat, name=name)
        return uri_part(uploads.public_url + uploads._path(upload), label="download")


def open_kept(path: Path) -> int:
    """Open an upload for reading, without following symbolic links.

    Raises:
        NotFound: it does not exist.
    """
    try:
        return os.open(path, os.O_RDONLY | _NO_LINK)
    except OSError:
        raise NotFound("the uploaded file no longer exists") from None


def _opened(path: Path) -> BinaryIO:
    return os.fdopen(open_kept(path), "rb")


async def _blocks(data: bytes | Path | AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    if isinstance(data, bytes):
        yield data
    elif isinstance(data, Path):
        with await asyncio.to_thread(data.open, "rb") as file:
            while block := await asyncio.to_thread(file.read, BLOCK):
                yield block
    else:
        async for block in data:
            yield block


def _place(part: Part) -> str | None:
    """The sealed part of a URI of ours, or None."""
    if part.format != "structured" or not isinstance(part.content, str) or PATH not in part.content:
        return None
    return part.content.partition(PATH)[2].partition("?")[0].strip("/") if part.kind == "uri" else None
