"""A panel of agents that answers, votes and presents one result."""

from .ensemble import Ensemble, panel_events
from .options import EnsembleOptions

__all__ = ["Ensemble", "EnsembleOptions", "panel_events"]
