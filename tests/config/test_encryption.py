"""What ``encryption`` does not cover is said at the start (MW-31)."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from sabir.config.build import gateway_of
from sabir.config.load import settings_of

SEALED = {"encryption": {"key": "k" * 32}}


@pytest.mark.parametrize(
    ("more", "warns"), [(SEALED, True), ({**SEALED, "doors": {"upload": False}}, False), ({}, False)]
)
def test_unencrypted_uploads_next_to_an_encrypted_store_cause_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, more: dict[str, Any], warns: bool
) -> None:
    with caplog.at_level(logging.WARNING):
        gateway_of(settings_of({"home": str(tmp_path), "sites": [], **more}))
    said = "uploads are not encrypted; keep them on an encrypted disk"
    assert (f"uploaded files in {tmp_path}/{said}" in caplog.text) == warns
