"""Push notifications: the receivers of a task's updates, and sending them.

A receiver is a record of the store together with the number of the last event sent to it, so that after a restart
another node can continue from there: at least once, in order, each notification signed. The egress rules decide where
receivers may be, when they are configured and again each time a connection is opened.
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
from a2a.compat.v0_3 import conversions
from a2a.types import a2a_pb2 as pb
from a2a.utils.proto_utils import to_stream_response
from google.protobuf.json_format import MessageToDict, ParseDict

from sabir.aio import cancel_and_wait
from sabir.errors import BadMessage, NotFound, PeerError, PeerUnavailable, RateLimited, SabirError
from sabir.guard.egress.addresses import GuardedClient, Outbound
from sabir.http.door import DoorContext
from sabir.protocols.a2a.wire import content as wire
from sabir.protocols.a2a.wire.tasks import TaskView, Update, task_to
from sabir.stores.base import Record, TaskRow
from sabir.stores.rows import value_of
from sabir.tasks import FINAL
from sabir.turn import Caller

from .signing_keys import SigningKeys
from .task_view import events_of, updates, view_of

logger = logging.getLogger("sabir.a2a")

SPACE: Final = "a2a-push"
MAX_ID: Final = 256  # characters
MAX_PER_TASK: Final = 8
LEASE: Final = 30.0  # seconds; a node that does not renew loses its receivers to the others
PAUSES: Final = (0.5, 2.0, 8.0)  # seconds between attempts; then the notification is dropped, and the next is sent
LIFETIME: Final = 300  # lifetime of a notification's signature


class PushReceiver(msgspec.Struct, frozen=True):
    """One configuration, and the last event that was sent to its receiver."""

    config: dict[str, object]
    task: str
    caller: Caller
    version: str = wire.VERSION
    sent: int = msgspec.field(default=0, name="told")  # the number of the last event; its name in older records
    node: str = ""
    lease: float = 0.0

    @property
    def message(self) -> pb.TaskPushNotificationConfig:
        return ParseDict(self.config, pb.TaskPushNotificationConfig())


_decode = msgspec.json.Decoder(PushReceiver).decode


class Webhooks:
    """Keeps configurations and notifies their receivers."""

    def __init__(self, services: DoorContext, keys: SigningKeys, outbound: Outbound) -> None:
        self._store = services.store
        self._services = services
        self._keys = keys
        self._outbound = outbound
        self._node = uuid4().hex
        self._fetcher: GuardedClient | None = None
        self._running: dict[str, asyncio.Task[None]] = {}
        self._maintaining: asyncio.Task[None] | None = None

    # -- configurations ---------------------------------------------------------------------------

    async def create(
        self, config: pb.TaskPushNotificationConfig, task: TaskRow, caller: Caller, version: str, since: int = 0
    ) -> pb.TaskPushNotificationConfig:
        """Notify this receiver of every event after ``since``. A configuration with the same id is replaced.

        Raises:
            BadMessage: the URL is missing, the id too long, or its token or credentials do not fit into a header.
            Forbidden: the egress rules do not allow this address.
            RateLimited: the task has too many receivers.
        """
        await self.check(config)
        kept = pb.TaskPushNotificationConfig()
        kept.CopyFrom(config)
        kept.id = config.id or uuid4().hex
        kept.task_id = task.id
        key = f"{task.id}/{kept.id}"
        others = [record for record in await self._of(task.id) if record.key != key]
        if len(others) >= MAX_PER_TASK:
            raise RateLimited(f"at most {MAX_PER_TASK} receivers a task", retry_after=60.0)
        receiver = PushReceiver(MessageToDict(kept), task.id, caller, version, since, self._node, time.time() + LEASE)
        await self._store.put(Record(SPACE, key, self._sealed(key, receiver), task.owner, task.expires))
        self._start(key)
        return kept

    async def check(self, config: pb.TaskPushNotificationConfig) -> None:
        """Reject a receiver that could not be notified; raises as ``create`` does."""
        if not config.url:
            raise BadMessage(wire.PROTOCOL, "$.url", "the URL of the receiver, which is required")
        if len(config.id) > MAX_ID or not config.id.isprintable():
            raise BadMessage(wire.PROTOCOL, "$.id", f"at most {MAX_ID} printable characters")
        for field, value in (("token", config.token), ("authentication", _credential(config))):
            if not (value.isascii() and value.isprintable()):
                raise BadMessage(wire.PROTOCOL, f"$.{field}", "letters that an HTTP header can hold")
        url = self._outbound.check(config.url)
        # An unknown host name may become known; each notification is checked again.
        with suppress(PeerUnavailable):
            await self._outbound.addresses(url.host, url.port or (443 if url.scheme == "https" else 80))

    async def get(self, task: TaskRow, config_id: str) -> pb.TaskPushNotificationConfig:
        """Raises:
        NotFound: the task has no configuration with this id.
        """
        record = await self._store.get(SPACE, f"{task.id}/{config_id}")
        receiver = self._opened(record)
        if receiver is None:
            raise NotFound("push notification configuration not found")
        return receiver.message

    async def listed(self, task: TaskRow) -> list[pb.TaskPushNotificationConfig]:
        found = [self._opened(record) for record in await self._of(task.id)]
        return [receiver.message for receiver in found if receiver is not None]

    async def delete(self, task: TaskRow, config_id: str) -> None:
        """Stop notifying this receiver; deleting a missing one is not an error."""
        await self._store.delete(SPACE, f"{task.id}/{config_id}")
        running = self._running.pop(f"{task.id}/{config_id}", None)
        if running is not None:
            running.cancel()

    async def _of(self, task: str) -> list[Record]:
        return await self._store.list(SPACE, prefix=f"{task}/", limit=MAX_PER_TASK + 1)

    def _sealed(self, key: str, receiver: PushReceiver) -> bytes:
        """The stored form of a receiver: sealed, because it contains credentials of others."""
        return self._services.seal.seal(SPACE, msgspec.json.encode(receiver), key).encode()

    def _opened(self, record: Record | None) -> PushReceiver | None:
        if record is None:
            return None
        opened = self._services.seal.open(SPACE, record.value.decode(errors="replace"), record.key)
        return None if opened is None else value_of(msgspec.structs.replace(record, value=opened), _decode)

    # -- sending ----------------------------------------------------------------------------------

    async def start(self) -> None:
        self._fetcher = GuardedClient(self._outbound, max_bytes=64 * 1024, seconds=10.0)
        self._maintaining = asyncio.create_task(self._maintain(), name="a2a webhooks")

    async def stop(self) -> None:
        running = [*self._running.values(), *([self._maintaining] if self._maintaining is not None else [])]
        held = tuple(self._running)
        await cancel_and_wait(running)
        with suppress(SabirError):  # then the leases expire
            for key in held:
                await self._let_go(key)
        if self._fetcher is not None:
            await self._fetcher.close()

    async def _maintain(self) -> None:
        """Renew the leases of this node, and take over receivers whose node has stopped or died."""
        while True:
            with suppress(SabirError):
                for record in await self._store.list(SPACE, limit=10_000):
                    if record.key in self._running:
                        await self._renew(record.key)
                    elif await self._take(record):
                        self._start(record.key)
            await asyncio.sleep(LEASE / 3)

    async def _take(self, record: Record) -> bool:
        receiver = self._opened(record)
        if receiver is None or receiver.lease >= time.time():
            return False
        return await self._keep(record, msgspec.structs.replace(receiver, node=self._node, lease=time.time() + LEASE))

    async def _let_go(self, key: str) -> None:
        """Release the lease on a receiver, so that another node can take it over at once."""
        record = await self._store.get(SPACE, key)
        receiver = self._opened(record)
        if record is not None and receiver is not None and receiver.node == self._node:
            await self._keep(record, msgspec.structs.replace(receiver, lease=0.0))

    async def _keep(self, record: Record, receiver: PushReceiver) -> bool:
        changed = msgspec.structs.replace(record, value=self._sealed(record.key, receiver))
        return await self._store.put(changed, expect=record.version)

    async def _renew(self, key: str, sent: int | None = None) -> bool:
        """Renew the lease on a receiver, with the last event sent; False if it is deleted or another node's."""
        while True:
            record = await self._store.get(SPACE, key)
            receiver = self._opened(record)
            if record is None or receiver is None or receiver.node != self._node:
                return False
            number = receiver.sent if sent is None else sent
            renewed = msgspec.structs.replace(receiver, lease=time.time() + LEASE, sent=number)
            if await self._keep(record, renewed):
                return True

    def _start(self, key: str) -> None:
        running = self._running.get(key)
        if running is not None:
            running.cancel()
        task = self._running[key] = asyncio.create_task(self._notify(key), name=f"a2a webhook {key[:8]}")
        task.add_done_callback(lambda done: self._forget(key, done))

    def _forget(self, key: str, done: asyncio.Task[None]) -> None:
        if self._running.get(key) is done:
            del self._running[key]
        exc = None if done.cancelled() else done.exception()
        if exc is not None:
            logger.warning("Webhook %s stopped: %s", key[:8], exc)

    async def _notify(self, key: str) -> None:
        """Notify one receiver until the task has ended, across questions."""
        tasks = self._services.tasks
        while (receiver := self._opened(await self._store.get(SPACE, key))) is not None:
            row = await tasks.find(receiver.task, receiver.caller)
            view = view_of(row, [e for e in await events_of(tasks, row.id) if e.number <= receiver.sent])
            async for number, update in updates(tasks, view, receiver.caller, receiver.sent):
                await self._send(receiver, view, update)
                if not await self._renew(key, number):
                    return
            row = await tasks.find(receiver.task, receiver.caller)
            if row.state in FINAL:
                await self._store.delete(SPACE, key)
                return
            await tasks.answered(receiver.task, receiver.caller, len(row.answers))

    async def _send(self, receiver: PushReceiver, view: TaskView, update: Update) -> None:
        """Send one notification, a few times if need be."""
        assert self._fetcher is not None
        config = receiver.message
        body = _body(update, view, receiver.version)
        headers = self._headers(config, receiver, body)
        for pause in (*PAUSES, None):
            try:
                answer = await self._fetcher.send("POST", config.url, headers=headers, body=body)
            except PeerError as exc:
                logger.info("Webhook of task %s: %s", receiver.task[:8], exc)
            else:
                if answer.status < 500 and answer.status != 429:
                    return
            if pause is not None:
                await asyncio.sleep(pause)
        logger.warning("Webhook of task %s does not answer; dropping a notification", receiver.task[:8])

    def _headers(self, config: pb.TaskPushNotificationConfig, receiver: PushReceiver, body: bytes) -> dict[str, str]:
        now = int(time.time())
        digest = hashlib.sha256(body).hexdigest()
        claims = {
            "iss": self._services.public_url,
            "aud": config.url,
            "iat": now,
            "exp": now + LIFETIME,
            "jti": f"{receiver.task[:16]}.{config.id}.{digest[:32]}",  # the same for a repeated one
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
    """The authentication header that the receiver asked for, if any."""
    shown = config.authentication
    return f"{shown.scheme} {shown.credentials}" if shown.credentials else ""


def _body(update: Update, view: TaskView, version: str) -> bytes:
    """A notification in the receiver's version: 1.0 gets each update, 0.3 the task."""
    if version == wire.OLD_VERSION:
        task = task_to(view)
        if isinstance(update, pb.TaskStatusUpdateEvent):
            task.status.CopyFrom(update.status)
        else:
            task.ClearField("artifacts")
            task.artifacts.append(update.artifact)
        return conversions.to_compat_task(task).model_dump_json(by_alias=True, exclude_none=True).encode()
    return msgspec.json.encode(wire.plain(to_stream_response(update)))
