"""The MCP wire: what a Message, a Card, a Question and a failure become, and that they come back."""

from __future__ import annotations

import pytest

from sabir.card import Card, Skill
from sabir.errors import BadMessage, SabirError, tree
from sabir.events import Field, Question
from sabir.message import Message, Part, binary_part, json_part, location_part, text_part, token_part, uri_part
from sabir.protocols.mcp.wire import cards as mcp_card
from sabir.protocols.mcp.wire import content as wire
from sabir.protocols.mcp.wire import elicitation as mcp_ask


def test_every_error_has_a_code() -> None:
    ours = {kind for kind in tree(SabirError) if kind.__module__ == "sabir.errors"}
    assert ours <= set(wire.CODES)


PARTS = {
    "text": text_part("hello"),
    "text in French": text_part("bonjour", "french"),
    "labelled text": text_part("hello", label="greeting"),
    "image": binary_part(b"\x89PNG", "image/png"),
    "audio": binary_part(b"RIFF", "audio/wav"),
    "labelled image": binary_part(b"\x89PNG", "image/png", label="logo"),
    "json": json_part({"a": [1, 2]}),
    "labelled json": json_part({"a": 1}, label="data"),
    "link": uri_part("https://example.com/report.pdf", label="the report"),
    "place": location_part(43.6, -116.2),
    "resource": Part("text", "english", "inside", extra={"uri": "test://x", "mimeType": "text/plain"}),
    "blob": Part("binary", "application/pdf", b"%PDF", extra={"uri": "test://y", "mimeType": "application/pdf"}),
}


@pytest.mark.parametrize("name", PARTS)
def test_a_part_becomes_a_block_and_comes_back(name: str) -> None:
    part = PARTS[name]
    assert wire.part_of(wire.block_of(part)) == part


def test_a_reply_is_text_for_people_and_structured_for_programs() -> None:
    reply = Message.of(text_part("It is 7."), json_part({"sum": 7}), token_part("sb1.x"))
    result = wire.result_of(reply)
    assert result["content"] == [
        {"type": "text", "text": "It is 7."},
        {
            "type": "text",
            "text": '{"sum":7}',
            "_meta": {wire.PART: {"format": "structured", "subformat": "json"}},
        },
    ]
    assert result["structuredContent"] == {"text": "It is 7.", "data": {"sum": 7}, "conversation": "sb1.x"}
    assert wire.message_of(result) == reply


def test_a_skill_with_an_output_schema_gives_exactly_that() -> None:
    skill = Skill("add", "Add", output_schema={"type": "object", "properties": {"sum": {"type": "number"}}})
    assert wire.result_of(Message.json({"sum": 7}), skill)["structuredContent"] == {"sum": 7}


def test_foreign_structured_content_is_kept() -> None:
    foreign = {"content": [{"type": "text", "text": "7"}], "structuredContent": {"sum": 7}}
    message = wire.message_of(foreign)
    assert wire.result_of(message, Skill("add", "Add")) == foreign


def test_an_error_result_is_a_message_of_type_error() -> None:
    message = wire.message_of({"content": [{"type": "text", "text": "no"}], "isError": True})
    assert message.is_error
    assert wire.result_of(message)["isError"] is True


LOST = {
    "tokens other than the conversation's": Message.of(
        text_part("hi"), token_part("theirs", "other"), token_part("sb1.ours")
    ),
    "message types other than error": Message.text("hi", messagetype="greeting"),
    "unknown fields of a message": Message("text", "english", "hi", extra={"mood": "good"}),
}


@pytest.mark.parametrize("loss", LOST)
def test_what_is_listed_as_lost_is_lost(loss: str) -> None:
    assert loss in wire.LOSSES
    assert wire.message_of(wire.result_of(LOST[loss])) != LOST[loss]


def test_arguments_carry_a_message() -> None:
    message = Message.of(text_part("look"), binary_part(b"\x89PNG", "image/png"))
    assert wire.asked(wire.arguments_of(message)) == message
    assert wire.asked({"text": "on", "conversation": "sb1.x"}).tokens == (token_part("sb1.x"),)


@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        ({"text": 1}, "text"),
        ({"text": "a", "conversation": 1}, "conversation"),
        ({"text": "a", "content": 1}, "content"),
    ],
)
def test_arguments_that_are_not_right_are_named(arguments: dict[str, object], where: str) -> None:
    with pytest.raises(BadMessage, match=where):
        wire.asked(arguments)


def test_missing_and_mistyped_arguments_are_reported_at_once() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    with pytest.raises(BadMessage, match=r"mcp: at \$\.arguments\.n: expected a value, because it is required"):
        wire.check_arguments(schema, {})
    with pytest.raises(BadMessage, match="a value of type integer"):
        wire.check_arguments(schema, {"n": True})


def test_an_agent_is_a_tool_and_so_is_each_skill_that_says_what_it_takes() -> None:
    card = Card("math", "Counts", skills=(Skill("add", "Add", input_schema={"type": "object"}), Skill("b", "B")))
    assert list(mcp_card.tools_of(card)) == ["math", "math-add"]
    alone = Card("add", skills=(Skill("add", "Add", input_schema={"type": "object"}),))
    assert list(mcp_card.tools_of(alone)) == ["add"]
    named = Card("shop.example", skills=(Skill("find it", "Find", input_schema={"type": "object"}),))
    assert list(mcp_card.tools_of(named)) == ["shop-example", "shop-example-find-it"]
    prompts = Card("prompts", skills=(Skill("p", "P", tags=("prompt",)),))
    assert mcp_card.tools_of(prompts) == {}


QUESTIONS = {
    "words": (Question("Name?"), Message.text("Ada")),
    "a form": (
        Question("Who?", schema={"type": "object", "properties": {"name": {"type": "string"}}}),
        Message.text("Ada", parts=(json_part({"name": "Ada"}, label="answer"),)),
    ),
    "fields": (
        Question("Which?", (Field("size", "Size", "single_select", ("S", "M")), Field("n", "How many", "number"))),
        Message.text("S, 2", parts=(json_part({"size": "S", "n": 2}, label="answer"),)),
    ),
    "declined": (Question("Name?"), Message.text("", parts=(json_part({"action": "decline"}, label="action"),))),
    "the model": (
        mcp_ask.Sampling.of("Capital of France?"),
        Message.of(text_part("Paris"), json_part({"model": "m", "role": "assistant"}, label="sampling")),
    ),
    "roots": (
        mcp_ask.Roots("Where?"),
        Message.text("file:///a", parts=(json_part({"roots": [{"uri": "file:///a"}]}, label="roots"),)),
    ),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_an_answer_becomes_a_response_and_comes_back(name: str) -> None:
    question, answer = QUESTIONS[name]
    assert mcp_ask.answer_of(question, mcp_ask.response_of(question, answer)).without_tokens().text == answer.text


@pytest.mark.parametrize("name", ["a form", "the model", "roots"])
def test_a_question_becomes_a_request_and_comes_back(name: str) -> None:
    question = QUESTIONS[name][0]
    request = mcp_ask.request_of(question)
    back = mcp_ask.question_of(request["method"], request["params"])
    assert type(back) is type(question)
    assert mcp_ask.request_of(back) == request


@pytest.mark.parametrize("response", [12345, None, {"action": "maybe"}, {"action": "accept", "content": {}}])
def test_a_response_that_answers_nothing_is_refused(response: object) -> None:
    with pytest.raises(BadMessage):
        mcp_ask.answer_of(Question("Name?"), response)
