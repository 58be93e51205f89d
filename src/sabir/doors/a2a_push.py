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

from ..errors import BadMessage, MissingExtra, NotFound, PeerError, SabirError, TooMany
from ..guard.outbound import Fetcher, Outbound
from ..stores.base import Record, TaskRow
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
        self, config: pb.TaskPushNotificationConfig, task: TaskRow, caller: Caller, version: str
    ) -> pb.TaskPushNotificationConfig:
        """Tell this receiver of the task from now on. The same id again replaces it.

        Raises:
            BadMessage: the URL is missing.
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
        receiver = Receiver(MessageToDict(kept), task.id, caller, version, 0, self._node, time.time() + LEASE)
        await self._put(receiver, kept.id, task)
        self._tell(f"{task.id}/{kept.id}")
        return kept

    async def check(self, config: pb.TaskPushNotificationConfig) -> None:
        """Refuse a receiver that could not be told; raises as ``create`` does."""
        if not config.url:
            raise BadMessage(wire.PROTOCOL, "$.url", "the URL of the receiver, which is required")
        url = self._outbound.check(config.url)
        await self._outbound.addresses(url.host, url.port or (443 if url.scheme == "https" else 80))

    async def get(self, task: TaskRow, id: str) -> pb.TaskPushNotificationConfig:
        """Raises:
        NotFound: the task has no configuration of this id.
        """
        record = await self._store.get(SPACE, f"{task.id}/{id}")
        if record is None:
            raise NotFound("there is no such push notification configuration")
        return msgspec.json.decode(record.value, type=Receiver).message

    async def list(self, task: TaskRow) -> list[pb.TaskPushNotificationConfig]:
        return [msgspec.json.decode(record.value, type=Receiver).message for record in await self._of(task.id)]

    async def delete(self, task: TaskRow, id: str) -> None:
        """Stop telling this receiver; deleting what is not there is no error."""
        await self._store.delete(SPACE, f"{task.id}/{id}")
        telling = self._telling.pop(f"{task.id}/{id}", None)
        if telling is not None:
            telling.cancel()

    async def _of(self, task: str) -> list[Record]:
        return await self._store.list(SPACE, prefix=f"{task}/", limit=MOST_PER_TASK + 1)

    async def _put(self, receiver: Receiver, id: str, task: TaskRow) -> None:
        value = msgspec.json.encode(receiver)
        await self._store.put(Record(SPACE, f"{task.id}/{id}", value, task.owner, task.expires))

    # -- telling ----------------------------------------------------------------------------------

    async def start(self) -> None:
        self._fetcher = Fetcher(self._outbound, most_bytes=64 * 1024, seconds=10.0)
        self._looking = asyncio.create_task(self._look(), name="a2a webhooks")

    async def stop(self) -> None:
        running = [*self._telling.values(), *([self._looking] if self._looking is not None else [])]
        for task in running:
            task.cancel()
        held = tuple(self._telling)
        await asyncio.gather(*running, return_exceptions=True)
        with suppress(SabirError):  # then the leases run out
            for key in held:
                await self._let_go(key)
        if self._fetcher is not None:
            await self._fetcher.close()

    async def _look(self) -> None:
        """Take over receivers that no node tells: after a restart of this one, or the loss of another."""
        while True:
            with suppress(SabirError):
                for record in await self._store.list(SPACE, limit=10_000):
                    receiver = msgspec.json.decode(record.value, type=Receiver)
                    mine = record.key in self._telling
                    if not mine and receiver.lease < time.time() and await self._hold(record, receiver):
                        self._tell(record.key)
            await asyncio.sleep(LEASE / 2)

    async def _hold(self, record: Record, receiver: Receiver, told: int | None = None) -> bool:
        """Renew the lease on a receiver, and note how far it was told; False if it is gone or another's."""
        now = msgspec.structs.replace(
            receiver,
            node=self._node,
            lease=time.time() + LEASE,
            told=receiver.told if told is None else told,
        )
        renewed = msgspec.structs.replace(record, value=msgspec.json.encode(now))
        return await self._store.put(renewed, expect=record.version)

    async def _let_go(self, key: str) -> None:
        """Leave a receiver to whoever comes next."""
        record = await self._store.get(SPACE, key)
        if record is None:
            return
        receiver = msgspec.json.decode(record.value, type=Receiver)
        if receiver.node == self._node:
            free = msgspec.json.encode(msgspec.structs.replace(receiver, lease=0.0))
            await self._store.put(msgspec.structs.replace(record, value=free), expect=record.version)

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
        while (record := await self._store.get(SPACE, key)) is not None:
            receiver = msgspec.json.decode(record.value, type=Receiver)
            row = await self._house.tasks.find(receiver.task, receiver.caller)
            before = [e for e in await events_of(self._house.tasks, row.id) if e.number <= receiver.told]
            told = told_of(row, before)
            async for number, update in updates(self._house.tasks, told, receiver.caller, receiver.told):
                await self._send(receiver, told, update)
                if not await self._noted(key, number):
                    return
            row = await self._house.tasks.find(receiver.task, receiver.caller)
            if row.state in FINAL:
                await self._store.delete(SPACE, key)
                return
            while row.state == "input-required" and await self._noted(key):
                await asyncio.sleep(1.0)
                row = await self._house.tasks.find(receiver.task, receiver.caller)

    async def _noted(self, key: str, told: int | None = None) -> bool:
        record = await self._store.get(SPACE, key)
        if record is None:
            return False
        return await self._hold(record, msgspec.json.decode(record.value, type=Receiver), told)

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
        if config.authentication.credentials:
            headers["authorization"] = f"{config.authentication.scheme} {config.authentication.credentials}"
        else:
            headers["authorization"] = f"Bearer {signed}"
        return headers


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
