"""What the concierge reads out of words and JSON parts (D-27)."""

from __future__ import annotations

import time
from typing import Any

import pytest

from sabir.agents.control.grammar import ACTS, TOPIC_PHRASES, compiled
from sabir.agents.control.intents import TOPICS, infer_control, read, read_words
from sabir.agents.control.numbers import digits, spoken
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
    ("Send at most ten requests per minute", "limits", {"propose": {"rate_per_minute": 10}}),
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
    ("Answer only with yes or no", "vocabulary", {"words": ["yes", "no"]}),
    ("What are your NLIP Capabilities?", "capabilities", {}),
    ("Cancel", "cancel", {}),
    ("Never mind.", "cancel", {}),
    # Said as people say it.
    ("What are you able to do?", "capabilities", {}),
    ("Which languages do you speak?", "capabilities", {}),
    ("What formats do you support?", "capabilities", {}),
    ("Which file types can I send you?", "capabilities", {}),
    ("How do I send you a 3 GB video?", "upload", {}),
    ("I need to send you a large attachment", "upload", {}),
    ("How long do you keep my data?", "policy", {}),
    ("Do you share my data with third parties?", "policy", {}),
    ("Which country's law applies?", "policy", {}),
    ("I agree.", "policy", {"accept": ["*"]}),
    ("Yes, I accept all of it", "policy", {"accept": ["*"]}),
    ("Do not use my location", "policy", {"attributes": {"withhold": ["location"]}}),
    ("I'd rather not say who I am", "anonymous", {"propose": True}),
    ("Forget everything I said", "sessions", {"erase": True}),
    ("Please delete all my data", "sessions", {"erase": True}),
    ("Goodbye, we are done", "sessions", {"end": True}),
    ("Can we open another conversation?", "sessions", {}),
    ("Resume our last conversation", "context", {"resume": True}),
    ("Remember only the last 3 turns", "context", {"window": 3}),
    ("Only use the last ten messages as context", "context", {"window": 10}),
    ("Forget all but the last 5 turns", "context", {"window": 5}),
    ("I'll take care of the context myself", "context", {"keeper": "client"}),
    ("Switch the context to me", "context", {"keeper": "client"}),
    ("Move the history back to your side", "context", {"keeper": "server"}),
    ("Show me the last 10 messages", "history", {"horizon": 10}),
    ("What have I said so far?", "history", {}),
    ("Can you repeat our conversation?", "history", {}),
    ("Reply in JSON only", "accept", {"formats": ["structured/json"]}),
    ("My device displays nothing but plain text", "accept", {"formats": ["text"]}),
    ("Please answer in German", "accept", {"languages": ["german"]}),
    ("Send partial results as they come", "stream", {"on": True}),
    ("Turn streaming off", "stream", {"on": False}),
    ("Don't stream", "stream", {"on": False}),
    ("Do I need a password?", "authentication", {}),
    ("Stop", "cancel", {}),
    ("Please stop working on that", "cancel", {}),
    ("Forget it!", "cancel", {}),
    ("I want to cancel", "cancel", {}),
]

# A number is read as it is said: wrong by a factor, it would be agreed on, and enforced.
NUMBERS: list[tuple[str, dict[str, Any]]] = [
    ("Don't send me more than 500 bytes at a time", {"reply": 500}),
    ("Messages must not exceed 10 kilobytes", {"body": 10_240}),
    ("Please keep answers below 1.5 MB", {"reply": 1_572_864}),
    ("messages up to 0.5 kB", {"body": 512}),
    ("Set the maximum message size to 64 KiB", {"body": 65_536}),
    ("Limit messages to 64k", {"body": 65_536}),
    ("Set the maximum reply length to 1,500 bytes", {"reply": 1500}),
    ("Limit messages to 1.000.000 bytes", {"body": 1_000_000}),
    ("Make your answers shorter than two thousand bytes", {"reply": 2000}),
    ("Replies of at most two hundred and fifty thousand characters", {"reply": 250_000}),
    ("Limit messages to 2 thousand bytes", {"body": 2000}),
    ("no more than 30 requests/minute", {"rate_per_minute": 30}),
    ("I'd like at most one request per second", {"rate_per_minute": 60}),
    ("At most twenty-five questions a minute", {"rate_per_minute": 25}),
    ("At most 90 calls per hour", {"rate_per_minute": 1.5}),
    ("Limit the depth to 8 levels", {"depth": 8}),
    ("nesting of at most twelve", {"depth": 12}),
    ("At most 5 submessages", {"submessages": 5}),
    ("Limit messages to " + "9" * 20 + " bytes", {"body": 10**15}),
]


@pytest.mark.parametrize(("words", "proposed"), NUMBERS, ids=[words[:60] for words, _ in NUMBERS])
def test_numbers_are_read_exactly(words: str, proposed: dict[str, Any]) -> None:
    wish = read_words(words)
    assert wish is not None
    assert (wish.topic, wish.value) == ("limits", {"propose": proposed})


@pytest.mark.parametrize(
    ("said", "meant"),
    [("twenty-five", 25), ("a dozen", 12), ("one hundred and five", 105), ("2 thousand", 2000), ("1.5", 1.5),
     ("2,000", 2000), ("12_500", 12500), ("three million two hundred", 3_000_200), ("0", 0)],
)  # fmt: skip
def test_a_number_in_words_or_digits(said: str, meant: float) -> None:
    words = said.replace("-", " ").removeprefix("a ").replace(" and ", " ").split()
    assert (digits(said) if len(words) == 1 and said[0].isdigit() else spoken(words, "english")) == meant


