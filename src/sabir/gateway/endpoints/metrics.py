"""``/metrics``: metrics for Prometheus, for callers on this machine or with the configured role."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from sabir.errors import SabirError, Unauthenticated
from sabir.federation.gateways import RemoteAgent
from sabir.http.admission import NO_AGENT, Admission
from sabir.http.door import Door, GatewayServices
from sabir.http.request import credentials_of
from sabir.observe.metrics import CONTENT_TYPE, Metrics
from sabir.observe.settings import ObserveSettings
from sabir.protocols.nlip.wire import json as nlip
from sabir.protocols.peer import Peer

from .metrics_workers import WorkerGroup
from .operators import check_operator

logger = logging.getLogger("sabir")

LOOK_SECONDS: Final = 2.0  # time limit for values that are looked up during a scrape


def watch(services: GatewayServices, metrics: Metrics) -> None:
    """Metrics that are computed when they are read."""
    metrics.gauge("sabir_tasks_running", "Tasks that run on this node.", read=lambda: services.tasks.running)
    words = "Peers that are not called at present because they keep failing."
    metrics.gauge("sabir_peers_open", words, read=lambda: _open(services), over="max")
    up = metrics.gauge("sabir_store_up", "1 if the store answers, otherwise 0.", over="min")
    waiting = metrics.gauge("sabir_tasks_waiting", "Tasks of all nodes that have not started.", over="max")

    async def look() -> None:
        up.set(float(await answers(services.store.ping)))

    async def count() -> None:
        waiting.set(float(await services.store.count_submitted()))

    async def look_at_tasks() -> None:
        await answers(count)  # while the store is unavailable, the last values remain

    metrics.before(look)
    metrics.before(look_at_tasks)
    writing = getattr(services.store, "writing", None)  # not every store writes in groups
    if writing is not None:
        metrics.counter("sabir_store_commits_total", "Commits of the store.", read=lambda: writing()[0])
        metrics.counter("sabir_store_writes_total", "Writes to the store.", read=lambda: writing()[1])
        metrics.gauge(
            "sabir_store_batch_size",
            "Writes in a commit, on average.",
            read=lambda: writing()[1] / max(1, writing()[0]),
            over="max",
        )
        metrics.gauge("sabir_store_waiting", "Writes that wait for the next commit.", read=lambda: writing()[2])


def _open(services: GatewayServices) -> int:
    reached = (agent.peer if isinstance(agent, RemoteAgent) else agent for agent in list(services.agents.values()))
    return sum(item.breaker.state == "open" for item in reached if isinstance(item, Peer))


async def answers(ping: Callable[[], Awaitable[object]]) -> bool:
    """Whether it answers within the limit."""
    try:
        async with asyncio.timeout(LOOK_SECONDS):
            await ping()
    except (SabirError, TimeoutError):
        return False
    return True


class MetricsDoor(Door):
    """The door for monitoring; absent unless metrics are enabled."""

    name = "metrics"

    def __init__(self, services: GatewayServices) -> None:
        self.services = services
        found = services.settings.get(self.name)
        self.settings = found if isinstance(found, ObserveSettings) else ObserveSettings()
        self._group: WorkerGroup | None = None
        if services.exchange.observer is not None:
            watch(services, services.exchange.observer.metrics)

    def routes(self) -> Sequence[BaseRoute]:
        on = self.services.exchange.observer is not None and self.settings.metrics
        return [Route("/metrics", self._metrics, methods=["GET"])] if on else []

    def addresses(self) -> Sequence[tuple[str, str]]:
        return [("Metrics", "/metrics")] if self.routes() else []

    async def start(self) -> None:
        observer = self.services.exchange.observer
        if self.routes() and observer is not None and self.services.group is not None:
            group = WorkerGroup(self.services.group, observer.metrics)
            try:
                await group.join()
                self._group = group
            except OSError as exc:  # such as a temporary folder whose path is too long for a socket
                logger.warning("/metrics covers only one worker: %s", exc)

    async def stop(self) -> None:
        if self._group is not None:
            await self._group.leave()

    async def _metrics(self, request: Request) -> Response:
        credentials = credentials_of(request.scope, behind_proxy=self.services.behind_proxy)
        admission = Admission(self.services, self.name, credentials, NO_AGENT)
        try:
            await check_operator(admission, self.settings.metrics_role, "metrics are for operators")
        except SabirError as exc:
            await admission.rejected(exc)
            headers = {"www-authenticate": exc.challenge} if isinstance(exc, Unauthenticated) else {}
            return Response(str(exc), nlip.CODES[type(exc)], headers, "text/plain")
        observer = self.services.exchange.observer
        assert observer is not None
        if self._group is not None:
            text = await self._group.text()
        else:
            await observer.metrics.look()
            text = observer.metrics.text()
        return Response(text, headers={"content-type": CONTENT_TYPE})
