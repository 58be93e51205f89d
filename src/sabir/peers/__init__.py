"""The outbound side of each protocol: a remote agent as an Agent. ``connect`` finds the right one."""

from .base import Peer
from .connect import connect

__all__ = ["Peer", "connect"]
