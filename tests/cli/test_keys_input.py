"""A typo is reported with a suggestion, and does nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from sabir.cli.main import BAD_USAGE, main


@pytest.mark.parametrize("days", ["-1", "0", "nan", "inf", "1e300", "soon"])
def test_a_key_that_would_never_be_valid_is_not_made(
    days: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = ("--home", str(tmp_path / "home"))
    assert main(["keys", "add", "dave", "--days", days, *home]) == BAD_USAGE
    assert "--days: expected days above 0" in capsys.readouterr().err
    assert not (tmp_path / "home").exists()


def test_a_key_may_live_for_half_a_day(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "add", "dave", "--days", "0.5", "--home", str(tmp_path / "home")]) == 0
    assert "This is the key of dave" in capsys.readouterr().out


def test_a_site_has_a_name_that_an_agent_can_have(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, home = tmp_path / "page.md", tmp_path / "home"
    page.write_text("# Rope\n\nFive dollars.\n")
    assert main(["ingest", str(page), "--site", "bad name!", "--home", str(home)]) == BAD_USAGE
    assert "--site: a card's name is 1 to 64 letters" in capsys.readouterr().err
    assert not home.exists()


def test_a_site_that_is_not_there_cannot_be_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, home = tmp_path / "page.md", ("--no-vectors", "--home", str(tmp_path / "home"))
    assert main(["ingest", "--site", "nothere", "--delete", *home]) == BAD_USAGE
    assert "there is no site 'nothere'; no site has been ingested yet" in capsys.readouterr().err
    page.write_text("# Rope\n\nFive dollars.\n")
    assert main(["ingest", str(page), "--site", "ropes.example", *home]) == 0
    assert main(["ingest", "--site", "nothere", "--delete", *home]) == BAD_USAGE
    assert "choose from ropes.example" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (("serv",), "did you mean serve?"),
        (("keys", "ad", "dave"), "did you mean add?"),
        (("check", "--protocol", "nlwep", "http://127.0.0.1:9"), "did you mean nlweb?"),
        (("ask", "http://127.0.0.1:9", "hi", "--contol"), "unrecognized arguments: --contol; did you mean --control?"),
        (("keys", "add", "dave", "--dais=3"), "did you mean --days?"),
        (("ask", "--nosuch", "http://127.0.0.1:9", "hi"), "unrecognized arguments: --nosuch\n"),  # --ca is not like it
        (("frobnicate",), "invalid choice: 'frobnicate' (choose from"),
    ],
)
def test_a_typo_is_reported_with_a_suggestion(
    typed: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(typed) == BAD_USAGE
    assert said in capsys.readouterr().err
