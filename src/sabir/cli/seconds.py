"""Durations on the command line."""

from __future__ import annotations

import argparse
import math


def seconds(text: str) -> float:
    """A number of seconds above 0: how long to wait or to run.

    Raises:
        argparse.ArgumentTypeError: it is not one.
    """
    value = _number(text)
    if value is None or value <= 0:
        raise argparse.ArgumentTypeError(f"expected a number of seconds above 0, not {text!r}")
    return value


def pause(text: str) -> float:
    """A number of seconds, which may be 0: how long to pause.

    Raises:
        argparse.ArgumentTypeError: it is not one.
    """
    value = _number(text)
    if value is None or value < 0:
        raise argparse.ArgumentTypeError(f"expected a number of seconds, 0 or more, not {text!r}")
    return value


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
