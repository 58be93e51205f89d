"""A missing extra is reported in one line that says how to install it, by every command and setting that needs it."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from sabir.cli.main import BAD_USAGE

ROOT = Path(__file__).resolve().parents[2]

# What each extra brings, by the names that are imported.
BRINGS = {
    "search": ["blingfire", "markdown_it", "numpy", "onnxruntime", "selectolax", "tantivy", "usearch"],
    "mcp": ["mcp", "mcp_types"],
    "a2a": ["a2a", "google"],
    "a2a-grpc": ["grpc"],
    "amqp": ["proton"],
    "postgres": ["asyncpg"],
    "nats": ["nats"],
    "observe": ["opentelemetry"],
    "massgen": ["zstandard"],
    "terminal": ["prompt_toolkit", "rich"],
}
NO_CONVERSATION = "127.0.0.1:9"

WITHOUT = """
import sys
blocked = set(sys.argv[1].split(","))
class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Without())
from sabir.cli import main
sys.exit(main(sys.argv[2:]))
"""


def run_without(cwd: Path, extra: str, *arguments: str) -> tuple[int, str]:
    command = [sys.executable, "-c", WITHOUT, ",".join(BRINGS[extra]), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=600, check=False, input="")
    return done.returncode, done.stderr


def test_every_extra_is_tried() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(BRINGS) == {name for name, needs in extras.items() if needs} - {"all", "dev"}


@pytest.mark.parametrize(
    ("extra", "arguments"),
    [
        ("mcp", ["ask", f"http://{NO_CONVERSATION}/mcp", "x"]),
        ("mcp", ["ask", f"http://{NO_CONVERSATION}", "x", "--protocol", "mcp"]),
        ("mcp", ["ask", "stdio:python server.py", "x"]),
        ("mcp", ["mcp"]),
        ("terminal", ["chat", f"http://{NO_CONVERSATION}"]),
        ("a2a", ["ask", f"http://{NO_CONVERSATION}/a2a", "x"]),
        ("amqp", ["ask", f"amqp://{NO_CONVERSATION}/nlip", "x"]),
        ("amqp", ["check", f"amqp://{NO_CONVERSATION}/nlip"]),
        ("postgres", ["store", "migrate", f"postgresql://{NO_CONVERSATION}/x"]),
        ("postgres", ["store", "copy", f"postgresql://{NO_CONVERSATION}/x", "sqlite:///new.db"]),
        ("postgres", ["audit", "verify", "--store", f"postgresql://{NO_CONVERSATION}/x"]),
        ("postgres", ["keys", "list", "--store", f"postgresql://{NO_CONVERSATION}/x"]),
        ("nats", ["bus", "dead", "x", "--bus", f"nats://{NO_CONVERSATION}"]),
        ("search", ["ingest", "page.html", "--site", "x"]),
    ],
    ids=lambda value: " ".join(value)[:30] if isinstance(value, list) else value,
)
def test_a_command_says_what_it_needs(extra: str, arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("<p>bread</p>")
    code, said = run_without(tmp_path, extra, *arguments)
    assert (code, said.count("\n")) == (BAD_USAGE, 1), said
    assert f"needs: pip install 'sabir[{extra}]'" in said
    assert f"'.[{extra}]'" in said, "what works where the package is not to be had by its name"


@pytest.mark.parametrize(
    ("extra", "settings"),
    [
        ("observe", f"observe: {{traces: 'http://{NO_CONVERSATION}/v1/traces'}}"),
        ("postgres", f"store: postgresql://{NO_CONVERSATION}/x"),
        ("nats", f"bus: nats://{NO_CONVERSATION}"),
        ("search", "sites: [{name: x, source: page.html}]"),
        ("a2a-grpc", "doors: {a2a: {grpc: {port: 0}}}"),
        ("mcp", f"agents: [{{id: x, peer: 'http://{NO_CONVERSATION}/mcp'}}]"),
        ("a2a", f"agents: [{{id: x, peer: 'http://{NO_CONVERSATION}/a2a'}}]"),
        ("amqp", f"agents: [{{id: x, peer: 'amqp://{NO_CONVERSATION}/x'}}]"),
    ],
)
def test_a_gateway_that_needs_what_is_not_there_does_not_start(extra: str, settings: str, tmp_path: Path) -> None:
    (tmp_path / "sabir.yaml").write_text(f"{settings}\nport: 0\n")
    code, said = run_without(tmp_path, extra, "serve")
    assert (code, said.count("\n")) == (BAD_USAGE, 1), said
    assert f"needs: pip install 'sabir[{extra}]'" in said
