"""Timelines: when each hop of a turn started and ended, for callers who ask for it. Names and times, never content.

A caller gets trace ids from ``Timelines.reserve`` and sends one with a request, as the W3C ``traceparent``. Only such
turns are recorded; every other turn has ``NO_TIMELINE``, which does nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, Final

MAX_IDS: Final = 2048  # reserved or recorded at once; the oldest is dropped first
MAX_HOPS_KEPT: Final = 200  # per timeline

Now = Callable[[], float]


class Hop:
    """One hop: its name, the hop around it, and its start and end."""

    __slots__ = ("_now", "began", "ended", "failed", "kind", "name", "parent")

    def __init__(self, kind: str, name: str, now: Now, parent: Hop | None = None) -> None:
        self.kind = kind
        self.name = name
        self.parent = parent
        self.began = now()
        self.ended: float | None = None
        self.failed = False
        self._now = now

    def end(self, *, failed: bool = False) -> None:
        """Only the first end counts: a generator may be closed long after its last event."""
        if self.ended is None:
            self.ended = self._now()
            self.failed = failed


_current: ContextVar[Hop | None] = ContextVar("sabir_hop", default=None)  # each task has its own


def _around() -> Hop | None:
    """The hop that the code runs in; one that has ended is skipped."""
    hop = _current.get()
    while hop is not None and hop.ended is not None:
        hop = hop.parent
    return hop


class Timeline:
    """Adds the hops of one request to a list; a sub-turn shares the list, and has its own stages."""

    def __init__(self, hops: list[Hop], now: Now = time.monotonic) -> None:
        self._now = now
        self._hops = hops
        self._whole: Hop | None = None
        self._stage: Hop | None = None

    def begin(self, door: str) -> None:
        """Start the timeline, when a door passes on a request."""
        self._whole = self._add("door", door)

    def stage(self, kind: str, name: str = "") -> None:
        """Start the next stage of the turn, and end the one before."""
        if self._stage is not None:
            self._stage.end()
            _current.set(self._whole)
        self._stage = self._add(kind, name)

    def end(self, *, failed: bool = False) -> None:
        """End the timeline, when the request is answered."""
        for hop in (self._stage, self._whole):
            if hop is not None:
                hop.end(failed=failed)
        self._stage = None

    @contextmanager
    def _span(self, kind: str, name: str) -> Iterator[Hop]:
        hop = self._add(kind, name)
        try:
            yield hop
        except Exception:
            hop.end(failed=True)
            raise
        finally:
            hop.end()

    def span(self, kind: str, name: str) -> AbstractContextManager[Hop]:
        """A hop inside a stage: another agent, a tool, a model, a peer."""
        return self._span(kind, name)

    def _add(self, kind: str, name: str) -> Hop:
        hop = Hop(kind, name, self._now, _around())
        _current.set(hop)
        if len(self._hops) < MAX_HOPS_KEPT:
            self._hops.append(hop)
        return hop


class _NoTimeline(Timeline):
    """Records nothing."""

    _nothing: Final = nullcontext(Hop("", "", lambda: 0.0))

    def begin(self, door: str) -> None:
        return None

    def stage(self, kind: str, name: str = "") -> None:
        return None

    def end(self, *, failed: bool = False) -> None:
        return None

    def span(self, kind: str, name: str) -> AbstractContextManager[Hop]:
        return self._nothing


NO_TIMELINE: Final = _NoTimeline([])


class Timelines:
    """The timelines of a gateway, by trace id: up to ``limit``, in memory only."""

    def __init__(self, limit: int = MAX_IDS) -> None:
        self._limit = limit
        self._known: dict[str, list[Hop]] = {}

    def reserve(self, count: int) -> list[str]:
        """New unguessable trace ids; the oldest are dropped if there are too many."""
        made = [os.urandom(16).hex() for _ in range(count)]
        self._known.update((trace_id, []) for trace_id in made)
        while len(self._known) > self._limit:
            del self._known[next(iter(self._known))]
        return made

    def of(self, traceparent: str) -> Timeline:
        """The timeline of a request with this trace context; ``NO_TIMELINE`` if its id was not reserved here."""
        hops = self._known.get(traceparent[3:35])
        return NO_TIMELINE if hops is None else Timeline(hops)

    def hops(self, trace_id: str) -> list[dict[str, Any]] | None:
        """The hops under a trace id, in order of their start; None if the id is unknown.

        Times are milliseconds after the first start; ``ended`` is None while a hop runs. ``parent`` is the index of the
        hop around it.
        """
        hops = self._known.get(trace_id)
        if hops is None:
            return None
        start = hops[0].began if hops else 0.0
        places = {id(hop): place for place, hop in enumerate(hops)}
        return [
            {
                "kind": hop.kind,
                "name": hop.name,
                "parent": places.get(id(hop.parent)),
                "began": round((hop.began - start) * 1000, 3),
                "ended": None if hop.ended is None else round((hop.ended - start) * 1000, 3),
                "failed": hop.failed,
            }
            for hop in hops
        ]
