"""``/metrics``: numbers for Prometheus, to this machine and to callers with the role that the settings name."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from ..errors import Forbidden, SabirError, Unauthenticated
from ..guard.limits import is_loopback
from ..observe import CONTENT_TYPE, Metrics, ObserveSettings
from ..peers.base import Peer
from ..peers.gateways import FarAgent
from ..wire import nlip
from .base import House, credentials_of
from .metrics_group import Group
from .visitor import NO_AGENT, Visitor

logger = logging.getLogger("sabir")

LOOK_SECONDS: Final = 2.0  # for what is asked while somebody waits for the numbers


def watch(house: House, metrics: Metrics) -> None:
    """Metrics that are read from the house when somebody asks for them."""
    metrics.gauge("sabir_tasks_running", "Tasks this node works on.", read=lambda: house.tasks.running)
    words = "Peers left alone because they keep failing."
    metrics.gauge("sabir_peers_open", words, read=lambda: _open(house), over="max")
    up = metrics.gauge("sabir_store_up", "Whether the store answers: 1, or 0.", over="min")
    waiting = metrics.gauge("sabir_tasks_waiting", "Tasks of all nodes that have not begun.", over="max")

    async def look() -> None:
        up.set(float(await answers(house.store.ping)))

    async def count() -> None:
        waiting.set(float(await house.store.count_submitted()))

    async def look_at_tasks() -> None:
        await answers(count)  # while the store is away, what is known stays

    metrics.before(look)
    metrics.before(look_at_tasks)
    writing = getattr(house.store, "writing", None)  # not every kind of store writes in groups
    if writing is not None:
        metrics.counter("sabir_store_commits_total", "Commits of the store.", read=lambda: writing()[0])
        metrics.counter("sabir_store_writes_total", "Writes, many to a commit.", read=lambda: writing()[1])
        metrics.gauge(
            "sabir_store_batch_size",
            "Writes in a commit, on average.",
            read=lambda: writing()[1] / max(1, writing()[0]),
            over="max",
        )
        metrics.gauge("sabir_store_waiting", "Writes that wait for the next commit.", read=lambda: writing()[2])


def _open(house: House) -> int:
    reached = (each.peer if isinstance(each, FarAgent) else each for each in list(house.agents.values()))
    return sum(each.breaker.state == "open" for each in reached if isinstance(each, Peer))


async def answers(ping: Callable[[], Awaitable[object]]) -> bool:
    """Whether something answers soon."""
    try:
        async with asyncio.timeout(LOOK_SECONDS):
            await ping()
    except (SabirError, TimeoutError):
        return False
    return True


class MetricsDoor:
    """The door for those who watch. Not there unless metrics are on."""

    name = "metrics"

    def __init__(self, house: House) -> None:
        self.house = house
        found = house.settings.get(self.name)
        self.settings = found if isinstance(found, ObserveSettings) else ObserveSettings()
        self._group: Group | None = None
        if house.exchange.observer is not None:
            watch(house, house.exchange.observer.metrics)

    def raw(self) -> Mapping[str, ASGIApp]:
        return {}

    def routes(self) -> Sequence[BaseRoute]:
        on = self.house.exchange.observer is not None and self.settings.metrics
        return [Route("/metrics", self._metrics, methods=["GET"])] if on else []

    def addresses(self) -> Sequence[tuple[str, str]]:
        return [("Metrics", "/metrics")] if self.routes() else []

    async def start(self) -> None:
        observer = self.house.exchange.observer
        if self.routes() and observer is not None and self.house.group is not None:
            group = Group(self.house.group, observer.metrics)
            try:
                await group.join()
                self._group = group
            except OSError as wrong:  # such as a folder for temporary files whose name is too long for a socket
                logger.warning("/metrics tells of one worker at a time: %s", wrong)

    async def stop(self) -> None:
        if self._group is not None:
            await self._group.leave()

    async def _metrics(self, request: Request) -> Response:
        credentials = credentials_of(request.scope, behind_proxy=self.house.behind_proxy)
        visitor = Visitor(self.house, self.name, credentials, NO_AGENT)
        try:
            await self._check(visitor)
        except SabirError as wrong:
            await visitor.refused(wrong)
            headers = {"www-authenticate": wrong.challenge} if isinstance(wrong, Unauthenticated) else {}
            return Response(str(wrong), nlip.CODES[type(wrong)], headers, "text/plain")
        observer = self.house.exchange.observer
        assert observer is not None
        if self._group is not None:
            text = await self._group.text()
        else:
            await observer.metrics.look()
            text = observer.metrics.text()
        return Response(text, headers={"content-type": CONTENT_TYPE})

    async def _check(self, visitor: Visitor) -> None:
        credentials = visitor.credentials
        # Behind a proxy everybody comes from this machine, unless the proxy says otherwise.
        if is_loopback(credentials.address) and credentials.address and not self.house.behind_proxy:
            return
        caller = await visitor.admit()
        if self.settings.metrics_role in caller.standing:
            return
        if caller.is_anonymous:
            raise Unauthenticated("metrics are only for callers who say who they are")
        raise Forbidden("no right to see metrics")
