"""``sabir keys`` and ``sabir audit``, as a user runs them."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from sabir.cli import main
from sabir.stores import open_store
from sabir.stores.open import is_there, shown
from stores.places import schema


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def out(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out


def test_a_key_is_made_listed_and_revoked(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "add", "alice", "--role", "staff", "--role", "ops", "--days", "2"]) == 0
    made = out(capsys)
    key, place = made.splitlines()[0], str(here / ".sabir" / "sabir.db")
    assert made.endswith(f"whose store is {place}, which was just created.\n")
    item_id = key.split("_")[1]
    assert main(["keys", "add", "bob", "--json"]) == 0
    added = json.loads(out(capsys))
    assert added["key"].startswith("sbk_") and added["store"] == place
    assert main(["keys", "list"]) == 0
    listed = out(capsys)
    assert listed.endswith(f"2 keys in {place}\n")
    assert item_id in listed and "staff, ops" in listed and key.split("_", 2)[2] not in listed
    assert main(["keys", "list", "--json"]) == 0
    assert all("hash" not in json.loads(line) for line in out(capsys).splitlines())
    assert main(["keys", "revoke", item_id]) == 0
    answer = f"revoked {item_id} (alice) in {here / '.sabir' / 'sabir.db'}\n"
    assert out(capsys) == f"{answer}A gateway that has just used it may accept it for up to 5 seconds more.\n"
    assert main(["keys", "revoke", item_id]) == 1
    assert capsys.readouterr().err == f"sabir: there is no key '{item_id}'\n"


def test_the_last_key_gone_the_store_is_named_all_the_same(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["keys", "add", "alice"])
    main(["keys", "revoke", out(capsys).split("_")[1]])
    out(capsys)
    assert main(["keys", "list"]) == 0
    assert out(capsys).startswith(f"There are no keys in {here / '.sabir' / 'sabir.db'}. ")
    assert main(["keys", "list", "--json"]) == 0
    assert out(capsys) == ""


def test_a_role_that_no_rule_knows_is_remarked_on(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "add", "alice", "--role", "staf"]) == 0
    assert capsys.readouterr().err == ""  # there are no rules
    (here / "sabir.yaml").write_text("rights: [{roles: [staff, known]}]\n")
    assert main(["keys", "add", "alice", "--role", "staff", "--role", "operator"]) == 0
    printed = capsys.readouterr()
    assert printed.err == "" and "made just now" not in printed.out
    assert main(["keys", "add", "alice", "--role", "staf", "--role", "xyz"]) == 0
    assert capsys.readouterr().err.splitlines() == [
        "sabir: no rule of the configuration knows the role 'staf'; did you mean staff?",
        "sabir: no rule of the configuration knows the role 'xyz'; they know known, operator, staff",
    ]


@pytest.mark.parametrize(
    "where", [(), ("--home", "nosuchdir"), ("--store", "sqlite:///nosuch.db"), ("--store", "memory:")], ids=str
)
@pytest.mark.parametrize("command", ["audit verify", "audit export", "keys list", "keys revoke x"])
def test_a_missing_store_is_reported_and_not_made(
    here: Path, capsys: pytest.CaptureFixture[str], command: str, where: tuple[str, ...]
) -> None:
    assert main([*command.split(), *where]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("sabir: there is no store at ") and printed.out == ""
    assert list(here.iterdir()) == []


def test_a_file_of_another_kind_is_not_a_store(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "empty.db").touch()
    assert main(["audit", "verify", "--store", "sqlite:///empty.db"]) == 2
    assert f"there is no store at {here / 'empty.db'}" in capsys.readouterr().err
    (here / "text.db").write_text("text, and rather more of it than a hundred bytes, so that it might be a store" * 9)
    assert main(["audit", "verify", "--store", "sqlite:///text.db"]) == 2
    assert capsys.readouterr().err == f"sabir: store: {here / 'text.db'}: file is not a database\n"


async def test_a_database_without_a_store_is_reported_and_left_unchanged() -> None:
    async with schema() as place:
        assert await is_there(place) is False
        store = open_store(place)
        await store.open()
        await store.close()
        assert await is_there(place) is True
        assert shown(place.replace("postgres@", "me:secret@")).partition("?search_path=")[0].endswith("/test")
        assert "secret" not in shown(place.replace("postgres@", "me:secret@") + "&password=secret")


def test_the_log_is_verified_and_a_changed_line_is_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b", "c"):
        main(["keys", "add", name])
    out(capsys)
    assert main(["audit", "verify"]) == 0
    said = out(capsys)
    assert said.startswith("3 lines, unbroken. Keep this anchor elsewhere for the next check: --anchor 3:")
    anchor = said.split()[-1]
    assert main(["audit", "verify", "--anchor", anchor, "--json"]) == 0
    assert json.loads(out(capsys))["broken"] == []
    with sqlite3.connect(here / ".sabir" / "sabir.db") as connection:
        connection.execute("""UPDATE audit SET line = replace(CAST(line AS TEXT), '"b"', '"x"') WHERE number = 2""")
    connection.close()
    assert main(["audit", "verify"]) == 1
    assert capsys.readouterr().err == "sabir: audit: line 2: was changed\n"
    assert main(["audit", "verify", "--anchor", "junk"]) == 2


def test_the_export_is_redacted_as_the_configuration_says(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "sabir.yaml").write_text("audit: {redact: [caller, name]}\n")
    main(["keys", "add", "alice"])
    item_id = out(capsys).split("_")[1]
    assert main(["audit", "export"]) == 0
    line = json.loads(out(capsys))
    assert line["caller"].startswith("~") and item_id not in str(line) and "name" not in line["detail"]
    assert main(["audit", "export", "--redact", "turn"]) == 0
    assert json.loads(out(capsys))["caller"] == f"key:{item_id}"


def test_what_is_to_be_hidden_is_a_field_that_lines_have(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "export", "--redact", "nosuchfield"]) == 2
    assert "--redact: unknown field 'nosuchfield'; choose from caller, conversation" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("identity: {issuer: []}", "did you mean identity.issuers?"),
        ("identity: {issuers: [{issuer: 'https://x', audience: []}]}", "audience: expected at least one name"),
        ("filters: [secret]", "there is no filter 'secret'; choose from prompt-injection, secrets, pii, inside, html"),
        ("services: [{origin: 'https://x', token: a, key: b}]", "needs exactly one of token, key or token_url"),
        ("outbound: {alow: []}", "did you mean outbound.allow?"),
        ("audit: {days: soon}", "days"),
        (
            "audit: {redact: [callr]}",
            "audit: redact: unknown field 'callr'; did you mean caller?",
        ),
        ("observe: {metric: true}", "did you mean observe.metrics?"),
        ("quotas: {daily_turn: 3}", "did you mean quotas.daily_turns?"),
    ],
)
def test_a_mistake_in_the_file_is_named(here: Path, capsys: pytest.CaptureFixture[str], text: str, said: str) -> None:
    (here / "sabir.yaml").write_text(text + "\nport: 0\n")
    assert main(["serve"]) == 2
    assert said in capsys.readouterr().err
