"""Gateway: doors, exchange and store as one ASGI application with one lifespan.

    Gateway(echo).run()

``Gateway`` is also the ASGI application itself, for any server that speaks ASGI.
"""

from __future__ import annotations

import asyncio
import difflib
import importlib
import logging
import os
import shlex
import shutil
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec
from starlette.types import Receive, Scope, Send

from .agent import Agent
from .agents.concierge import Concierge, Reader
from .bus import Bus, open_bus
from .conversations import Conversations
from .directory import Directory
from .doors.base import Door, Follows, House, MakeDoor
from .doors.bus import BusDoor
from .doors.health import Health
from .doors.metrics import MetricsDoor
from .doors.nlip_http import NlipHttp
from .doors.nlip_ws import NlipWs
from .doors.nlweb import Nlweb
from .doors.protected import ProtectedResource
from .doors.upload import UploadDoor
from .doors.web import Web
from .doors.well_known import WellKnown
from .ending import end
from .errors import BadSetup, MissingExtra, SabirError, StoreUnavailable, for_operator
from .exchange import Exchange
from .front import Front
from .guard import Filters, Identity, Quotas, Rights, Seal, keys_from
from .guard.agreements import Agreements, policies_of
from .guard.audit import retain
from .guard.fingerprints import Fingerprints
from .guard.profile import Running, SecuritySettings, report, require
from .guard.setup import GuardSettings, guarded
from .home import open_to_others
from .observe import ObserveSettings, observer_of
from .peers.base import Peer
from .peers.gateways import FarGateway, Neighbours
from .peers.kept import KeptTokens
from .peers.nlip import NlipPeer
from .randomness import new_id
from .server import bind, check_exposure, check_tls, serve
from .serving import WRONG_USE, Serving, told_in_a_line, where_told
from .statements import statement
from .stores import Store, open_store
from .stores.clock import CautiousClock
from .tasks import Tasks, TaskSettings
from .turn import Caller
from .uploads import UploadLimits, Uploads
from .wire.rules import LIMITS, Limits

logger = logging.getLogger("sabir")

RESERVED: Final = frozenset({"ws", "tasks", "upload"})  # names that paths of the doors use
SWEEP_SECONDS: Final = 60.0

# Doors that need an extra: the module, its class, and the extra that brings what it imports.
OPTIONAL_DOORS: Final[tuple[tuple[str, str, str], ...]] = (
    ("mcp", "Mcp", "mcp"),
    ("a2a", "A2aDoor", "a2a"),
    ("nlip_amqp", "NlipAmqp", "amqp"),
)


