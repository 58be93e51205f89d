"""The tools of the design."""

from ._manager import ToolManager

__all__ = ["ToolManager"]
