"""An answer that is longer than the screen is written once, and not again with every piece of it."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from sabir.cli.streaming import StreamedMarkdown, finished

BLOCKS = [f"Block {number}.\n\n" for number in range(60)]


def written(blocks: list[str], whole: str) -> str:
    out = io.StringIO()
    shown = StreamedMarkdown(Console(file=out, force_terminal=True, width=60, height=10, color_system=None))
    with shown.live:
        for block in blocks:
            shown.add(block)
            shown.live.refresh()  # as its clock does
        shown.end(whole)
    return out.getvalue()


def test_a_block_that_is_finished_is_not_written_again() -> None:
    out = written(BLOCKS, "".join(BLOCKS).strip())
    times = [out.count(f"Block {number}.") for number in range(60)]
    assert min(times) > 0 and max(times) < 10  # while it is the last one, and in its place; of 60 drawings in all


def test_what_follows_the_streamed_words_is_written_below_them() -> None:
    out = written(BLOCKS, "".join(BLOCKS).strip() + "\n1. Soup (https://shop.example/soup)")
    assert out.count("shop.example") == 1 and out.index("Block 59.") < out.index("shop.example")


def test_an_answer_that_was_not_streamed_is_written() -> None:
    assert "Only at the end." in written([], "Only at the end.")


@pytest.mark.parametrize(
    ("words", "rest"),
    [
        ("One.", "One."),
        ("One.\n\n", "One.\n\n"),  # the next line may belong to it
        ("One.\n\nTwo", "Two"),
        ("One.\n\nTwo.\n\nThree", "Three"),
        ("- one\n\n- two", "- one\n\n- two"),
        ("1. one\n\n2. two", "1. one\n\n2. two"),
        ("- one\n\n  more of it", "- one\n\n  more of it"),
        ("```\na\n\nb\n", "```\na\n\nb\n"),
        ("```\na\n\nb\n```\n\nAfter", "After"),
        ("Before.\n\n```\na\n\nb\n", "```\na\n\nb\n"),
        ("> quoted\n\n> again", "> quoted\n\n> again"),
    ],
)
def test_a_block_ends_where_nothing_can_belong_to_it_any_more(words: str, rest: str) -> None:
    assert words[finished(words) :] == rest
