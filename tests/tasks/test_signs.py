"""A node's sign is there while its process lives, however that ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from sabir.tasks.liveness import Sign

SHOW = """
import sys
from pathlib import Path
from sabir.tasks.liveness import Sign
sign = Sign(Path(sys.argv[1]), "other/node")
sign.show()
print("shown", flush=True)
sys.stdin.read()
"""


def test_a_node_that_is_killed_is_gone_and_one_that_lives_is_not(tmp_path: Path) -> None:
    folder = tmp_path / "nodes"
    mine = Sign(folder, "mine")
    mine.show()
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", SHOW, str(folder)], stdin=pipe, stdout=pipe, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "shown\n"
        assert mine.gone() == frozenset()
        other.kill()
    assert mine.gone() == {"other/node"}
    mine.forget(mine.gone())
    assert mine.gone() == frozenset()
    mine.take_away()
    assert list(folder.iterdir()) == []


def test_of_two_nodes_with_one_name_the_first_keeps_its_sign(tmp_path: Path) -> None:
    first, second, third = Sign(tmp_path, "same"), Sign(tmp_path, "same"), Sign(tmp_path, "third")
    for item in (first, second, third):
        item.show()
    second.take_away()
    assert third.gone() == frozenset()
    first.take_away()
    third.take_away()
    assert list(tmp_path.iterdir()) == []


def test_without_a_place_nothing_is_known(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for sign in (Sign(None, "mine"), Sign(tmp_path / "file" / "nodes", "mine")):
        sign.show()
        assert sign.gone() == frozenset()
        sign.take_away()
