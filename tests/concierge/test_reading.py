"""What the concierge reads out of words and JSON parts (D-27)."""

from __future__ import annotations

from typing import Any

import pytest

from sabir.agents.control.reading import RULES, TOPICS, read, read_words
from sabir.message import Message, json_part, text_part

SAID: list[tuple[str, str, dict[str, Any]]] = [
    ("Describe your NLIP Capabilities.", "capabilities", {}),
    ("What can you do?", "capabilities", {}),
    ("Which agents are there?", "capabilities", {}),
    ("What are your policies?", "policy", {}),
    ("List your policies", "policy", {}),
    ("What is your privacy policy?", "policy", {}),
    ("Under which jurisdiction do you work?", "policy", {}),
    ("I accept your privacy policy", "policy", {"accept": ["privacy"]}),
    ("We agree to your policies.", "policy", {"accept": ["*"]}),
    ("I have a large file; where can I upload it?", "upload", {}),
    ("Can I send you a big video?", "upload", {}),
    ("What are your limits?", "limits", {}),
    ("How large may a message be?", "limits", {}),
    ("Please limit messages to 2,000 bytes", "limits", {"propose": {"body": 2000}}),
    ("Keep your replies under 4 KB", "limits", {"propose": {"reply": 4096}}),
    ("Send at most ten requests per minute: 10 requests per minute", "limits", {"propose": {"rate_per_minute": 10}}),
    ("I will keep the context", "context", {"keeper": "client"}),
    ("Please keep the context for me", "context", {"keeper": "server"}),
    ("Let us both keep the context", "context", {"keeper": "both"}),
    ("Use a context window of five turns", "context", {"window": 5}),
    ("Who keeps the context?", "context", {}),
    ("Show me the history", "history", {}),
    ("Give me the history of the last 5 turns", "history", {"horizon": 5}),
    ("What did we say so far?", "history", {}),
    ("Close this session", "sessions", {"end": True}),
    ("End the conversation, please", "sessions", {"end": True}),
    ("Erase this conversation", "sessions", {"erase": True}),
    ("Which sessions do I have?", "sessions", {}),
    ("This is a headless session", "sessions", {"headless": True}),
    ("I want to stay anonymous", "anonymous", {"propose": True}),
    ("Can we talk in anonymous mode?", "anonymous", {}),
    ("Leave anonymous mode", "anonymous", {"propose": False}),
    ("I can only read text", "accept", {"formats": ["text"]}),
    ("I understand only structured json", "accept", {"formats": ["structured/json"]}),
    ("Please stream your answers", "stream", {"on": True}),
    ("No partial answers please", "stream", {"on": False}),
    ("What is your ethics statement?", "ethics", {}),
    ("Which security profile do you meet?", "security", {}),
    ("How do I log in?", "authentication", {}),
    ("Cancel", "cancel", {}),
    ("Never mind.", "cancel", {}),
]


@pytest.mark.parametrize(("words", "topic", "value"), SAID, ids=[words for words, _, _ in SAID])
def test_plain_english_is_read(words: str, topic: str, value: dict[str, Any]) -> None:
    wish = read_words(words)
    assert wish is not None
    assert (wish.topic, wish.value) == (topic, value)


@pytest.mark.parametrize("words", ["", "gobbledygook", "the weather is fine", "42", "💥"])
def test_what_no_rule_knows_is_no_wish(words: str) -> None:
    assert read_words(words) is None


def test_every_topic_is_reached_by_words() -> None:
    assert {rule.topic for rule in RULES} == set(TOPICS)
    assert {topic for _, topic, _ in SAID} == set(TOPICS)


def test_labelled_json_is_read_before_words_and_in_order() -> None:
    message = Message.text(
        "hello",
        messagetype="control",
        parts=[json_part({"propose": {"body": 1}}, label="Limits"), json_part('{"keeper": "both"}', label="context")],
    )
    assert [(wish.topic, wish.value) for wish in read(message)] == [
        ("limits", {"propose": {"body": 1}}),
        ("context", {"keeper": "both"}),
    ]


def test_labels_that_are_no_topic_are_ignored() -> None:
    assert read(Message.text("zzz", parts=[text_part("x", label="1"), json_part({}, label="chat")])) == []


def test_a_megabyte_of_words_is_read_quickly() -> None:
    assert read_words("limit messages " * 70_000) is not None
    assert read_words("x 1" * 300_000) is None
