"""Tasks: turns that outlive their request.

NLIP ``respond-async``, an NLWeb promise, an A2A task, an MCP task and an ACL task are all this one
thing: one state machine, one table. A task is stored before it is acknowledged; its events are numbered,
so that whoever comes back reads on from where it stopped; it is found only by its owner.

Any node may run a task. Whoever runs it holds a lease and renews it; if the node dies, the lease runs out
and another node, or the same after its restart, takes the task up. Its turn has an id that follows from the
task's, so a turn that was recorded is not run again, its reply is given; otherwise the agent is called again
if its card says that this is harmless (``repeatable``), with the answers it got so far, or the task fails
and says why. Changes go by version, so a node that lost its lease cannot overwrite what its heir wrote.
"""

from __future__ import annotations

from .states import FINAL, LIVE, TRANSITIONS, TaskSettings, key_of, part_of, read
from .tasks import Tasks

__all__ = ["FINAL", "LIVE", "TRANSITIONS", "TaskSettings", "Tasks", "key_of", "part_of", "read"]
