"""``recorded``: a model that is called once, and then answers from a file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from sabir.agents.llm.mock import RecordingModel, ReplayingModel
from sabir.agents.llm.model import Model

RECORD: Final = "SABIR_RECORD"  # set to 1 to renew every recording


def recorded(path: Path | str, model: Callable[[], Model]) -> Model:
    """The recording at ``path``; without one, or with ``SABIR_RECORD=1``, the model itself, which is recorded there.

    ``model`` makes the model, and is called only if needed: tests that replay need no key.
    """
    file = Path(path)
    if os.environ.get(RECORD) == "1":
        file.unlink(missing_ok=True)
    if file.exists():
        return ReplayingModel(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    return RecordingModel(model(), file)
