"""What the log is told when work passes from node to node."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

logger = logging.getLogger("sabir")
_NAMED: Final = 5  # tasks that are named; of more only their number is told


def dead(left: Mapping[str, int]) -> None:
    """Nodes have died, and left so many tasks each."""
    for node, count in ((node, count) for node, count in left.items() if count):
        logger.warning("node %s has died; %s that it held can be taken up now", node, _several(count))


def namesake(node: str) -> None:
    logger.warning("another process runs as node %s, too; give each a name of its own (node: …)", node)


@contextmanager
def taken_up() -> Iterator[list[str]]:
    """Collects the ids of tasks that were begun before and go on here."""
    ids: list[str] = []
    try:
        yield ids
    finally:
        if ids:
            named = ", ".join(id[:8] for id in ids[:_NAMED]) + (", …" if len(ids) > _NAMED else "")
            logger.info(
                "%s that had begun elsewhere, or before a restart, taken up here: %s", _several(len(ids)), named
            )


def _several(count: int) -> str:
    return f"{count} task{'' if count == 1 else 's'}"
