"""Which nodes on a PostgreSQL store are alive, known before their leases expire.

Each node holds an advisory lock on its own connection. The server frees the lock when that connection ends, which
happens however the process ends. So a free lock belongs to a dead node, or to a live one that has just lost its
connection; therefore it counts only for nodes that also have not renewed a lease for a while. A node that hangs or is
cut off keeps its connection from the server's point of view; there leases decide.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import asyncpg

from sabir.stores.base import RUNNABLE

from .retry import ERRORS, Outage

Connect: TypeAlias = Callable[[], Awaitable["asyncpg.Connection[asyncpg.Record]"]]

_RUNNABLE = ",".join(f"'{state}'" for state in RUNNABLE)
_CLOCK = "extract(epoch from clock_timestamp())::float8"
_SERVER_START = "extract(epoch from pg_postmaster_start_time())::float8"
_KEY = "hashtextextended('sabir node ' || current_schema() || ' ' || {}, 0)"
_SILENT = f"state IN ({_RUNNABLE}) AND lease > {_CLOCK} AND lease <= {_CLOCK} + $2 - $3"
IN_USE = "hashtextextended('sabir store ' || current_schema(), 0)"  # shared by all nodes, exclusive for none
_SHOW = f"SELECT pg_try_advisory_lock({_KEY.format('$1::text')}), pg_try_advisory_lock_shared({IN_USE})"
# After a server restart nobody has a lock and nobody could renew: then leases decide, as for claims.
_FREE = f"""
    WITH silent AS MATERIALIZED (
        SELECT DISTINCT node FROM tasks WHERE node NOT IN ('', $1) AND {_SILENT} AND {_CLOCK} > $2 + {_SERVER_START}
    ), dead AS MATERIALIZED (SELECT node FROM silent WHERE pg_try_advisory_xact_lock({_KEY.format("node")}))
    UPDATE tasks SET lease = {_CLOCK} WHERE node IN (SELECT node FROM dead) AND {_SILENT} RETURNING node
"""
_GOODBYE = 2.0  # seconds for closing the connection


class PostgresNodes:
    """The liveness lock of this node, and a check of the others."""

    def __init__(self, connect: Connect, outage: Outage) -> None:
        self._connect = connect
        self._outage = outage
        self._sign: asyncpg.Connection[asyncpg.Record] | None = None

    async def show(self, node: str) -> bool:
        """Show other nodes that this one is alive. False if a live node already has this name.

        Raises:
            StoreUnavailable: the server does not answer.
        """
        begun = time.monotonic()
        try:
            if self._sign is None or self._sign.is_closed():
                self._sign = await self._connect()
            shown = bool(await self._sign.fetchval(_SHOW, node, timeout=self._outage.seconds))
        except ERRORS as exc:
            self._lose()
            raise self._outage.failed(exc, begun, given_up=False) from exc
        self._outage.over()
        return shown

    async def free(self, node: str, lease: float, silent: float) -> dict[str, int]:
        """End the leases of dead nodes that were not renewed for this many seconds; returns how many per node.

        Raises:
            StoreUnavailable: the server does not answer.
        """
        if self._sign is None or self._sign.is_closed():
            await self.show(node)
        assert self._sign is not None
        begun = time.monotonic()
        try:
            freed = await self._sign.fetch(_FREE, node, lease, silent, timeout=self._outage.seconds)
        except ERRORS as exc:
            self._lose()
            raise self._outage.failed(exc, begun, given_up=False) from exc
        self._outage.over()
        return Counter(row[0] for row in freed)

    async def close(self) -> None:
        """Release everything that this node held."""
        sign, self._sign = self._sign, None
        if sign is not None:
            try:
                await sign.close(timeout=_GOODBYE)
            except ERRORS:
                sign.terminate()

    def _lose(self) -> None:
        sign, self._sign = self._sign, None
        if sign is not None:
            sign.terminate()
