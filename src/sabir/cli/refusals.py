"""What a no means, whatever protocol it came by: that the agent failed, or that it does not want to, and why."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from typing import Final

from ..errors import BadInput, NotFound, PeerRefused, Refused, SabirError, TurnFailed
from ..message import ERROR
from ..wire import nlip

# Which wire has the table of a protocol's codes.
_WIRES: Final[Mapping[str, str]] = {"nlweb": "nlweb_answers", "mcp": "mcp", "a2a": "a2a"}
_FAILED: Final = 500  # and all above it
_REFUSED: Final = 400
_WHO: Final = frozenset({401, 403})  # refused because of who asks


def same_for_all(wrong: SabirError, protocol: str, address: str) -> SabirError:
    """The error as every protocol would tell it: ``PeerRefused`` with a status of HTTP, or ``TurnFailed``."""
    if isinstance(wrong, PeerRefused):
        status = status_of(wrong.status, protocol)
        words = wrong.reason
        refused = PeerRefused(wrong.peer, words.removeprefix(f"{wrong.peer}: "), status)
    elif isinstance(wrong, Refused | NotFound | BadInput):  # from inside an answer
        # What an agent refuses in its answer may be a quota, a filter or a right: not one of them is told apart there.
        status = _REFUSED if isinstance(wrong, Refused) else nlip.CODES[type(wrong)]
        words = f"{address}: {wrong}"
        refused = PeerRefused(address, str(wrong), status)
    else:
        return wrong
    return TurnFailed(words) if status is not None and status >= _FAILED else refused


def status_of(code: int | str | None, protocol: str) -> int | None:
    """The status of HTTP that a protocol's own code stands for; None if it stands for none."""
    if code is None or (isinstance(code, int) and code > 0):
        return code
    if code == ERROR:  # NLIP of one who says no more
        return _FAILED
    if protocol not in _WIRES:
        return None
    codes = importlib.import_module(f"sabir.wire.{_WIRES[protocol]}").CODES
    found = [
        nlip.CODES[kind] for kind, told in codes.items() if code == told or (isinstance(told, tuple) and code in told)
    ]
    if not found:
        return None
    # One code of A2A stands for everything that is refused: it does not say that it is a matter of who asks.
    return found[0] if found[0] not in _WHO or set(found) <= _WHO else _REFUSED


def hint(wrong: SabirError) -> str:
    """What to do about a refusal that has to do with who asks; nothing about others."""
    status = wrong.status if isinstance(wrong, PeerRefused) else None
    if status not in _WHO:
        return ""
    if not os.environ.get("SABIR_TOKEN"):
        return "give a key or token of yours in the variable SABIR_TOKEN"
    return f"the key or token in the variable SABIR_TOKEN {'is not taken there' if status == 401 else 'is not enough'}"
