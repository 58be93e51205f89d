"""Push notifications: who wants to be told of a task, and the telling.

A configuration is a record of the store, with how far its receiver has been told, so that a restart or another
node goes on from there: at least once, in order, each notification signed. Where they may go is decided by
``guard.outbound`` when they are configured, and again each time a connection is opened.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from contextlib import suppress
from typing import Final
from uuid import uuid4

import msgspec

from ..ending import end
from ..errors import BadMessage, MissingExtra, NotFound, PeerError, SabirError, TooMany
from ..guard.outbound import Fetcher, Outbound
from ..stores.base import Record, TaskRow
from ..stores.rows import value_of
from ..tasks import FINAL
from ..turn import Caller
from ..wire import a2a as wire
from .a2a_keys import Keys
from .a2a_told import events_of, told_of, updates
from .base import House

try:
    from a2a.compat.v0_3 import conversions
    from a2a.types import a2a_pb2 as pb
    from a2a.utils.proto_utils import to_stream_response
    from google.protobuf.json_format import MessageToDict, ParseDict
except ImportError as missing:
    raise MissingExtra("A2A", "a2a") from missing

logger = logging.getLogger("sabir.a2a")

SPACE: Final = "a2a-push"
MOST_PER_TASK: Final = 8
LEASE: Final = 30.0  # seconds; a node that does not renew has lost its receivers to the others
PAUSES: Final = (0.5, 2.0, 8.0)  # seconds between tries; then the notification is given up, and the next is sent
LIFETIME: Final = 300  # seconds that a notification's signature is good for


class Receiver(msgspec.Struct, frozen=True):
    """One configuration and how far its receiver has been told."""

    config: dict[str, object]
    task: str
    caller: Caller
    version: str = wire.VERSION
    told: int = 0  # the number of the last event sent
    node: str = ""
    lease: float = 0.0

    @property
    def message(self) -> pb.TaskPushNotificationConfig:
        return ParseDict(self.config, pb.TaskPushNotificationConfig())


_decode = msgspec.json.Decoder(Receiver).decode


class Webhooks:
    """Keeps configurations and tells their receivers."""

    def __init__(self, house: House, keys: Keys, outbound: Outbound) -> None:
        self._store = house.store
        self._house = house
        self._keys = keys
        self._outbound = outbound
        self._node = uuid4().hex
        self._fetcher: Fetcher | None = None
        self._telling: dict[str, asyncio.Task[None]] = {}
        self._looking: asyncio.Task[None] | None = None

    # -- configurations ---------------------------------------------------------------------------

    async def create(
        self, config: pb.TaskPushNotificationConfig, task: TaskRow, caller: Caller, version: str, since: int = 0
    ) -> pb.TaskPushNotificationConfig:
        """Tell this receiver of the task, of everything after event ``since``. The same id again replaces it.

        Raises:
            BadMessage: the URL is missing, or what shall be sent with it cannot be.
            Forbidden: it points where this gateway does not connect to.
            TooMany: the task has enough receivers.
        """
        await self.check(config)
        kept = pb.TaskPushNotificationConfig()
        kept.CopyFrom(config)
        kept.id = config.id[:64] or uuid4().hex
        kept.task_id = task.id
        if len(await self._of(task.id)) >= MOST_PER_TASK:
            raise TooMany(f"at most {MOST_PER_TASK} receivers a task", retry_after=60.0)
        key = f"{task.id}/{kept.id}"
        receiver = Receiver(MessageToDict(kept), task.id, caller, version, since, self._node, time.time() + LEASE)
        await self._store.put(Record(SPACE, key, self._sealed(key, receiver), task.owner, task.expires))
        self._tell(key)
        return kept

    async def check(self, config: pb.TaskPushNotificationConfig) -> None:
        """Refuse a receiver that could not be told; raises as ``create`` does."""
        if not config.url:
            raise BadMessage(wire.PROTOCOL, "$.url", "the URL of the receiver, which is required")
        for field, value in (("token", config.token), ("authentication", _credential(config))):
            if not (value.isascii() and value.isprintable()):
                raise BadMessage(wire.PROTOCOL, f"$.{field}", "letters that an HTTP header can hold")
        url = self._outbound.check(config.url)
        await self._outbound.addresses(url.host, url.port or (443 if url.scheme == "https" else 80))

    async def get(self, task: TaskRow, id: str) -> pb.TaskPushNotificationConfig:
        """Raises:
        NotFound: the task has no configuration of this id.
        """
        record = await self._store.get(SPACE, f"{task.id}/{id}")
        receiver = self._opened(record)
        if receiver is None:
            raise NotFound("there is no such push notification configuration")
        return receiver.message

    async def listed(self, task: TaskRow) -> list[pb.TaskPushNotificationConfig]:
        found = [self._opened(record) for record in await self._of(task.id)]
        return [receiver.message for receiver in found if receiver is not None]

    async def delete(self, task: TaskRow, id: str) -> None:
        """Stop telling this receiver; deleting what is not there is no error."""
        await self._store.delete(SPACE, f"{task.id}/{id}")
        telling = self._telling.pop(f"{task.id}/{id}", None)
        if telling is not None:
            telling.cancel()

    async def _of(self, task: str) -> list[Record]:
        return await self._store.list(SPACE, prefix=f"{task}/", limit=MOST_PER_TASK + 1)

    def _sealed(self, key: str, receiver: Receiver) -> bytes:
        """A receiver as it is kept: sealed, because it holds the credentials of others."""
        return self._house.guard.seal.seal(SPACE, msgspec.json.encode(receiver), key).encode()

    def _opened(self, record: Record | None) -> Receiver | None:
        if record is None:
            return None
        opened = self._house.guard.seal.open(SPACE, record.value.decode(errors="replace"), record.key)
        return None if opened is None else value_of(msgspec.structs.replace(record, value=opened), _decode)

    # -- telling ----------------------------------------------------------------------------------

    async def start(self) -> None:
        self._fetcher = Fetcher(self._outbound, most_bytes=64 * 1024, seconds=10.0)
        self._looking = asyncio.create_task(self._look(), name="a2a webhooks")

    async def stop(self) -> None:
        running = [*self._telling.values(), *([self._looking] if self._looking is not None else [])]
        held = tuple(self._telling)
        await end(running)
        with suppress(SabirError):  # then the leases run out
            for key in held:
                await self._let_go(key)
        if self._fetcher is not None:
            await self._fetcher.close()

    async def _look(self) -> None:
        """Keep the receivers told here, and take over those that no node tells: after a restart, or another's loss."""
        while True:
            with suppress(SabirError):
                for record in await self._store.list(SPACE, limit=10_000):
                    if record.key in self._telling:
                        await self._noted(record.key)
                    elif await self._take(record):
                        self._tell(record.key)
            await asyncio.sleep(LEASE / 3)

    async def _take(self, record: Record) -> bool:
        receiver = self._opened(record)
        if receiver is None or receiver.lease >= time.time():
            return False
        return await self._keep(record, msgspec.structs.replace(receiver, node=self._node, lease=time.time() + LEASE))

    async def _let_go(self, key: str) -> None:
        """Leave a receiver to whoever comes next."""
        record = await self._store.get(SPACE, key)
        receiver = self._opened(record)
        if record is not None and receiver is not None and receiver.node == self._node:
            await self._keep(record, msgspec.structs.replace(receiver, lease=0.0))

    async def _keep(self, record: Record, receiver: Receiver) -> bool:
        changed = msgspec.structs.replace(record, value=self._sealed(record.key, receiver))
        return await self._store.put(changed, expect=record.version)

    async def _noted(self, key: str, told: int | None = None) -> bool:
        """Renew the lease on a receiver, and note how far it was told; False if it is gone or another node's."""
        while True:
            record = await self._store.get(SPACE, key)
            receiver = self._opened(record)
            if record is None or receiver is None or receiver.node != self._node:
                return False
            number = receiver.told if told is None else told
            renewed = msgspec.structs.replace(receiver, lease=time.time() + LEASE, told=number)
            if await self._keep(record, renewed):
                return True

    def _tell(self, key: str) -> None:
        running = self._telling.get(key)
        if running is not None:
            running.cancel()
        task = self._telling[key] = asyncio.create_task(self._told(key), name=f"a2a webhook {key[:8]}")
        task.add_done_callback(lambda done: self._forget(key, done))

    def _forget(self, key: str, done: asyncio.Task[None]) -> None:
        if self._telling.get(key) is done:
            del self._telling[key]
        if not done.cancelled() and (wrong := done.exception()) is not None:
            logger.warning("telling a webhook ended: %s", wrong)

    async def _told(self, key: str) -> None:
        """Tell one receiver everything until the task has ended; a task that waits for input is waited for."""
        tasks = self._house.tasks
        while (receiver := self._opened(await self._store.get(SPACE, key))) is not None:
            row = await tasks.find(receiver.task, receiver.caller)
            told = told_of(row, [e for e in await events_of(tasks, row.id) if e.number <= receiver.told])
            async for number, update in updates(tasks, told, receiver.caller, receiver.told):
                await self._send(receiver, told, update)
                if not await self._noted(key, number):
                    return
            row = await tasks.find(receiver.task, receiver.caller)
            if row.state in FINAL:
                await self._store.delete(SPACE, key)
                return
            while row.state == "input-required":
                await asyncio.sleep(1.0)
                row = await tasks.find(receiver.task, receiver.caller)

    async def _send(self, receiver: Receiver, told: wire.Told, update: wire.Update) -> None:
        """Send one notification, a few times if need be."""
        assert self._fetcher is not None
        config = receiver.message
        body = _body(update, told, receiver.version)
        headers = self._headers(config, receiver, body)
        for pause in (*PAUSES, None):
            try:
                answer = await self._fetcher.send("POST", config.url, headers=headers, body=body)
            except PeerError as wrong:
                logger.info("webhook of task %s: %s", receiver.task[:8], wrong)
            else:
                if answer.status < 500 and answer.status != 429:
                    return
            if pause is not None:
                await asyncio.sleep(pause)
        logger.warning("webhook of task %s gave no answer; a notification is given up", receiver.task[:8])

    def _headers(self, config: pb.TaskPushNotificationConfig, receiver: Receiver, body: bytes) -> dict[str, str]:
        now = int(time.time())
        digest = hashlib.sha256(body).hexdigest()
        claims = {
            "iss": self._house.public_url,
            "aud": config.url,
            "iat": now,
            "exp": now + LIFETIME,
            "jti": f"{receiver.task[:16]}.{config.id}.{digest[:32]}",  # of a repeated one the same
            "taskId": receiver.task,
            "request_body_sha256": digest,
        }
        signed = self._keys.sign_claims(claims)
        headers = {"content-type": "application/a2a+json", "x-a2a-notification-signature": signed}
        if config.token:
            headers["x-a2a-notification-token"] = config.token
        headers["authorization"] = _credential(config) or f"Bearer {signed}"
        return headers


def _credential(config: pb.TaskPushNotificationConfig) -> str:
    """What the receiver wants to see, if it said."""
    shown = config.authentication
    return f"{shown.scheme} {shown.credentials}" if shown.credentials else ""


def _body(update: wire.Update, told: wire.Told, version: str) -> bytes:
    """A notification as its receiver knows it: 1.0 is sent each update, 0.3 the task."""
    if version == wire.OLD_VERSION:
        task = wire.task_to(told)
        if isinstance(update, pb.TaskStatusUpdateEvent):
            task.status.CopyFrom(update.status)
        else:
            task.ClearField("artifacts")
            task.artifacts.append(update.artifact)
        return conversions.to_compat_task(task).model_dump_json(by_alias=True, exclude_none=True).encode()
    return msgspec.json.encode(wire.plain(to_stream_response(update)))
