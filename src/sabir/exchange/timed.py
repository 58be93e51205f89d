"""A turn whose caller asked for a timeline: kept apart, so that other turns cost nothing extra."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from sabir.events import Event, Reply
from sabir.observe.timeline import NO_TIMELINE, Timeline, Timelines

from .request import EventSink


def timed(
    asking: Coroutine[Any, Any, None], sink: EventSink, timelines: Timelines, door: str, trace: str
) -> Coroutine[Any, Any, None]:
    """Run the turn; its hops are recorded if the trace id was reserved here."""
    timeline = timelines.of(trace)
    if timeline is NO_TIMELINE:
        return asking
    sink.timeline = timeline
    return _recorded(asking, sink, timeline, door)


async def _recorded(asking: Coroutine[Any, Any, None], sink: EventSink, timeline: Timeline, door: str) -> None:
    send = sink.send

    async def send_and_mark(event: Event) -> None:
        if isinstance(event, Reply):
            timeline.stage("reply")
        await send(event)

    sink.send = send_and_mark
    timeline.begin(door)
    timeline.stage("guard")
    try:
        await asking
    except Exception:
        timeline.end(failed=True)
        raise
    finally:
        timeline.end()
