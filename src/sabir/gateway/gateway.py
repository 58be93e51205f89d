"""Gateway: doors, exchange and store as one ASGI application with one lifespan.

    Gateway(echo).run()

``Gateway`` is also the ASGI application itself, for any server that speaks ASGI.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Self, Unpack

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from sabir.agent import Agent
from sabir.agents.concierge import Concierge, Reader
from sabir.agents.control.intents import infer_control, load_phrases
from sabir.agents.group import with_listed_groups
from sabir.agents.multicast import GroupDoor
from sabir.aio import cancel_and_wait
from sabir.bus import open_bus
from sabir.cluster.directory import NAME_SECONDS, Directory
from sabir.cluster.door import BusDoor
from sabir.errors import ConfigError, MissingExtra, NotFound, SabirError, StoreUnavailable, for_operator
from sabir.exchange.conversations import Conversations
from sabir.exchange.exchange import Exchange
from sabir.exchange.journal import StoreJournal
from sabir.federation.directory_acl import search_gateways
from sabir.federation.gateways import RemoteGateways
from sabir.guard import Quotas, Seal, keys_from
from sabir.guard.agreements import Agreements, policies_of
from sabir.guard.audit.log import retain
from sabir.guard.build import GuardSettings, build_guard
from sabir.guard.ecma434 import Running, SecuritySettings, report, require
from sabir.guard.secret_check import Fingerprints
from sabir.http.door import Door, Follows, GatewayServices, MakeDoor, Publishes
from sabir.ids import new_id
from sabir.message import JSON
from sabir.observe.settings import ObserveSettings
from sabir.observe.traces import observer_of
from sabir.private_files import open_to_others
from sabir.protocols import registry
from sabir.protocols.nlip.peer.base import NlipPeer
from sabir.protocols.nlip.peer.token_store import KeptTokens
from sabir.protocols.nlip.wire.envelope import EnvelopeOptions
from sabir.protocols.peer import Peer
from sabir.protocols.protocol import DoorEntry, Protocol, load
from sabir.protocols.registry import reserved_names
from sabir.server.server import EmbeddedServer, SideServer, bind, check_exposure, serve, uvicorn_config
from sabir.server.settings import WRONG_USE, Serving, from_environment, print_in_one_line, set_log_level
from sabir.server.tls import check_tls
from sabir.statements import statement
from sabir.stores.clock import CautiousClock
from sabir.stores.sealing import check_key
from sabir.tasks import Tasks
from sabir.turn import Caller

from .access_log import AccessLog
from .app import GatewayApp
from .banner import EVERYWHERE, Announcement, announcement, url_of
from .checks import check_door_names, companions_of, named_agents
from .collecting import collect
from .endpoints.health import Health
from .endpoints.metrics import MetricsDoor
from .endpoints.oauth_metadata import ProtectedResource
from .endpoints.playground import Playground
from .endpoints.well_known import WellKnown
from .forwarding import ForwardedConcierge, ForwardedServices, ForwardedUploads, Forwarding
from .mounting import Mounting
from .options import GatewayOptions, OptionNames, store_of

logger = logging.getLogger("sabir")

OPERATE: Final = (
    "sabir.web.operate:OperateDoor"  # by name: it runs the conformance suites, which are layered above the gateway
)
SWEEP_SECONDS: Final = 60.0


class Gateway:
    """Agents behind every door."""

    def __init__(self, *agents: Agent, options: GatewayOptions | None = None, **named: Unpack[OptionNames]) -> None:
        """Put agents behind every door.

        Args:
            agents: the agents; the first is the default unless ``default`` names another.
            options: everything else, as one value.
            named: single options by name, which override those of ``options``.

        Raises:
            ConfigError: two agents have one name, or an option is invalid.
            MissingExtra: an option needs an extra that is not installed.
        """
        options = self.options = replace(options or GatewayOptions(), **named)
        self.agents = named_agents(with_listed_groups(agents, options.doors))
        self.default = options.default or next(iter(self.agents))
        if self.default not in self.agents:
            raise ConfigError(f"default: there is no agent {self.default!r}; choose from {', '.join(self.agents)}")
        self.home = Path(options.home or os.environ.get("SABIR_HOME") or ".sabir")
        self.serving = options.serving or Serving(home=str(self.home), max_message=options.limits.body)
        self.public_url = options.public_url or url_of(self.serving)
        self.store = store_of(options, self.home)
        self.bus = open_bus(options.bus, store=self.store) if isinstance(options.bus, str) else options.bus
        self.node = options.node or new_id()[:12]
        self._born = os.getpid()
        self.security = options.security or SecuritySettings()
        seal = self._build_guard(options)
        self.exchange = self._build_exchange(options)
        self.tasks = Tasks(self.exchange, self.store, node=self.node, settings=options.tasks)
        self.directory = Directory(self.store, self.bus, node=self.node, name_seconds=NAME_SECONDS)
        self.services = self._build_context(options)
        self.exchange.concierge = self._concierge(options.control_reader)
        self.exchange.infer = infer_control if options.infer_control else None
        if options.infer_control:
            load_phrases()  # every message will be read
        self.absent: list[str] = []  # doors that are unavailable, and why
        self.doors = self.services.doors = self._doors(options.extra_doors)
        self._front = GatewayApp(
            self.doors, self.serving, options.hosts, options.origins, self._lifespan, self.services
        )
        self.services.with_checks = self._front.front.before
        self._mounting = Mounting(self._front, self.public_url)
        self._beside = companions_of(options.beside)
        self._introduce(agents)
        self.remote_gateways = self._build_gateways(options, seal)
        self.services.search_gateways = partial(search_gateways, self.remote_gateways)
        self._open = AsyncExitStack()
        self._embedded = AsyncExitStack()  # the server, while ``async with`` runs one
        self._misconfigured = False  # whether it could not start because of its settings
        self._sweeping: asyncio.Task[None] | None = None
        self._meeting: asyncio.Task[None] | None = None

    # -- building ---------------------------------------------------------------------------------

    def _build_guard(self, options: GatewayOptions) -> Seal:
        settings = options.guard or GuardSettings(quotas=options.quotas or Quotas())
        keys = keys_from(self.home, options.secrets)
        seal = Seal(*keys)
        self._fingerprints = Fingerprints(self.store, new_id(), keys)
        if warning := open_to_others(self.home, self._kept_in()):
            logger.warning("home: %s", warning)
        proxied = self.serving.behind_tls_proxy
        self.guarded = build_guard(settings, self.store, seal, public_url=self.public_url, behind_proxy=proxied)
        self.guard = self.guarded.guard.with_hooks(options.identity, options.rights, options.filters)
        self._audit_days = settings.audit.days
        self.facts: dict[str, Any] = {
            "ethics": statement("ethics"),
            "report": self.security_report,
            "gateway": seal.pseudonym("gateway", ""),  # the same on all nodes that share our secrets
            **(options.facts or {}),
        }
        return seal

    def _build_exchange(self, options: GatewayOptions) -> Exchange:
        conversations = Conversations(self.store, self.guard.seal, self.guard.quotas)
        self.uploads = ForwardedUploads(self.home, self.store, self.guard.seal, options.uploads)
        exchange = Exchange(self.agents, self.default, self.store, self.guard, conversations)
        exchange.attachments = self.uploads
        exchange.agreements = Agreements(policies_of(self.facts))
        exchange.journal = StoreJournal(self.store)
        observe = options.observe
        if observe is not None and (observe.metrics or observe.traces):
            try:
                exchange.observer = observer_of(observe)
            except ImportError as exc:
                raise MissingExtra("observe.traces", "observe") from exc
        return exchange

    def _build_context(self, options: GatewayOptions) -> GatewayServices:
        settings = {MetricsDoor.name: options.observe or ObserveSettings(), **(options.doors or {})}
        return ForwardedServices(
            self.exchange,
            self.tasks,
            self.store,
            self.guard,
            options.limits,
            self.home,
            self.uploads,
            self.public_url,
            settings,
            self.facts,
            self.serving.behind_tls_proxy,
            self.guarded,
            bus=self.bus,
            make_server=SideServer,
            envelope=options.envelope or EnvelopeOptions(),
        )

    def _build_gateways(self, options: GatewayOptions, seal: Seal) -> RemoteGateways:
        known_as = self.facts["gateway"]
        gateways = RemoteGateways(options.gateways or {}, self.agents, self._agents_changed, known_as, reserved_names())
        gateways.attach(self.guarded.outgoing, self.store, seal)
        if self.exchange.observer is not None:
            gateways.show(self.exchange.observer.metrics)
        return gateways

    def _kept_in(self) -> list[Path]:
        """The files of the store, if it is SQLite."""
        path = getattr(self.store, "path", None)
        return [path.with_name(path.name + end) for end in ("", "-wal", "-shm")] if isinstance(path, Path) else []

    def _introduce(self, agents: Iterable[Agent]) -> None:
        """Give peers our credentials, and a place to keep the tokens they receive."""
        for item in (*agents, *self._beside):
            if isinstance(item, Peer):
                item.outgoing = self.guarded.outgoing
            if isinstance(item, NlipPeer):
                item.kept = KeptTokens(self.store, self.guard.seal)

    def _concierge(self, reader: Reader | None) -> Concierge:
        services = ForwardedConcierge(
            cards=self.services.cards,
            limits=self.services.limits,
            quotas=self.guard.quotas,
            store=self.store,
            conversations=self.exchange.conversations,
            facts=self.facts,
            public_url=self.public_url,
            uploads=self.uploads,
            agents=self.services.usable,
            cancel=self._cancel_in,
            erase=self._erase,
            passes=self.guarded.passes,
            remaining=self.guard.remaining,
            check=lambda caller, door: self.guard.rights.check_any(caller, self.agents, door),
            reader=reader,
        )
        return Concierge(services)

    def security_report(self) -> dict[str, Any]:
        """The ECMA-434 profile that holds, given the hooks that run (SEC-C)."""
        quotas = self.guard.quotas
        running = Running(
            guard=self.guard,
            encrypted=self.serving.tls.is_on or self.serving.behind_tls_proxy,
            ethics=bool(statement("ethics")),
            disclosure=bool(statement("security")),
            retention=0 < quotas.conversation_seconds < float("inf"),
            limited=0 < quotas.turn_seconds < float("inf"),
            throttled=quotas.rate_per_address is None or 0 < quotas.rate_per_address < float("inf"),
        )
        return report(running)

    async def _erase(self, conversation: str, caller: Caller) -> None:
        """Remove what belongs to a conversation besides its turns: tasks and uploads."""
        await self.tasks.erase(conversation, caller)
        await self.uploads.erase(conversation, caller)

    async def _cancel_in(self, conversation: str) -> bool:
        """Cancel whatever a conversation runs or waits on; returns whether there was anything."""
        exchange = self.exchange
        return exchange.timer.pop_cancelled(conversation) or await exchange.waits.cancel_in(conversation)

    def _doors(self, extra: Iterable[MakeDoor]) -> list[Door]:
        """The doors in matching order: NLIP over HTTP last, because it takes all paths below /nlip/."""
        off = {name for name, settings in self.services.settings.items() if settings is False}
        makers: list[MakeDoor] = [
            Health,
            WellKnown,
            MetricsDoor,
            ProtectedResource,
            Playground,
            load(OPERATE, "the page"),
            *extra,
        ]
        if (bus := self.bus) is not None:
            makers.append(lambda services: BusDoor(services, bus, self.directory, self.agents))
            makers.append(lambda services: GroupDoor(services, bus))
        for protocol in reversed(list(registry.protocols().values())):
            for entry in reversed(protocol.doors):
                if entry.name not in off:  # the modules of a closed door are not imported
                    makers += self._maker(protocol, entry)
        doors = [make(self.services) for make in makers]
        check_door_names(self.services.settings, {door.name for door in doors})
        return [door for door in doors if door.name not in off]

    def _maker(self, protocol: Protocol, entry: DoorEntry) -> list[MakeDoor]:
        """The factory of a door; None if its extra is not installed, which the banner reports."""
        try:
            return [load(entry.factory, f"{protocol.title} (door {entry.name})", entry.extra)]
        except MissingExtra as exc:
            if entry.name in self.services.settings:
                raise  # it was configured, so the extra is required
            if not entry.optional:
                self.absent.append(str(exc))
            return []

    # -- ASGI -------------------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._mounting(scope, receive, send)

    @asynccontextmanager
    async def lifespan(self, app: object = None) -> AsyncIterator[None]:
        """Run the gateway as part of an application that mounts it: ``FastAPI(lifespan=gateway.lifespan)``."""
        await self.start()
        try:
            yield
        finally:
            await self.stop()

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self.start()
        except SabirError as exc:
            self._misconfigured = isinstance(exc, ConfigError)
            await send({"type": "lifespan.startup.failed", "message": for_operator(exc)})
            return
        except OSError as exc:  # a full disk, a folder without permission
            words = f"{exc.filename}: {exc.strerror}" if exc.filename and exc.strerror else str(exc)
            await send({"type": "lifespan.startup.failed", "message": words})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.stop()
        logger.info("Stopped")
        await send({"type": "lifespan.shutdown.complete"})

    async def _see_out(self, seconds: float) -> bool:
        """The first step of shutting down."""
        running = self.exchange.running
        turns = f"{running} running {'turn' if running == 1 else 'turns'}"
        logger.info("Stopping; %s", f"waiting up to {seconds:g} s for {turns}" if running else "no turn is running")
        return await self.exchange.close(seconds)

    async def start(self) -> None:
        """Open the store and the doors.

        Raises:
            StoreUnavailable: the store does not answer.
        """
        if os.getpid() != self._born:  # a forked worker is a separate node
            self.node = self.tasks.node = self.directory.node = f"{self.node}.{os.getpid()}"
        if self.exchange.observer is not None:
            self.exchange.observer.open(self.node)
        try:
            await self._start()
        except BaseException:
            await self.stop()  # close what was opened, and release leases
            raise

    async def _start(self) -> None:
        await self.store.open()
        await check_key(self.store)
        await self._fingerprints.check()
        for item in self._beside:
            await self._open.enter_async_context(item)
        peers = [agent for agent in self.agents.values() if isinstance(agent, Peer)]
        for peer in peers:
            await self._open.enter_async_context(peer)
        await self.tasks.open()
        for door in self.doors:
            await door.start()
        await self.remote_gateways.start()
        await self.tasks.start()  # last: a node takes queued tasks only when it can finish them
        self._sweeping = asyncio.create_task(self._sweep(), name="sweeping")
        self._meeting = asyncio.create_task(_meet(peers), name="meeting")

    async def stop(self) -> None:
        """Let running turns finish, then close everything; one failure to close does not stop the rest."""
        await self.exchange.close(self.serving.graceful_seconds)
        await cancel_and_wait([self._sweeping, self._meeting])
        closing: list[Callable[[], Awaitable[object]]] = [
            self.remote_gateways.stop,
            *(door.stop for door in reversed(self.doors)),
            self.tasks.close,
            self._open.aclose,
            self._keep_audit,
            self.guard.notes.close,
            self.guarded.close,
        ]
        if self.exchange.observer is not None:
            closing.append(partial(asyncio.to_thread, self.exchange.observer.close))
        for close in (*closing, self.store.close):
            try:
                await close()
            except Exception:
                logger.exception("%s failed to close", getattr(close, "__qualname__", "traces"))

    async def _agents_changed(self) -> None:
        """Notify doors that agents were added, removed or changed."""
        for door in self.doors:
            if isinstance(door, Follows):
                await door.agents_changed()

    async def notify(self, agent: str, topic: str, event: JSON, *, key: str = "") -> int:
        """Send an event to the subscribers of an agent's topic over ACL or NLIP; returns how many there are.

        ``key`` identifies the event: if several nodes publish it, each subscriber gets it once.

        Raises:
            NotFound: there is no such agent, or its card does not publish the topic.
        """
        found = self.agents.get(agent)
        if found is None or topic not in found.card.publishes:
            raise NotFound(f"{agent} does not publish {topic!r}")
        key = key or new_id()
        reached = await self.services.topics.add(agent, topic, event, key)
        doors = [door for door in self.doors if isinstance(door, Publishes)]
        return reached + sum([await door.publish(agent, topic, event, key) for door in doors])

    async def _sweep(self) -> None:
        """Remove expired data periodically."""
        now = CautiousClock()
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            try:
                await self.store.sweep(now())
                self.exchange.conversations.forget_counts()
                await self._fingerprints.renew()
                if self._audit_days is not None:
                    await retain(self.store, self._audit_days)
            except SabirError as exc:
                if not (isinstance(exc, StoreUnavailable) and exc.detail):  # otherwise the store has logged it
                    logger.warning("could not sweep: %s", exc)
            await self._keep_audit()

    async def _keep_audit(self) -> None:
        """Write down the refusals that were counted instead of logged one by one."""
        with suppress(SabirError):
            for line in self.guard.trail.left_out():
                await self.store.audit(line)

    # -- serving ----------------------------------------------------------------------------------

    def run(
        self,
        host: str | None = None,
        port: int | None = None,
        *,
        workers: int | None = None,
        say: Callable[[str], None] | None = None,
        sock: socket.socket | None = None,
        log_level: str | None = None,
        on_ready: Callable[[Announcement], object] | None = None,
    ) -> int:
        """Serve until SIGINT or SIGTERM; returns the exit code.

        Args:
            host: the address to listen on; None: SABIR_HOST, or 127.0.0.1.
            port: the port to listen on, 0 for any free one; None: SABIR_PORT, or 8080.
            workers: how many processes serve.
            say: prints the lines of the banner.
            on_ready: called with the banner as a value, instead of ``say``.
            sock: a socket that is already listening, instead of host and port.
            log_level: ``debug``, ``info``, ``warning`` or ``error``; None: SABIR_LOG__LEVEL, or the existing logging
            setup.

        Raises:
            ConfigError: the address cannot be used, or would serve plain HTTP to the network. If uncaught, the script
            ends with one line and exit code 2.
        """
        if collect(self):  # `sabir dev` and `sabir serve` read the script, and serve the gateway themselves
            return 0
        try:
            given = {"host": host, "port": port, "workers": workers}
            overrides = {name: value for name, value in given.items() if value is not None}
            set_log_level(log_level)
            announce = on_ready or partial(_announce, say or _say)
            return self._run(from_environment() if self.options.serving is None else {}, overrides, announce, sock)
        except ConfigError as exc:
            print_in_one_line(exc)
            raise

    def _run(
        self,
        variables: Mapping[str, Any],
        overrides: Mapping[str, Any],
        announce: Callable[[Announcement], object],
        sock: socket.socket | None,
    ) -> int:
        serving, sock = self._listen(msgspec.structs.replace(self.serving, **{**variables, **overrides}), sock)
        ready = partial(announce, self.announcement(serving))
        with ExitStack() as group:
            if (
                serving.workers > 1 and self.exchange.observer is not None
            ):  # then each process reports the metrics of all
                self.services.group = Path(group.enter_context(TemporaryDirectory(prefix="sabir-")))
            code = serve(self._outermost(serving), serving, self._see_out, sock, ready)
        return WRONG_USE if code and self._misconfigured else code

    def _listen(self, serving: Serving, sock: socket.socket | None = None) -> tuple[Serving, socket.socket]:
        """Check that serving is safe with these settings, and listen."""
        check_exposure(serving)
        check_tls(serving)
        require(self.security, self.security_report())
        sock = bind(serving.host, serving.port) if sock is None else sock
        serving = msgspec.structs.replace(serving, port=sock.getsockname()[1])
        if self.public_url == url_of(self.serving):
            self.public_url = self.services.public_url = url_of(serving)
            concierge = self.exchange.concierge
            if isinstance(concierge, Concierge):
                concierge.services.public_url = self.public_url
        if self.options.public_url is None and serving.host in EVERYWHERE and not serving.behind_tls_proxy:
            logger.warning(
                "Cards and links name %s, which other machines cannot reach: set public_url", self.public_url
            )
        self._front.set_allowed_hosts(serving)
        return serving, sock

    async def serve(self, host: str | None = None, port: int | None = None) -> None:
        """Serve in the running event loop until cancelled; for notebooks and programs with other work.

        Raises:
            ConfigError: the address cannot be used, or would serve plain HTTP to the network.
        """
        async with self.serving_at(host, port):
            await asyncio.Event().wait()

    async def __aenter__(self) -> Self:
        await self._embedded.enter_async_context(self.serving_at())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._embedded.aclose()

    @asynccontextmanager
    async def serving_at(self, host: str | None = None, port: int | None = None) -> AsyncIterator[str]:
        """Serve while the block runs; yields the address. ``async with Gateway(…) as gateway`` does the same at
        ``gateway.public_url``.
        """
        given = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
        variables = from_environment() if self.options.serving is None else {}
        serving, sock = self._listen(msgspec.structs.replace(self.serving, **{**variables, **given}))
        server = EmbeddedServer(uvicorn_config(self._outermost(serving), serving))
        task = asyncio.create_task(server.serve(sockets=[sock]), name="serving")
        try:
            await server.answers(task)
            yield self.public_url
        finally:
            await self.exchange.close(self.serving.graceful_seconds)
            server.should_exit = True
            await task

    def _outermost(self, serving: Serving) -> ASGIApp:
        """The application that the server runs: the gateway, wrapped as the settings ask."""
        app: ASGIApp = self._front
        if serving.behind_tls_proxy and self.options.public_url is None:
            app = Forwarding(app, self.services, self.options.hosts)
        return AccessLog(app, behind_proxy=serving.behind_tls_proxy) if serving.access_log else app

    def announcement(self, serving: Serving) -> Announcement:
        """The banner to show once the gateway answers."""
        card = self.agents[self.default].card
        gateways = [(gateway.name, gateway.address) for gateway in self.remote_gateways]
        return announcement(serving, self.public_url, self.agents, card, self.doors, gateways, self.absent)


async def _meet(peers: Sequence[Peer]) -> None:
    """Ask remote agents for their skills, for our cards; does not wait for slow ones."""

    async def one(peer: Peer) -> None:
        try:
            await peer.discover()
        except SabirError as exc:
            logger.info("Could not read the skills of %s: %s", peer.card.name, exc)

    await asyncio.gather(*(one(peer) for peer in peers))


def _say(line: str) -> None:
    print(line, file=sys.stdout, flush=True)


def _announce(say: Callable[[str], None], announced: Announcement) -> None:
    for line in announced.lines():
        say(line)
