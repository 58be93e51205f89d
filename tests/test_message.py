"""Message and Part: pleasant to make, to read and to change."""

from __future__ import annotations

import pytest

from sabir.message import Message, Part, binary_part, json_part, language_name, language_tag, media_of, token_part


def test_a_text_is_made_and_read_by_the_same_word() -> None:
    message = Message.text("hi")
    assert message.text == "hi"
    assert (message.format, message.subformat, message.content) == ("text", "english", "hi")


def test_the_text_of_several_parts_is_all_their_words() -> None:
    assert Message.text("one").with_part(Part("text", "english", "two")).text == "one\ntwo"
    assert Message.json({"a": 1}).text == ""


def test_tokens_are_found_anywhere_and_removed() -> None:
    first = token_part("a")
    message = Message.of(first, Part("text", "english", "hi"), token_part("b", "authentication"))
    assert [part.content for part in message.tokens] == ["a", "b"]
    bare = message.without_tokens()
    assert bare.text == "hi"
    assert bare.tokens == ()
    assert Message.of(first).without_tokens().text == ""


def test_a_message_is_frozen_and_change_returns_a_new_one() -> None:
    message = Message.text("hi")
    with pytest.raises(AttributeError):
        message.content = "ho"  # type: ignore[misc]
    assert message.with_part(json_part({"a": 1})) is not message
    assert message.submessages == ()


def test_control_is_the_word_in_any_case_or_the_flag() -> None:
    assert Message.text("x", messagetype="CoNtRoL").is_control
    assert Message("text", "english", "x", control=True).is_control
    assert Message("text", "english", "x", control="true").is_control
    assert not Message("text", "english", "x", control="task").is_control
    assert not Message.text("x", messagetype="controls").is_control


@pytest.mark.parametrize(
    ("name", "tag"), [("English", "en"), ("en-US", "en"), ("", "en"), ("ESPAÑOL", "español"), ("de", "de")]
)
def test_names_and_tags_of_languages_are_one_thing(name: str, tag: str) -> None:
    """D-62."""
    assert language_tag(name) == tag


def test_a_language_is_named_in_lower_case_english() -> None:
    assert language_name("en-GB") == "english"
    assert language_name("tlh") == "tlh"


@pytest.mark.parametrize(
    ("subformat", "expected"),
    [
        ("image/png", ("image", "png")),
        ("video/.mp3", ("video", "mp3")),
        ("audio/wav;base64", ("audio", "wav")),
        ("jpeg", ("image", "jpeg")),
        ("webm", ("generic", "webm")),
        ("application/pdf", ("generic", "pdf")),
    ],
)
def test_kind_and_encoding_of_binary(subformat: str, expected: tuple[str, str]) -> None:
    """D-14."""
    assert media_of(subformat) == expected


def test_a_label_finds_its_part_in_any_case() -> None:
    message = Message.text("x").with_part(binary_part(b"1", "image/png", label="Photo"))
    found = message.labelled("photo")
    assert found is not None
    assert found.content == b"1"
