"""The meaning of a refusal, whatever the protocol: the agent failed, or it refused, and why."""

from __future__ import annotations

import os
from typing import Final

from sabir.errors import BadInput, NotFound, PeerRefused, Refused, SabirError, TurnFailed
from sabir.message import ERROR
from sabir.protocols.nlip.wire import json as nlip
from sabir.protocols.protocol import load
from sabir.protocols.registry import protocols

_FAILED: Final = 500  # and above
_REFUSED: Final = 400
_WHO: Final = frozenset({401, 403})  # refused because of the caller's identity


def same_for_all(exc: SabirError, protocol: str, address: str) -> SabirError:
    """The same error for every protocol: ``PeerRefused`` with an HTTP status, or ``TurnFailed``."""
    if isinstance(exc, PeerRefused):
        status = status_of(exc.status, protocol)
        words = exc.reason
        refused = PeerRefused(exc.peer, words.removeprefix(f"{exc.peer}: "), status)
    elif isinstance(exc, Refused | NotFound | BadInput):  # from inside an answer
        # A refusal inside an answer may be a quota, a filter or a right; the answer does not say which.
        status = _REFUSED if isinstance(exc, Refused) else nlip.CODES[type(exc)]
        words = f"{address}: {exc}"
        refused = PeerRefused(address, str(exc), status)
    else:
        return exc
    return TurnFailed(words) if status is not None and status >= _FAILED else refused


def status_of(code: int | str | None, protocol: str) -> int | None:
    """The HTTP status for a protocol's own code; None if it has no equivalent."""
    if code is None or (isinstance(code, int) and code > 0):
        return code
    if code == ERROR:  # NLIP without a code
        return _FAILED
    known = protocols().get(protocol)
    if known is None or not known.wire or protocol == "nlip":
        return None
    codes = load(known.wire, known.title, known.extra).CODES
    found = [nlip.CODES[kind] for kind, row in codes.items() if code == row or (isinstance(row, tuple) and code in row)]
    if not found:
        return None
    # A2A has one code for all refusals, so it does not say whether the caller's identity is the reason.
    return found[0] if found[0] not in _WHO or set(found) <= _WHO else _REFUSED


def hint(exc: SabirError) -> str:
    """What to do about a refusal that depends on the caller's identity; empty for others."""
    status = exc.status if isinstance(exc, PeerRefused) else None
    if status not in _WHO:
        return ""
    if not os.environ.get("SABIR_TOKEN"):
        return "set SABIR_TOKEN to your API key or token"
    problem = "is not accepted" if status == 401 else "does not have the right to do this"
    return f"the key or token in SABIR_TOKEN {problem}"
