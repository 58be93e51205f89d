"""Tasks: turns that outlive their request.

NLIP ``respond-async``, an NLWeb promise, an A2A task, an MCP task and an ACL task are all the same thing: one state
machine, one table. A task is stored before it is acknowledged; its events are numbered, so that a client that
reconnects continues where it stopped; only its owner can find it.

Any node may run a task. The node that runs it holds a lease and renews it; if the node dies, the lease expires and
another node, or the same after its restart, claims the task. The turn's id is derived from the task's, so a recorded
turn is not run again and its reply is used; otherwise the agent is called again if its card says that this is harmless
(``repeatable``), with the answers it got so far, or the task fails and says why. Changes are made by version, so a node
that lost its lease cannot overwrite what its successor wrote.
"""

from __future__ import annotations

from .states import FINAL, LIVE, TRANSITIONS, TaskSettings, key_of, part_of, read
from .tasks import Tasks

__all__ = ["FINAL", "LIVE", "TRANSITIONS", "TaskSettings", "Tasks", "key_of", "part_of", "read"]
