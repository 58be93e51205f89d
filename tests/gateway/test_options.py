"""The options of a gateway: one value, or named one by one."""

from __future__ import annotations

import dataclasses
import typing
from pathlib import Path

import pytest

from sabir import Gateway
from sabir.agents.echo import echo
from sabir.gateway.options import GatewayOptions, OptionNames


def test_named_options_and_the_options_value_are_the_same() -> None:
    value = typing.get_type_hints(GatewayOptions)
    assert value == typing.get_type_hints(OptionNames)
    assert list(value) == [field.name for field in dataclasses.fields(GatewayOptions)]


def test_a_named_option_wins_over_the_options_value(tmp_path: Path) -> None:
    options = GatewayOptions(home=tmp_path / "from value", node="seven")
    gateway = Gateway(echo, options=options, home=tmp_path / "by name")
    assert gateway.home == tmp_path / "by name"
    assert gateway.node == "seven"


def test_an_unknown_option_is_rejected_by_its_name() -> None:
    with pytest.raises(TypeError, match="hoem"):
        Gateway(echo, hoem="state")  # type: ignore[call-arg]