class Gateway:
    """Agents behind every door."""

    def __init__(
        self,
        *agents: Agent,
        default: str | None = None,
        home: Path | str | None = None,
        store: Store | str | None = None,
        bus: Bus | str | None = None,
        node: str = "",
        gateways: Mapping[str, FarGateway | str] | None = None,
        durability: str = "process",
        limits: Limits = LIMITS,
        quotas: Quotas | None = None,
        identity: Identity | None = None,
        rights: Rights | None = None,
        filters: Filters | None = None,
        guard: GuardSettings | None = None,
        observe: ObserveSettings | None = None,
        tasks: TaskSettings | None = None,
        secrets: Sequence[str] | None = None,
        doors: Mapping[str, Any] | None = None,
        extra_doors: Iterable[MakeDoor] = (),
        beside: Iterable[AbstractAsyncContextManager[object]] = (),
        serving: Serving | None = None,
        public_url: str | None = None,
        hosts: Iterable[str] = (),
        origins: Iterable[str] = (),
        facts: Mapping[str, Any] | None = None,
        security: SecuritySettings | None = None,
        uploads: UploadLimits | None = None,
        control_reader: Reader | None = None,
    ) -> None:
        self.agents = _named(agents)
        self.default = default or next(iter(self.agents))
        if self.default not in self.agents:
            raise BadSetup(f"default: there is no agent {self.default!r}; there are {', '.join(self.agents)}")
        self.home = Path(home or os.environ.get("SABIR_HOME") or ".sabir")
        self._told_where = serving is not None  # else SABIR_HOST and SABIR_PORT may tell it
        self.serving = serving or Serving(home=str(self.home), max_message=limits.body)
        self.store = _store(store, self.home, durability)
        self.public_url = public_url or _url(self.serving)
        settings = guard or GuardSettings(quotas=quotas or Quotas())
        keys = keys_from(self.home, secrets)
        seal = Seal(*keys)
        self._fingerprints = Fingerprints(self.store, new_id(), keys)
        if told := open_to_others(self.home, self._kept_in()):
            logger.warning("home: %s", told)
        proxied = self.serving.behind_tls_proxy
        self.guarded = guarded(settings, self.store, seal, public_url=self.public_url, behind_proxy=proxied)
        self.guard = self.guarded.guard.with_hooks(identity, rights, filters)
        self._audit_days = settings.audit.days
        self.facts: dict[str, Any] = {
            "ethics": statement("ethics"),
            "report": self.security_report,
            "gateway": seal.pseudonym("gateway", ""),  # the same on all nodes that share our secrets
            **(facts or {}),
        }
        self.security = security or SecuritySettings()
        conversations = Conversations(self.store, self.guard.seal, self.guard.quotas)
        self.exchange = Exchange(self.agents, self.default, self.store, self.guard, conversations)
        if observe is not None and (observe.metrics or observe.traces):
            try:
                self.exchange.observer = observer_of(observe)
            except ImportError as missing:
                raise MissingExtra("observe.traces", "observe") from missing
        self.bus = open_bus(bus) if isinstance(bus, str) else bus
        self.node, self._born = node or new_id()[:12], os.getpid()
        self.tasks = Tasks(self.exchange, self.store, node=self.node, settings=tasks)
        self.directory = Directory(self.store, self.bus, node=self.node)
        self.house = House(
            self.exchange,
            self.tasks,
            self.store,
            self.guard,
            limits,
            self.home,
            self.public_url,
            {MetricsDoor.name: observe or ObserveSettings(), **(doors or {})},
            self.facts,
            self.serving.behind_tls_proxy,
            self.guarded,
            bus=self.bus,
        )
        self.exchange.attachments = Uploads(self.home, self.store, self.guard.seal, uploads)
        self.exchange.agreements = Agreements(policies_of(self.facts))
        self.exchange.concierge = self._concierge(control_reader)
        self.absent: list[str] = []  # doors that are not there, and why
        self.doors = self.house.doors = self._doors(extra_doors)
        self._front = Front(self.doors, self.serving, hosts, origins, self._lifespan, self.house)
        self._beside = tuple(beside)  # what agents need open while the gateway runs, such as an index
        self._introduce(agents)
        self.neighbours = Neighbours(gateways or {}, self.agents, self._agents_changed, self.facts["gateway"], RESERVED)
        self.neighbours.meet_with(self.guarded.outgoing, self.store, seal)
        if self.exchange.observer is not None:
            self.neighbours.show(self.exchange.observer.metrics)
        self._open = AsyncExitStack()
        self._wrong = False  # whether it could not start for what it was told
        self._sweeping: asyncio.Task[None] | None = None
        self._meeting: asyncio.Task[None] | None = None

    def _kept_in(self) -> list[Path]:
        """The file of the store, if it is one, with those that SQLite keeps beside it."""
        path = getattr(self.store, "path", None)
        return [path.with_name(path.name + end) for end in ("", "-wal", "-shm")] if isinstance(path, Path) else []

    def _introduce(self, agents: Iterable[Agent]) -> None:
        """Give those who call out what they need of us: the identities to show, and a place for what they are told."""
        for each in (*agents, *self._beside):
            if isinstance(each, Peer):
                each.outgoing = self.guarded.outgoing
            if isinstance(each, NlipPeer):
                each.kept = KeptTokens(self.store, self.guard.seal)

    def _concierge(self, reader: Reader | None) -> Concierge:
        return Concierge(
            cards=self.house.cards,
            limits=self.house.limits,
            quotas=self.guard.quotas,
            store=self.store,
            conversations=self.exchange.conversations,
            facts=self.facts,
            public_url=self.public_url,
            uploads=self.exchange.attachments,
            agents=self.house.usable,
            cancel=self._take_back,
            erase=self._erase,
            passes=self.guarded.passes,
            remaining=self.guard.remaining,
            check=lambda caller, door: self.guard.rights.check_any(caller, self.agents, door),
            reader=reader,
        )

    def security_report(self) -> dict[str, Any]:
        """Which ECMA-434 profile holds, from the hooks that run (SEC-C)."""
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
        """Remove what belongs to a conversation beside its turns: its work, and what was uploaded."""
        await self.tasks.erase(conversation, caller)
        await self.exchange.attachments.erase(conversation, caller)

    async def _take_back(self, conversation: str) -> bool:
        """Take back what a conversation waits on; says whether there was anything, waiting or running."""
        exchange = self.exchange
        return exchange.overseer.was_taken_back(conversation) or await exchange.waits.take_back(conversation)

    def _doors(self, extra: Iterable[MakeDoor]) -> list[Door]:
        makers: list[MakeDoor] = [
            Health,
            WellKnown,
            MetricsDoor,
            ProtectedResource,
            NlipWs,
            UploadDoor,
            Web,
            Nlweb,
            *extra,
        ]
        off = {name for name, settings in self.house.settings.items() if settings is False}
        for module, name, what in OPTIONAL_DOORS:
            if module.replace("_", "-") in off:
                continue  # what it imports is not paid for
            try:
                makers.append(getattr(importlib.import_module(f"sabir.doors.{module}"), name))
            except MissingExtra as missing:
                if module != "nlip_amqp" or "nlip-amqp" in self.house.settings:  # without a broker nobody misses it
                    self.absent.append(str(missing))
            except ModuleNotFoundError as missing:
                self.absent.append(str(MissingExtra(f"the door {module} ({missing.name})", what)))
        if (bus := self.bus) is not None:
            makers.append(lambda house: BusDoor(house, bus, self.directory, self.agents))
        makers.append(NlipHttp)  # last, because it answers for everything below /nlip/
        doors = [make(self.house) for make in makers]
        _check_names(self.house.settings, {door.name for door in doors})
        return [door for door in doors if door.name not in off]

    # -- ASGI -------------------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._front(scope, receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self.start()
        except SabirError as wrong:
            self._wrong = isinstance(wrong, BadSetup)
            await send({"type": "lifespan.startup.failed", "message": for_operator(wrong)})
            return
        except OSError as wrong:  # a disk that is full, a folder that is not ours
            words = f"{wrong.filename}: {wrong.strerror}" if wrong.filename and wrong.strerror else str(wrong)
            await send({"type": "lifespan.startup.failed", "message": words})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.stop()
        logger.info("stopped")
        await send({"type": "lifespan.shutdown.complete"})

    async def _see_out(self, seconds: float) -> bool:
        """What happens first when this process is told to stop."""
        running = self.exchange.running
        turns = f"{running} {'turn is' if running == 1 else 'turns are'} waited for, up to {seconds:g} s"
        logger.info("told to stop; %s", turns if running else "no turn is under way")
        return await self.exchange.close(seconds)

    async def start(self) -> None:
        """Open the store and the doors.

        Raises:
            StoreUnavailable: the store does not answer.
        """
        if os.getpid() != self._born:  # a worker that was forked is a node of its own
            self.node = self.tasks.node = self.directory.node = f"{self.node}.{os.getpid()}"
        if self.exchange.observer is not None:
            self.exchange.observer.open(self.node)
        try:
            await self._start()
        except BaseException:
            await self.stop()  # what was opened is closed again, and leases are let go
            raise

    async def _start(self) -> None:
        await self.store.open()
        await self._fingerprints.check()
        for each in self._beside:
            await self._open.enter_async_context(each)
        peers = [each for each in self.agents.values() if isinstance(each, Peer)]
        for peer in peers:
            await self._open.enter_async_context(peer)
        await self.tasks.open()
        for door in self.doors:
            await door.start()
        await self.neighbours.start()
        await self.tasks.start()  # last: work that waits is begun only by a node that can go on with it
        self._sweeping = asyncio.create_task(self._sweep(), name="sweeping")
        self._meeting = asyncio.create_task(_meet(peers), name="meeting")

    async def stop(self) -> None:
        """Let running turns finish, then close everything; what cannot be closed does not keep the rest open."""
        await self.exchange.close(self.serving.graceful_seconds)
        await end([self._sweeping, self._meeting])
        closing: list[Callable[[], Awaitable[object]]] = [
            self.neighbours.stop,
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
                logger.exception("%s did not close as it should", getattr(close, "__qualname__", "traces"))

    async def _agents_changed(self) -> None:
        """Agents have come or gone, or say other things of themselves: tell the doors that follow this."""
        for door in self.doors:
            if isinstance(door, Follows):
                await door.agents_changed()

    async def _sweep(self) -> None:
        """Remove what has expired, now and then."""
        now = CautiousClock()
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            try:
                await self.store.sweep(now())
                self.exchange.conversations.forget_counts()
                await self._fingerprints.renew()
                if self._audit_days is not None:
                    await retain(self.store, self._audit_days)
            except SabirError as wrong:
                if not (isinstance(wrong, StoreUnavailable) and wrong.detail):  # else the store has told the log
                    logger.warning("could not sweep: %s", wrong)
            await self._keep_audit()

    async def _keep_audit(self) -> None:
        """Write down how many refusals were counted instead of written."""
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
    ) -> int:
        """Serve until SIGINT or SIGTERM; returns the exit code. SABIR_HOST and SABIR_PORT say where, if it is not told.

        Raises:
            BadSetup: the address cannot be used, or would be open to the network in the clear. If nobody catches it,
                the script ends with one line and exit code 2.
        """
        try:
            given = {"host": host, "port": port, "workers": workers}
            told = {name: value for name, value in given.items() if value is not None}
            return self._run({} if self._told_where else where_told(), told, say or _say)
        except BadSetup as wrong:
            told_in_a_line(wrong)
            raise

    def _run(self, variables: Mapping[str, Any], told: Mapping[str, Any], say: Callable[[str], None]) -> int:
        serving = msgspec.structs.replace(self.serving, **{**variables, **told})
        check_exposure(serving)
        check_tls(serving)
        require(self.security, self.security_report())
        sock = bind(serving.host, serving.port)
        serving = msgspec.structs.replace(serving, port=sock.getsockname()[1])
        if self.public_url == _url(self.serving):
            self.public_url = self.house.public_url = _url(serving)
            concierge = self.exchange.concierge
            if isinstance(concierge, Concierge):
                concierge.public_url = self.public_url
        self._front.bound_to(serving)
        greeting = self.greeting(serving)

        def ready() -> None:
            for line in greeting:
                say(line)

        with ExitStack() as group:
            if serving.workers > 1 and self.exchange.observer is not None:  # then each tells the metrics of all
                self.house.group = Path(group.enter_context(TemporaryDirectory(prefix="sabir-")))
            code = serve(self._front, serving, self._see_out, sock, ready)
        return WRONG_USE if code and self._wrong else code

    def greeting(self, serving: Serving) -> list[str]:
        """What a person wants to know at start: where everything is."""
        url = _url(serving)
        lines = [f"Sabir is listening on {url}", f"  agents: {', '.join(self.agents)} (default: {self.default})"]
        lines += [f"  gateway {each.name}: {each.address}" for each in self.neighbours]
        rows = [row for door in reversed(self.doors) for row in door.addresses()]  # NLIP first, health last
        width = max(len(name) for name, _ in rows)
        for name, path in rows:
            scheme = url.replace("http", "ws", 1) if "WebSocket" in name else url
            lines.append(f"  {name:<{width}}  {scheme}{path}" if path.startswith("/") else f"  {name:<{width}}  {path}")
        lines += [f"  not here: {why}" for why in self.absent]
        examples = (example for skill in self.agents[self.default].card.skills for example in skill.examples)
        ca = ""
        if serving.tls.dev and serving.tls.cert is None:  # nobody trusts a certificate that was made here
            ca = f" --ca {shlex.quote(str(Path(serving.home) / 'dev-tls' / 'cert.pem'))}"
        lines.append(f'Try:  {_command()} ask {url} "{next(examples, "Hello")}"{ca}')
        return lines


