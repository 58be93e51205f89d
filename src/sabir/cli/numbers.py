"""Whole numbers on the command line: ports and counts."""

from __future__ import annotations

import argparse


def whole_number(text: str) -> int:
    """A number without a fraction; the command checks its range.

    Raises:
        argparse.ArgumentTypeError: it is not one.
    """
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a whole number, not {text!r}") from None