@pytest.mark.parametrize(
    "words",
    ["I do not accept your privacy policy", "We don't agree to these terms", "I cannot accept your terms",
     "Must I accept your privacy policy?", "What happens if I accept your terms", "I will never consent to your policy",
     "I disagree with your privacy terms"],
)  # fmt: skip
def test_a_denial_or_a_question_is_not_consent(words: str) -> None:  # TR-7.1.5.1
    wish = read_words(words)
    assert wish is not None
    assert (wish.topic, wish.value) == ("policy", {})


@pytest.mark.parametrize(
    "words",
    ["Do not erase this conversation", "Please don't delete my data", "How do I delete my data?",
     "Never forget our conversation", "Please do not end this session", "When do you delete my data?"],
)  # fmt: skip
def test_nothing_is_erased_or_ended_by_a_denial_or_a_question(words: str) -> None:
    wish = read_words(words)
    assert wish is None or not (wish.value.get("erase") or wish.value.get("end"))


def test_what_cannot_be_read_is_taken_out_of_what_can() -> None:
    wish = read_words("I can't show images")
    assert wish is not None and wish.topic == "accept"
    assert "binary/image" not in wish.value["formats"]
    assert {"text", "structured/json", "binary/audio"} <= set(wish.value["formats"])


@pytest.mark.parametrize(("words", "topic", "value"), SAID, ids=[words for words, _, _ in SAID])
def test_plain_english_is_read(words: str, topic: str, value: dict[str, Any]) -> None:
    wish = read_words(words)
    assert wish is not None
    assert (wish.topic, wish.value) == (topic, value)


@pytest.mark.parametrize("words", ["", "gobbledygook", "the weather is fine", "42", "💥"])
def test_what_no_rule_knows_is_no_wish(words: str) -> None:
    assert read_words(words) is None


def test_every_topic_is_reached_by_words() -> None:
    read_by_rules = {act.topic for act in ACTS} | {phrases.topic for phrases in TOPIC_PHRASES}
    assert read_by_rules | {"cancel", "vocabulary"} == set(TOPICS)
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


@pytest.mark.parametrize("again", ["one hundred and ", "9,", "twenty-", "limit ", "not a b ", "show last ", "a dozen "])
def test_no_sentence_takes_long_to_read(again: str) -> None:  # SEC-DOS
    began = time.process_time()
    read_words(again * 1000)
    assert time.process_time() - began < 0.5  # a tenth of it here; quadratic matching took seconds


def attacks(pattern: str, length: int) -> set[str]:
    """Rows of tags that are long repetitions of what a pattern looks for, and then something else."""
    tags = sorted({char for char in pattern if ord(char) >= 0xE000})
    pairs = {one + other for one in tags[:12] for other in tags[:12]}
    return {(pump * length)[:length] + end for pump in {*tags, *pairs} for end in ("", "\uf8ff")}


def test_no_pattern_over_tags_takes_long() -> None:  # SEC-DOS
    for form, length in [(act, 400) for act in ACTS] + [(phrase, 2000) for phrase in TOPIC_PHRASES]:
        pattern = compiled(form.pattern)
        for row in attacks(pattern.pattern, length):
            began = time.process_time()
            pattern.fullmatch(row) if length == 400 else pattern.search(row)
            assert time.process_time() - began < 0.05, pattern.pattern


def test_a_reason_may_stand_beside_a_request_if_the_message_is_marked_as_control() -> None:
    said = "My connection is slow, so please answer in French."
    wish = read_words(said)
    assert wish is not None
    assert (wish.topic, wish.act) == ("accept", "languages")
    assert infer_control(Message(format="text", subformat="english", content=said)).messagetype is None


@pytest.mark.parametrize(
    ("said", "act"),
    [
        ("My phone is full. Please keep the history on your side.", "keeper server"),
        ("The partial answers distract me, please turn them off.", "stream off"),
        ("I have no space left, so keep the history on your side.", "keeper server"),
        ("Please keep the history, I have no place for it.", "keeper server"),
        ("I'm in a hurry, close this session.", "end"),
        ("Stop streaming, I only want whole answers.", "stream off"),
        ("The teacher dictated, please keep the history on your side.", None),
        ("He has no space left, so keep the history on your side.", None),
        ("My brother shouts, please close this session.", None),
        ("Ich habe keine Zeit, dieses Gespräch zu löschen.", None),
        ("Nehmen wir an, ich akzeptiere die Bedingungen.", None),
        ("What if I said ich bin in Eile, also beende die Sitzung.", None),
    ],
)
def test_a_reason_beside_a_request_must_be_the_speakers_own(said: str, act: str | None) -> None:
    wish = read_words(said)
    assert (wish.act or None if wish is not None else None) == act


@pytest.mark.parametrize(
    ("said", "act"),
    [
        ("¿Guardarías el historial?", "keeper server"),
        ("Guardarías el historial.", None),
        ("Activeriez-vous le mode anonyme ?", "anonymous on"),
        ("Tu activerais le mode anonyme.", None),
        ("Löschst du bitte dieses Gespräch?", "erase"),
        ("Löschst du dieses Gespräch?", None),
        ("I'd appreciate it if you streamed your answers.", "stream on"),
        ("You streamed your answers.", None),
        ("Would you mind sending whole answers?", "stream off"),
        ("This chat should be deleted, please.", "erase"),
        ("This chat should be deleted.", None),
    ],
)
def test_some_forms_of_a_verb_ask_only_in_a_question_or_with_please(said: str, act: str | None) -> None:
    wish = read_words(said)
    assert (wish.act or None if wish is not None else None) == act


def test_many_clauses_are_read_in_linear_time() -> None:  # SEC-DOS
    for again in ("x, ", "i am here so ", "my dog. "):
        began = time.process_time()
        read_words((again * 200)[:399])
        assert time.process_time() - began < 0.5, again
