"""The documentation is true: links resolve, commands exist, configurations load, and marked blocks run as pasted."""

from __future__ import annotations

import argparse
import ast
import asyncio
import inspect
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
import yaml

from conftest import serving
from doc_pages import PAGES, ROOT, Block, all_blocks, anchors, blocks, links
from doc_shell import Session, commands
from sabir import Gateway, agent
from sabir.cli.main import COMMANDS, parser
from sabir.config.load import load
from sabir.config.settings import Settings
from sabir.turn import Turn

MARKED = [page for page in PAGES if any(block.mark for block in blocks(page))]
TARGETS = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name}: {link}"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{page.name}: {link}"


def settings_blocks() -> list[Block]:
    """The YAML blocks whose keys are those of a configuration file."""
    found = []
    for block in all_blocks("yaml"):
        keys = yaml.safe_load(block.text)
        if isinstance(keys, dict) and set(keys) <= set(Settings.__struct_fields__):
            found.append(block)
    return found


@pytest.mark.parametrize("block", all_blocks("yaml"), ids=lambda block: block.name)
def test_yaml_can_be_read(block: Block) -> None:
    assert yaml.safe_load(block.text)


@pytest.mark.parametrize("block", settings_blocks(), ids=lambda block: block.name)
def test_a_configuration_loads(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in re.findall(r"env:(\w+)", block.text):
        monkeypatch.setenv(name, "0123456789abcdef0123456789abcdef")
    for name in re.findall(r"[\w./-]+\.pem", block.text):
        (tmp_path / Path(name).name).touch()
    file = tmp_path / "sabir.yaml"
    file.write_text(block.text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    load(str(file))


@pytest.mark.parametrize("block", all_blocks("json"), ids=lambda block: block.name)
def test_json_can_be_read(block: Block) -> None:
    assert json.loads(block.text)


# Pages whose Python is run by another test, or shows signatures.
PYTHON_ELSEWHERE = {
    "docs/acl-patterns.md": "tests/protocols/acl/test_docs.py",
    "docs/reference.md": "signatures, which tests/suites/house/test_public.py compares",
}
PYTHON = [page for page in PAGES if named(page) not in PYTHON_ELSEWHERE and blocks(page, "python")]


@agent
async def painter(turn: Turn) -> str:
    return f"painted {turn.text}"


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address that stands for https://example.com."""
    with serving(Gateway(painter, home=tmp_path_factory.mktemp("home"))) as served:
        yield served.url


@pytest.mark.parametrize("page", PYTHON, ids=named)
async def test_the_python_of_a_page_runs(
    page: Path, example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a notebook: each block after the ones before it, in a folder of its own. Nothing is served for ever."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SABIR_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(Gateway, "run", lambda *_, **__: None)
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "mug.html").write_text("<title>Red mug</title><p>A mug for tea.</p>")
    known: dict[str, object] = {"__name__": "pasted"}
    for block in blocks(page, "python"):
        if block.mark:
            continue  # run as a file, by the next test but one
        text = block.text.replace("https://example.com", example)
        code = compile(text, block.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        done = eval(code, known)
        if inspect.iscoroutine(done):
            await done
    await asyncio.sleep(0)  # what was cancelled ends


# The shell blocks that the test of the marked blocks does not run, by page: another test runs them, or nothing can.
SHELL_NOT_RUN = {
    "CONTRIBUTING.md": "make targets, which are checked to exist",
    "README.md": "make targets; tests/suites/deployments/test_install.py runs what `make run` does first",
    "docs/deployments.md": "run by tests/suites/deployments/test_pages.py, on free ports",
    "docs/howto/container.md": "docker needs a daemon; tests/suites/deployments/test_pages.py runs what the image does",
    "docs/howto/nginx.md": "run by tests/suites/deployments/test_proxies.py, on a free port",
    "docs/howto/postgresql-and-nats.md": "run by tests/suites/deployments/test_pages.py, in a database of its own",
    "docs/howto/systemd.md": "they need root; tests/suites/deployments/test_pages.py enables and runs the unit",
    "docs/many-nodes.md": "run, with what it prints, by tests/bus/test_bus_command.py",
    "docs/search.md": "a crawl of a site of the reader's, which tests/search/ingest does with sites of its own",
    "docs/stores.md": "run by tests/suites/deployments/test_pages.py, in a database of its own",
}


def test_every_page_with_a_shell_block_that_is_not_run_says_why() -> None:
    left = {named(block.page) for block in all_blocks("console", "sh") if not block.mark}
    assert sorted(left) == sorted(SHELL_NOT_RUN)
    for page, reason in SHELL_NOT_RUN.items():
        for file in re.findall(r"tests/[\w/.]*\w", reason):
            assert (ROOT / file).exists(), f"{page}: {file}"


def sabir_commands() -> list[tuple[str, str]]:
    """Every ``sabir …`` of a console or shell block: where it is, and the command."""
    found = []
    for block in all_blocks("console", "sh"):
        for command, _ in commands(block):
            for part in re.findall(r"(?:^|[;&|]\s*)(?:\S*/)?sabir\s+([^|;&#>]*)", command):
                found.append((block.name, part))
    return found


def _of(top: argparse.ArgumentParser, words: list[str]) -> argparse.ArgumentParser:
    """The parser of a command, and of its action where it has some."""
    top.format_help()  # loads its arguments
    for action in top._actions:
        if isinstance(action, argparse._SubParsersAction) and words and words[0] in action.choices:
            return _of(action.choices[words[0]], words[1:])
    return top


@pytest.mark.parametrize(("place", "command"), sabir_commands())
def test_every_command_and_flag_exists(place: str, command: str) -> None:
    words = shlex.split(command)
    assert words[0] in COMMANDS or words[0].startswith("-"), f"{place}: sabir {command}"
    known = {flag for action in _of(parser(), words)._actions for flag in action.option_strings}
    flags = [word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)]
    assert [flag for flag in flags if flag not in known] == [], f"{place}: sabir {command}"


def test_every_make_target_exists() -> None:
    named_targets = {
        (block.name, target)
        for block in all_blocks("console", "sh")
        for target in re.findall(r"^(?:\$ )?make ([a-z]+)", block.text, re.MULTILINE)
    }
    assert named_targets
    assert [target for target in named_targets if target[1] not in TARGETS] == []


@pytest.mark.parametrize("page", MARKED, ids=named)
def test_the_marked_blocks_of_a_page_run_as_pasted(page: Path, example: str, tmp_path: Path) -> None:
    session = Session(tmp_path, remote=example)
    session.shell([step for block in blocks(page) if block.mark for step in session.steps(block)])


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_mark_is_before_a_block(page: Path) -> None:
    marks = re.findall(r"^\s*<!-- (?:run|file:)", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(marks) == len([block for block in blocks(page) if block.mark])


def test_a_wrong_output_would_be_seen(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="instead of"):
        Session(tmp_path).shell([("echo yes", ["no"])])


@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
def test_nginx_takes_its_configuration(tmp_path: Path) -> None:
    [block] = blocks(ROOT / "docs" / "howto" / "nginx.md", "nginx")
    own, other = trustme.CA().issue_cert("agents.example"), tmp_path / "nginx.conf"
    own.private_key_and_cert_chain_pem.write_to_path(tmp_path / "all.pem")
    server = re.sub(r"/etc/ssl/agents.example/\w+\.pem", str(tmp_path / "all.pem"), block.text)
    other.write_text(f"pid {tmp_path}/pid;\nerror_log {tmp_path}/error.log;\nevents {{}}\nhttp {{\n{server}\n}}\n")
    done = subprocess.run(["nginx", "-t", "-p", str(tmp_path), "-c", str(other)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    [block] = blocks(ROOT / "docs" / "howto" / "systemd.md", "ini")
    unit = tmp_path / "sabir.service"
    unit.write_text(block.text.replace("/opt/sabir/.venv/bin/sabir", f'"{sys.executable}"'))
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True)
    assert "sabir.service" not in done.stderr, done.stderr
