"""What the ACL door uses of the gateway beyond what every door uses."""

from __future__ import annotations

from typing import Protocol

from sabir.bus import Bus
from sabir.http.door import DoorContext, SearchGateways


class AclContext(DoorContext, Protocol):
    """The directory: of this gateway's nodes, and of other gateways."""

    bus: Bus | None
    search_gateways: SearchGateways | None
