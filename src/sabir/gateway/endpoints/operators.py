"""Access for operators only: callers on this machine, and callers with the operator's role."""

from __future__ import annotations

from sabir.errors import Forbidden, Unauthenticated
from sabir.guard.quotas.rates import is_loopback
from sabir.http.admission import Admission
from sabir.http.door import GatewayServices
from sabir.observe.settings import ObserveSettings


def operator_role(services: GatewayServices) -> str:
    """The role of operators, as ``observe: {metrics_role}`` names it."""
    found = services.settings.get("metrics")
    return found.metrics_role if isinstance(found, ObserveSettings) else ObserveSettings().metrics_role


async def check_operator(admission: Admission, role: str, reason: str) -> None:
    """Raises:
    Unauthenticated: the caller is anonymous.
    Forbidden: the caller is known but lacks the role.
    RateLimited: over the rate.
    """
    credentials = admission.credentials
    # Behind a proxy every request comes from this machine, unless the proxy says otherwise.
    if is_loopback(credentials.address) and credentials.address and not admission.services.behind_proxy:
        return
    caller = await admission.authenticate_and_charge()
    if role in caller.effective_roles:
        return
    if caller.is_anonymous:
        raise Unauthenticated(f"authentication required: {reason}")
    raise Forbidden(reason)