def _check_names(settings: Iterable[str], made: Iterable[str]) -> None:
    """Settings are for doors that exist: one that was to be closed must not stay open for a misspelt name.

    Raises:
        BadSetup: there is no door of this name; names the nearest.
    """
    known = {*made, BusDoor.name, *(module.replace("_", "-") for module, _, _ in OPTIONAL_DOORS)}
    for name in settings:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"did you mean doors.{near[0]}?" if near else f"there are {', '.join(sorted(known))}"
            raise BadSetup(f"unknown key doors.{name}: {hint}")


def _command() -> str:
    """What to type for ``sabir``: the name if the shell finds it, else where it is."""
    beside = Path(sys.executable).with_name("sabir")
    if shutil.which("sabir") or not beside.exists():
        return "sabir"
    near = os.path.relpath(beside)
    return shlex.quote(str(beside) if near.startswith("..") else near)


async def _meet(peers: Sequence[Peer]) -> None:
    """Ask remote agents what they can do, so that our cards say it; nobody waits for those that do not answer."""

    async def one(peer: Peer) -> None:
        try:
            await peer.discover()
        except SabirError as wrong:
            logger.info("%s did not say what it can do: %s", peer.card.name, wrong)

    await asyncio.gather(*(one(peer) for peer in peers))


def _say(line: str) -> None:
    print(line, file=sys.stdout, flush=True)


