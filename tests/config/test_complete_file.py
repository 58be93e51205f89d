"""docs/sabir.yaml is complete and valid: it has every key of the settings, and the gateway it describes is built."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_type_hints

import msgspec
import pytest

from sabir.config.build import gateway_of
from sabir.config.load import load
from sabir.config.settings import Settings
from sabir.misfits import struct_in

FILE = Path(__file__).resolve().parents[2] / "docs" / "sabir.yaml"
DIFFERENT = {
    "default", "agents", "mcp_servers", "workspace", "sites", "sample", "quotas", "nlip", "store", "public_url",
}  # fmt: skip
APP = '''from sabir import agent

@agent
async def helper(turn):
    return turn.text

def town_time() -> str:
    """The time."""
    return "noon"
'''


def keys_below(kind: type, seen: tuple[type, ...] = ()) -> Iterator[str]:
    """The names of every key inside a Struct, at every level."""
    hints = get_type_hints(kind)
    for field in msgspec.structs.fields(kind):
        yield field.encode_name
        inner = struct_in(hints[field.name])
        if inner is not None and inner not in seen:
            yield from keys_below(inner, (*seen, kind))


def sections(text: str) -> dict[str, str]:
    """The text of each top-level key, comments below it included, up to the next one."""
    found: dict[str, str] = {}
    name = ""
    for line in text.splitlines():
        match = re.match(r"(?:# )?([a-z_]+):(?: |$)", line)
        if match:
            name = match[1]
        found[name] = found.get(name, "") + line + "\n"
    return found


def missing_keys(text: str) -> list[str]:
    below = sections(text)
    hints = get_type_hints(Settings)
    missing = []
    for field in msgspec.structs.fields(Settings):
        section = below.get(field.encode_name)
        if section is None:
            missing.append(field.encode_name)
            continue
        inner = struct_in(hints[field.name])
        for key in dict.fromkeys(keys_below(inner)) if inner is not None else ():
            if not re.search(rf"(?<![\w.-]){key}:", section):
                missing.append(f"{field.encode_name}.{key}")
    return missing


def test_every_key_is_in_the_file() -> None:
    assert missing_keys(FILE.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("key", "place"),
    [("port", "port"), ("burst", "quotas.burst"), ("leeway", "identity.leeway"), ("access", "log.access")],
)
def test_a_key_that_is_left_out_would_be_seen(key: str, place: str) -> None:
    text = re.sub(rf"(?<![\w.-]){key}:", "x:", FILE.read_text(encoding="utf-8"))
    assert place in missing_keys(text)


def test_the_file_is_valid_and_its_gateway_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "sabir.yaml"
    file.write_text(FILE.read_text(encoding="utf-8").replace('"app:', '"complete_file_app:'))
    (tmp_path / "complete_file_app.py").write_text(APP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789abcdef")
    gateway = gateway_of(load(file), file)
    assert list(gateway.agents)[:6] == ["helper", "writer", "remote", "both", "panel", "everyone"]
    assert gateway.default == "helper"


def test_what_the_file_calls_a_default_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789abcdef")
    written, usual = load(FILE), Settings()
    for name in set(Settings.__struct_fields__) - DIFFERENT:
        assert getattr(written, name) == getattr(usual, name), name
    assert (
        msgspec.structs.replace(written.quotas, rate_per_caller=None, rate_per_address=None, conversations=None)
        == usual.quotas
    )
