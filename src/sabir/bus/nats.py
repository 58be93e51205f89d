"""A bus on NATS JetStream: any number of nodes, letters stored on disk by the server.

Three streams store letters: ``inbox`` (a work queue: a letter waits for a receiver of its name and is removed when
handled), ``group`` (kept until every member has it) and ``dead``. Calls use plain subjects with a queue group per name,
and are not stored.

**What an acknowledged letter survives.** JetStream acknowledges a letter when it is written, before it is synced to
disk: it survives a crash of the server process, not always of its machine. For that, run the server with ``jetstream {
sync_interval: always }`` (about a quarter of the rate with framed publishes), or run three servers and set
``replicas=3`` in the address; see ``docs``.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import uuid4

import msgspec
import nats
import nats.errors
from nats.aio.client import Server as NatsServer
from nats.aio.subscription import Subscription
from nats.js import api
from nats.js.errors import APIError, BadRequestError, NoStreamResponseError, NotFoundError, ServiceUnavailableError

from sabir.errors import BusUnavailable, ConfigError, Unreadable

from .base import DEFAULT, DeadLetter, Handler, Letter, LetterReceiver, Load, Receiving, Server, check_name
from .calls import BusCalling, Calls
from .delivery import Delivery, Seen
from .framing import BusLimits, Packet, decode_dead, decode_packets, encode_dead, encode_packets, frame, packed
from .nats_client import QuickClient
from .nats_receiving import NatsReceiver, translate_errors
from .outbox import Outbox

logger = logging.getLogger("sabir.bus")

_OPTIONS: Final = frozenset({"prefix", "replicas", "credentials", "max_bytes"})
_NO_JETSTREAM: Final = frozenset({None, 10039, 10076})  # error codes; None: no answer
_STORE_FAILED: Final = 10077  # the server's error code for a stream that is full

RETENTION: Final[Mapping[str, api.RetentionPolicy]] = {
    "inbox": api.RetentionPolicy.WORK_QUEUE,
    "group": api.RetentionPolicy.INTEREST,
    "dead": api.RetentionPolicy.LIMITS,
}


class NatsBus:
    """Letters and calls over NATS."""

    spans_nodes = True

    def __init__(self, address: str, limits: BusLimits | None = None) -> None:
        self.limits = limits or BusLimits()
        self._servers, options = _parsed(address)
        self.prefix = options.get("prefix", "sabir")
        self._replicas = int(options.get("replicas", "1"))
        self._max_bytes = int(options.get("max_bytes", "-1"))
        self._credentials = options.get("credentials")
        self._instance = ""  # created on opening: a forked process needs its own
        self.client = QuickClient(self.limits.behind_bytes)
        self._js = self.client.jetstream()
        self._outboxes: dict[str, Outbox] = {}
        self._seen: dict[str, Seen] = {}
        self._receivers: set[NatsReceiver | _Serving] = set()
        self._closing = False
        self._lost_at: float | None = None  # when the connection was lost, while it is
        self._posted: dict[str, list[Packet]] = {}
        self._posted_bytes = 0
        self._writer: asyncio.Task[None] | None = None  # while posted packets have to wait
        self._calls = Calls(self._instance, self, self.limits)

    # -- connection -------------------------------------------------------------------------------

    async def open(self) -> None:
        """Connect and create the streams.

        Raises:
            BusUnavailable: no server answers.
            ConfigError: the server rejects the credentials in the address, or has no JetStream.
        """
        self._instance = self._calls.instance = uuid4().hex
        async with translate_errors():
            await self._connect()
            try:
                await self._make_streams()
            except ServiceUnavailableError as away:
                if away.err_code in _NO_JETSTREAM:
                    raise ConfigError("bus: the NATS server has no JetStream; start it with -js") from None
                raise
            await self.client.listen(f"{self.prefix}.back.{self._instance}.*", self._came, status=self._nobody)

    async def _connect(self) -> None:
        # The client retries by itself and then only reports a timeout. A server that rejects the login will do so
        # again, and its reason does not always arrive before the connection ends.
        refused = 0

        async def note(exc: Exception) -> None:
            nonlocal refused
            logger.debug("NATS: %s", type(exc).__name__)
            if not self.client.is_connected and "authorization" in str(exc).lower():
                refused += 1
                if refused == len(self._servers) and not limit.expired():
                    # A moment later: first the client has to drop this connection.
                    limit.reschedule(asyncio.get_running_loop().time() + 0.3)

        try:
            async with asyncio.timeout(self.limits.connect_seconds) as limit:
                await self.client.connect(
                    self._servers,
                    name=f"{self.prefix} {self._instance[:8]}",
                    error_cb=note,
                    disconnected_cb=self._disconnected,
                    reconnected_cb=self._reconnected,
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=1,
                    reconnect_to_server_handler=self._next_server,
                    ping_interval=self.limits.ping_seconds,
                    user_credentials=self._credentials,
                )
        except TimeoutError:
            if refused:
                raise ConfigError("bus: NATS rejects the login in its address") from None
            raise BusUnavailable(f"no NATS server answers at {self._hosts}") from None

    @property
    def _hosts(self) -> str:
        """Its address for the log, without user names and passwords."""
        return ", ".join(server.rpartition("@")[2].rpartition("/")[2] for server in self._servers)

    async def close(self) -> None:
        self._closing = True
        for receiver in list(self._receivers):
            await receiver.stop()
        await self._calls.close()
        if self._writer is not None:
            await asyncio.wait([self._writer], timeout=self.limits.stop_seconds)
        if not self.client.is_closed:
            for goodbye in (partial(self.client.flush, timeout=1), self.client.close):
                # An unavailable server cannot be notified; uvloop raises RuntimeError then, nats-py AssertionError.
                with suppress(nats.errors.Error, TimeoutError, OSError, RuntimeError, AssertionError):
                    async with asyncio.timeout(self.limits.stop_seconds):
                        await goodbye()

    async def ping(self) -> None:
        if not self.client.is_connected:
            raise BusUnavailable("NATS is not connected")
        async with translate_errors():
            await self.client.flush(timeout=2)

    @property
    def up(self) -> bool:
        return self.client.is_connected

    def load(self) -> Load:
        in_hand = sum(receiver.in_hand for receiver in self._receivers if isinstance(receiver, NatsReceiver))
        sending = sum(outbox.waiting for outbox in self._outboxes.values())
        return Load(in_hand, sending, self._calls.made, self._calls.served)

    async def _make_streams(self) -> None:
        for kind, retention in RETENTION.items():
            config = api.StreamConfig(
                name=self._stream(kind),
                subjects=[f"{self.prefix}.{kind}.*"],
                retention=retention,
                discard=api.DiscardPolicy.NEW,  # a full stream rejects new letters; it never drops acknowledged ones
                storage=api.StorageType.FILE,
                num_replicas=self._replicas,
                max_age=self.limits.keep_seconds,
                max_bytes=self._max_bytes,
                duplicate_window=min(self.limits.duplicate_seconds, self.limits.keep_seconds),
            )
            try:
                await self._js.add_stream(config)
            except BadRequestError:  # it exists with other settings
                await self._js.update_stream(config)

    def _next_server(self, servers: list[NatsServer], info: dict[str, Any]) -> tuple[NatsServer | None, float]:
        """The server that failed least, after a wait that doubles, with jitter."""
        chosen = min(servers, key=lambda server: server.reconnects)
        first, longest = self.limits.reconnect_seconds
        return chosen, min(longest, first * 2 ** min(chosen.reconnects, 16)) * random.uniform(0.5, 1.0)

    async def _disconnected(self) -> None:
        if self._lost_at is None and not self._closing and self.client.is_reconnecting:
            self._lost_at = time.monotonic()
            logger.warning(
                "NATS at %s is unavailable; agents on other nodes cannot be reached until it is back", self._hosts
            )

    async def _reconnected(self) -> None:
        lost, self._lost_at = self._lost_at, None
        seconds = 0.0 if lost is None else time.monotonic() - lost
        logger.info("NATS at %s connected again after %.1f s", self._hosts, seconds)
        for receiver in self._receivers:
            if isinstance(receiver, NatsReceiver):
                receiver.pull_again()
        await self._calls.reconnected()

    def _stream(self, kind: str) -> str:
        return f"{_token(self.prefix)}_{kind}"

    def _subject(self, kind: str, name: str) -> str:
        return f"{self.prefix}.{kind}.{_token(name)}"

    # -- letters ----------------------------------------------------------------------------------

    async def send(self, *letters: Letter) -> None:
        await self._put("inbox", letters)

    async def publish(self, *letters: Letter) -> None:
        await self._put("group", letters)

    async def _put(self, kind: str, letters: tuple[Letter, ...]) -> None:
        places: dict[str, list[tuple[bytes, str]]] = {}
        for letter in letters:
            subject = self._subject(kind, check_name(letter.to))
            places.setdefault(subject, []).append((packed(letter, self.limits), letter.id))
        waits = [self._outbox(subject).put(packs) for subject, packs in places.items()]
        if len(waits) == 1:
            await waits[0]
        else:
            await asyncio.gather(*waits)

    def _outbox(self, subject: str) -> Outbox:
        outbox = self._outboxes.get(subject)
        if outbox is None:
            if len(self._outboxes) > 1024:
                self._outboxes = {key: box for key, box in self._outboxes.items() if not box.empty}
            outbox = self._outboxes[subject] = Outbox(
                lambda data, letter_id: self._keep(subject, data, letter_id), self.limits
            )
        return outbox

    async def _keep(self, subject: str, data: bytes, letter_id: str) -> None:
        """Publish until the server has stored it, or the time is over; the id prevents duplicates on a retry."""
        loop = asyncio.get_running_loop()
        end, pause = loop.time() + self.limits.send_seconds, 0.05
        while True:
            try:
                await self._js.publish(
                    subject, data, timeout=self.limits.reply_seconds, headers={"Nats-Msg-Id": letter_id}
                )
                return
            except NoStreamResponseError:
                with suppress(nats.errors.Error, TimeoutError):
                    await self._make_streams()
            except APIError as refused:
                if refused.code != 503 or refused.err_code == _STORE_FAILED:
                    raise BusUnavailable(f"NATS rejected it: {refused.description}") from None
            except (TimeoutError, OSError, nats.errors.Error) as away:
                if self.client.is_closed:
                    raise BusUnavailable("the bus is closed") from away
            if loop.time() + pause > end:
                raise BusUnavailable("NATS does not answer; the letter was not sent")
            await asyncio.sleep(pause)
            pause = min(pause * 2, 1.0)

    async def receive(self, name: str, handler: Handler, receiving: Receiving = DEFAULT) -> LetterReceiver:
        return await self._receive("inbox", check_name(name), "", handler, receiving)

    async def join(self, group: str, member: str, handler: Handler, receiving: Receiving = DEFAULT) -> LetterReceiver:
        return await self._receive("group", check_name(group), check_name(member), handler, receiving)

    async def _receive(
        self, kind: str, name: str, member: str, handler: Handler, receiving: Receiving
    ) -> LetterReceiver:
        durable = _durable(name, member)
        config = api.ConsumerConfig(
            durable_name=durable,
            filter_subject=self._subject(kind, name),
            # A work queue must be read from its start; a new group member gets letters from now on.
            deliver_policy=api.DeliverPolicy.NEW if member else api.DeliverPolicy.ALL,
            ack_policy=api.AckPolicy.EXPLICIT,
            ack_wait=self.limits.ack_seconds,
            max_deliver=-1,
            max_ack_pending=1 if receiving.ordered else self.limits.in_hand,
            inactive_threshold=receiving.idle_seconds if member else None,
        )
        stream = self._stream(kind)
        async with translate_errors():
            await self._js.add_consumer(stream, config)
            seen = self._seen.setdefault(f"{kind} {durable}", Seen(self.limits.seen))
            delivery = Delivery(
                name, handler, receiving, self.limits, seen=seen, store_dead=self._store_dead, member=member
            )
            receiver = NatsReceiver(
                self.client,
                stream,
                durable,
                delivery,
                ordered=receiving.ordered,
                limits=self.limits,
                store_dead=self._store_dead,
                gone=self.gone,
            )
            self._receivers.add(receiver)
            await receiver.start()
        return receiver

    async def waiting(self, name: str) -> int:
        async with translate_errors():
            try:
                found = await self._js.stream_info(self._stream("inbox"), subjects_filter=self._subject("inbox", name))
            except NotFoundError:
                return 0
        return sum((found.state.subjects or {}).values())

    async def discard(self, name: str) -> None:
        async with translate_errors():
            with suppress(NotFoundError):
                await self._js.delete_consumer(self._stream("inbox"), _durable(name, ""))
            await self._js.purge_stream(self._stream("inbox"), subject=self._subject("inbox", name))

    async def leave(self, group: str, member: str) -> None:
        async with translate_errors():
            with suppress(NotFoundError):
                await self._js.delete_consumer(self._stream("group"), _durable(group, member))

    def gone(self, receiver: NatsReceiver | _Serving) -> bool:
        """Remove a receiver; returns whether it was known."""
        known = receiver in self._receivers
        self._receivers.discard(receiver)
        return known

    async def remove(self, kind: str) -> None:
        """Delete a stream (``inbox``, ``group`` or ``dead``) with its content."""
        async with translate_errors():
            with suppress(NotFoundError):
                await self._js.delete_stream(self._stream(kind))

    # -- dead letters -----------------------------------------------------------------------------

    async def _store_dead(self, dead: DeadLetter, key: int) -> None:
        # The frame's number is part of the id, so that a replayed letter can die again.
        await self._keep(self._subject("dead", dead.letter.to), encode_dead(dead), f"dead {key} {dead.letter.id}")

    async def dead(self, name: str, limit: int = 100) -> list[DeadLetter]:
        found: list[DeadLetter] = []
        async with translate_errors():
            number = 0
            while len(found) < limit:
                try:
                    message = await self._js.get_msg(
                        self._stream("dead"), seq=number + 1, subject=self._subject("dead", name), next=True
                    )
                except NotFoundError:
                    break
                number = message.seq or 0
                found.append(msgspec.structs.replace(decode_dead(message.data or b""), number=number))
        return found

    async def dead_letter_counts(self) -> dict[str, int]:
        async with translate_errors():
            try:
                found = await self._js.stream_info(self._stream("dead"), subjects_filter=f"{self.prefix}.dead.*")
            except NotFoundError:
                return {}
        subjects = found.state.subjects or {}
        return {_name(subject.rpartition(".")[2]): subjects[subject] for subject in sorted(subjects)}

    async def replay(self, name: str, *numbers: int) -> int:
        chosen = await self._chosen(name, numbers)
        for dead in chosen:
            letter = msgspec.structs.replace(dead.letter, only=dead.member)
            subject = self._subject("group" if dead.member else "inbox", name)
            await self._keep(subject, frame([packed(letter, self.limits)]), f"again {dead.number} {letter.id}")
            await self._remove_dead(dead)
        return len(chosen)

    async def discard_dead(self, name: str, *numbers: int) -> int:
        chosen = await self._chosen(name, numbers)
        for dead in chosen:
            await self._remove_dead(dead)
        return len(chosen)

    async def _chosen(self, name: str, numbers: tuple[int, ...]) -> list[DeadLetter]:
        return [dead for dead in await self.dead(name, limit=100_000) if not numbers or dead.number in numbers]

    async def _remove_dead(self, dead: DeadLetter) -> None:
        async with translate_errors():
            with suppress(NotFoundError):
                await self._js.delete_msg(self._stream("dead"), dead.number)

    # -- calls ------------------------------------------------------------------------------------

    def call(
        self,
        name: str,
        body: bytes,
        *,
        headers: Mapping[str, str] | None = None,
        seconds: float | None = None,
    ) -> BusCalling:
        return self._calls.call(check_name(name), body, headers, seconds)

    async def serve(self, name: str, server: Server) -> LetterReceiver:
        check_name(name)

        def came(data: bytes) -> None:
            for opening in _readable(data):
                self._calls.open(name, opening, server)

        async with translate_errors():
            subscription = await self.client.listen(self._subject("call", name), came, queue="servers")
            await self.client.flush(timeout=2)  # the server knows of it when this returns
        serving = _Serving(self, subscription)
        self._receivers.add(serving)
        return serving

    async def unlisten(self, subscription: Subscription) -> None:
        with suppress(nats.errors.Error):
            await self.client.unlisten(subscription)

    def ask(self, name: str, opening: Packet) -> Awaitable[None] | None:
        subject, data, reply = self._subject("call", name), encode_packets((opening,)), self._back(opening.call)
        if self.client.put(subject, data, reply):
            return None
        if not self.client.is_connected:  # fail at once: a question is not worth queueing
            raise BusUnavailable("the bus is closed" if self.client.is_closed else "NATS is not connected")
        return self._publish(subject, data, reply)

    def back(self, instance: str, packet: Packet, *, more: bool) -> Awaitable[None] | None:
        """Send a packet; packets posted in one pass to one node leave in one publish."""
        if self.client.is_closed:
            raise BusUnavailable("the bus is closed")
        subject = self._back("0", instance)
        alone = not more and not self._posted and self._writer is None  # the usual case
        if alone and self.client.put(subject, encode_packets((packet,))):
            return None
        self._posted.setdefault(subject, []).append(packet)
        self._posted_bytes += len(packet.body)
        if more and self._posted_bytes <= self.limits.frame_bytes:
            return None
        return None if self._write_now() else self._written()

    def _back(self, call: str, instance: str = "") -> str:
        """The subject of packets for a node; its last token is the call, which a 503 of the server refers to."""
        return f"{self.prefix}.back.{instance or self._instance}.{call}"

    def _write_now(self) -> bool:
        """Write packets posted to one node now, if that needs no waiting."""
        if len(self._posted) != 1 or self._posted_bytes > self.limits.frame_bytes or self._writer is not None:
            return False
        ((subject, packets),) = self._posted.items()
        if not self.client.put(subject, encode_packets(packets)):
            return False
        self._posted, self._posted_bytes = {}, 0
        return True

    def _written(self) -> Awaitable[None]:
        """Write all posted packets in order; cancelling one waiter does not affect the others."""
        if self._writer is None:
            self._writer = asyncio.create_task(self._write(), name="calls of the bus")
        return asyncio.shield(self._writer)

    async def _write(self) -> None:
        try:
            while self._posted:
                posted, size = self._posted, self._posted_bytes
                self._posted, self._posted_bytes = {}, 0
                fits = size <= self.limits.frame_bytes
                for subject, packets in posted.items():
                    for data in (encode_packets(packets),) if fits else _grouped(packets, self.limits):
                        await self._publish(subject, data)
        finally:
            self._writer = None

    async def _publish(self, subject: str, data: bytes, reply: str = "") -> None:
        if self.client.put(subject, data, reply):
            return
        try:
            await self.client.publish(subject, data, reply=reply)
        except (OSError, nats.errors.Error) as away:
            # Both sides notice: by the missing number, or by missing keep-alives.
            logger.warning("Packets of calls were lost: %s", type(away).__name__)

    def _came(self, data: bytes) -> None:
        for packet in _readable(data):
            self._calls.arrived(packet)

    def _nobody(self, subject: bytes) -> None:
        self._calls.nobody(subject.decode().rpartition(".")[2])


class _Serving:
    """A subscription to the calls of a name."""

    def __init__(self, bus: NatsBus, subscription: Subscription) -> None:
        self._bus = bus
        self._subscription = subscription

    async def stop(self) -> None:
        if self._bus.gone(self):
            await self._bus.unlisten(self._subscription)


def _parsed(address: str) -> tuple[list[str], dict[str, str]]:
    """The servers and options of an address.

    Raises:
        ConfigError: unknown option.
    """
    url = urlsplit(address)
    options = {key: values[-1] for key, values in parse_qs(url.query).items()}
    unknown = sorted(set(options) - _OPTIONS)
    if unknown:
        raise ConfigError(
            f"bus: {unknown[0]!r} is not an option of a NATS address; known: {', '.join(sorted(_OPTIONS))}"
        )
    if not options.get("replicas", "1").isdecimal():
        raise ConfigError("bus: replicas: expected a number")
    return [f"{url.scheme}://{host}" for host in url.netloc.split(",")], options


def _readable(data: bytes) -> tuple[Packet, ...]:
    """The packets of a publish; an unreadable one is dropped, as if it had been lost."""
    try:
        return decode_packets(data)
    except Unreadable:
        return ()


def _grouped(packets: list[Packet], limits: BusLimits) -> Iterator[bytes]:
    """Group packets into publishes."""
    start = size = 0
    for at, packet in enumerate(packets):
        if size + len(packet.body) > limits.frame_bytes and at > start:
            yield encode_packets(packets[start:at])
            start, size = at, 0
        size += len(packet.body)
    yield encode_packets(packets[start:])


@lru_cache(maxsize=4096)
def _token(name: str) -> str:
    """A name as one token of a subject, and as part of a stream's or consumer's name."""
    return "".join(
        c if c.isascii() and (c.isalnum() or c in "_-") else "".join(f"={b:02X}" for b in c.encode()) for c in name
    )


def _name(token: str) -> str:
    """The inverse of ``_token``."""
    return unquote(token.replace("=", "%"))


def _durable(name: str, member: str) -> str:
    return f"{_token(name)}={_token(member)}" if member else _token(name)
