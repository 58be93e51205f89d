"""Requirement and decision ids lead somewhere: each id of the source and the tests has a row, and each row is used."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "scripts"))

import requirement_ids as ids  # noqa: E402


def test_every_id_of_the_source_and_the_tests_has_a_row() -> None:
    assert ids.without_a_row(ROOT) == []


def test_every_row_is_used_or_marked_as_open() -> None:
    assert ids.unused(ROOT) == []


def test_no_row_is_marked_as_open_once_a_test_names_it() -> None:
    assert ids.stale_open(ROOT) == [], "run make docs"


def test_every_id_has_one_row() -> None:
    rows = [row.id for page in ids.all_groups(ROOT).values() for group in page for row in group.rows]
    assert sorted(rows) == sorted(set(rows))
    assert [id_ for id_ in rows if not ids.ID.fullmatch(id_)] == []


def test_decisions_about_the_code_name_files_that_exist() -> None:
    places = [place for entry in ids.arrangement(ROOT) for place in entry["where"]]
    assert places
    assert [place for place in places if not (ROOT / place).exists()] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("(CORE-6.2.1, D-16)", ["CORE-6.2.1", "D-16"]),
        ("A check of CORE-6.2.", ["CORE-6.2"]),
        ("CORE-5.3-structured-not", ["CORE-5.3-structured-not"]),
        ("CORE-A and SEC-DOS-depth", ["CORE-A", "SEC-DOS-depth"]),
        ("SG 3.5, SG ID-7; DEP-FED", ["SG 3.5", "ID-7", "DEP-FED"]),
        ("ACL-7 to ACL-10", ["ACL-7", "ACL-10", "ACL-8", "ACL-9"]),
        ("UTF-8, UTF-16, SHA-256, AES-GCM, P-256, ES-256", []),
        ("RFC 9110, ECMA-430, ISO 8601, BCP 47, SEP-2663, HTTP/2, HTTP 404", []),
        ("AMQP-0-9-1, HTTP-date, [A-Z0-9], XW-12, D-16-A, HH-1001", []),
    ],
)
def test_an_id_is_a_known_family_and_a_number(text: str, found: list[str]) -> None:
    assert ids.ids_in(text) == found


@pytest.mark.parametrize(
    ("id_", "row"),
    [("CORE-6.2", "CORE-6.2"), ("CORE-6.2-first", "CORE-6.2"), ("CORE-6.2-a", "CORE-6.2-a"), ("CORE-6.20", None)],
)
def test_a_case_of_a_requirement_belongs_to_its_row(id_: str, row: str | None) -> None:
    assert ids.row_of(id_, {"CORE-6.2", "CORE-6.2-a"}) == row


def test_an_unknown_id_in_a_test_is_reported_by_name(tmp_path: Path) -> None:
    (tmp_path / "src" / "sabir").mkdir(parents=True)
    tests = tmp_path / "tests" / "protocols" / "acl" / "door"
    tests.mkdir(parents=True)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "requirements.md").write_text("| id |\n|---|\n| `ACL-1` |\n")
    (tests / "test_door.py").write_text("def test_a() -> None:  # ACL-1, ACL-99\n    pass\n")
    assert ids.without_a_row(tmp_path) == ["ACL-99"]
    assert ids.uses(tmp_path)["ACL-99"].tests == {("protocols/acl/door/test_door.py", "test_a")}


def test_a_row_that_nothing_uses_is_reported_by_name(tmp_path: Path) -> None:
    for name in ("src", "tests"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "docs" / "data", tmp_path / "docs" / "data")
    rows = tmp_path / "docs" / "data" / "requirements.toml"
    unused = '"ACL-' + '999" = { kind = "should", text = "Nobody tests this.", clause = "none" }\n'  # no use of the id
    rows.write_text(rows.read_text().replace('"ACL-35" = ', unused + '"ACL-35" = '))
    assert ids.unused(tmp_path) == ["ACL-" + "999"]
