"""The version, in one place; hatchling reads it."""

__version__ = "0.1.0"