def _named(agents: Sequence[Agent]) -> dict[str, Agent]:
    if not agents:
        raise BadSetup("a gateway needs an agent")
    named: dict[str, Agent] = {}
    for each in agents:
        if not isinstance(each, Agent):
            raise BadSetup(f"{getattr(each, '__name__', each)!r} is not an agent; decorate it with @agent")
        name = each.card.name
        if name in RESERVED:
            raise BadSetup(f"an agent cannot be called {name!r}: the path /nlip/{name} is taken")
        if name in named:
            raise BadSetup(f"two agents are called {name!r}")
        named[name] = each
    return named


def _store(store: Store | str | None, home: Path, durability: str) -> Store:
    if store is None:
        return open_store(f"sqlite:///{home / 'sabir.db'}", durability=durability)
    return open_store(store, durability=durability) if isinstance(store, str) else store


def _url(serving: Serving) -> str:
    host = f"[{serving.host}]" if ":" in serving.host else serving.host
    if serving.host in ("0.0.0.0", "::"):
        host = "localhost"
    return f"{'https' if serving.tls.is_on else 'http'}://{host}:{serving.port}"


def local_caller(name: str = "operator") -> Caller:
    """Who calls from inside this process."""
    return Caller(id=f"local:{name}", kind="local", name=name)
