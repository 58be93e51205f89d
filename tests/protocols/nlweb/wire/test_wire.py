"""The NLWeb wire: requests in, responses out, no sockets."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qsl

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sabir.errors import BadInput, BadMessage, SabirError, TooLarge, UnknownVersion, Unreadable, tree
from sabir.events import Delta, Field, Progress, Question
from sabir.message import Message, json_part, text_part
from sabir.protocols.nlweb import wire as nlweb
from sabir.protocols.nlweb.wire.client import ResponseReader
from sabir.protocols.nlweb.wire.mapping import details_of_request
from sabir.protocols.nlweb.wire.models import plain
from sabir.protocols.nlweb.wire.requests import ask_of, ask_of_pairs, merged, nested, who_of
from sabir.protocols.nlweb.wire.responses import code_of

SEED = {
    "query": {
        "text": "something protein rich that has cinnamon in it",
        "site": "pumpkins-r-us.com",
        "itemType": "Recipe",
        "location": "Idaho",
        "price": "less than $20",
    },
    "context": {
        "@type": "ConversationalContext",
        "prev": ["breakfast muffins", "high fiber snacks"],
        "text": "User has been looking at different options...",
        "memory": "vegetarian, has a sweet tooth",
    },
    "prefer": {
        "streaming": False,
        "response_format": "chatgpt_app",
        "mode": "list",
        "accept-language": "en",
        "user-agent": "Copilot/1.0.0",
    },
    "meta": {
        "api_version": "0.54",
        "session_context": {"conversation_id": "conv_98765", "state_token": "encrypted_blob_xyz"},
    },
}
RECIPE = {"@type": "Recipe", "@id": "https://a.example/1", "name": "Pumpkin soup", "site": "a.example", "score": 71.5}
META = json_part({"question": "soup", "rewritten": False, "ignored": [], "total": 1, "coverage": 1.0}, label="meta")


KEYS = st.sampled_from(
    ["query", "context", "prefer", "meta", "text", "site", "mode", "prev", "memory", "streaming", "api_version",
     "score", "session_context", "start_num", "max_results", "@type", "@id", "url", "name", "actions", "grounding"]
)  # fmt: skip
PATHS = ["query", "query.text", "query.site", "query.price.max", "query.price", "prefer", "prefer.streaming",
         "prefer.mode", "meta.start_num", "meta.session_context.conversation_id", "context.prev"]  # fmt: skip


def ask(**sections: Any) -> nlweb.AskRequest:
    return nlweb.decode_ask(json.dumps({"query": {"text": "hi"}, **sections}).encode())


def answer_to(message: Message, **sections: Any) -> dict[str, Any]:
    return json.loads(nlweb.encode(nlweb.ResponseFormat.of(ask(**sections)).reply(message)))


def events(raw: bytes) -> list[tuple[str, dict[str, Any]]]:
    blocks = [block.split("\n") for block in raw.decode().strip().split("\n\n")]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in blocks]


# -- requests -------------------------------------------------------------------------------------


def test_the_seeds_own_request_is_read() -> None:
    request = nlweb.decode_ask(json.dumps(SEED).encode())
    assert request.query.text == "something protein rich that has cinnamon in it"
    assert request.query.site == ("pumpkins-r-us.com",)
    assert request.query.filters == {"itemType": "Recipe", "location": "Idaho", "price": "less than $20"}
    assert request.context.memory == ("vegetarian, has a sweet tooth",)
    assert request.prefer.streaming is False
    assert request.prefer.accept_language == "en" and request.prefer.user_agent == "Copilot/1.0.0"
    assert request.meta.session_context == nlweb.SessionContext("conv_98765", "encrypted_blob_xyz")


def test_every_further_attribute_of_a_query_is_a_filter_w5() -> None:
    request = ask(query={"text": "x", "colour": "red", "price": {"max": 5}, "suitableForDiet": ["vegan"]})
    assert request.query.filters == {"colour": "red", "price": {"max": 5}, "suitableForDiet": ["vegan"]}


def test_a_request_becomes_a_message_that_a_site_agent_reads() -> None:
    message = nlweb.message_of(nlweb.decode_ask(json.dumps(SEED).encode()))
    asked = message.labelled("ask")
    assert message.text == SEED["query"]["text"]  # type: ignore[index]
    assert asked is not None
    assert asked.value["filters"] == {
        "site": "pumpkins-r-us.com",
        "itemType": "Recipe",
        "location": "Idaho",
        "price": "less than $20",
    }
    assert tuple(asked.value["prev"]) == ("breakfast muffins", "high fiber snacks")
    assert [part.content for part in message.tokens] == ["conv_98765"]


def test_a_request_of_words_alone_becomes_words_alone() -> None:
    assert nlweb.message_of(ask()) == Message.text("hi")


def test_answers_to_an_elicitation_go_along_by_question_id_w10() -> None:
    message = nlweb.message_of(ask(context={"answers": {"recipeCategory": ["Dessert (12)"]}}))
    answer = message.labelled("answer")
    assert answer is not None and answer.value == {"recipeCategory": ["Dessert (12)"]}


@pytest.mark.parametrize(
    ("sections", "check"),
    [
        ({"query": {"text": "x", "site": "all"}}, lambda r: r.query.site == ()),
        ({"query": {"text": "x", "site": ["a", "b"]}}, lambda r: r.query.site == ("a", "b")),
        ({"context": {"prev": "one"}}, lambda r: r.context.prev == ("one",)),
        ({"prefer": {"mode": "list, summarize"}}, lambda r: r.prefer.mode == ("list", "summarize")),
        ({"prefer": {"mode": ["generate"]}}, lambda r: r.prefer.mode == ("generate",)),
        ({"prefer": {"response_format": "Conv_Search"}}, lambda r: r.prefer.response_format == "Conv_Search"),
        ({"meta": {"version": "0.55"}}, lambda r: r.meta.api_version == "0.55"),
        ({"meta": {"api_version": 0.54}}, lambda r: r.meta.api_version == "0.54"),
        ({"meta": {"user": {"id": "u"}, "remember": True}}, lambda r: r.meta.more["remember"] is True),
        ({"context": None, "prefer": None, "meta": None}, lambda r: r.prefer == nlweb.Prefer()),
        ({"query": {"text": "x", "max_results": 9, "num_results": 50}}, lambda r: details_of_request(r).limit == 9),
    ],
)
def test_readers_are_generous_where_clients_differ(sections: dict[str, Any], check: Any) -> None:
    assert check(ask(**sections))


@pytest.mark.parametrize(
    ("body", "kind", "where", "code"),
    [
        (b"{", Unreadable, "$", "INVALID_REQUEST"),
        (b"\xff\xfe", Unreadable, "$", "INVALID_REQUEST"),
        (b"[1]", BadMessage, "$", "INVALID_REQUEST"),
        (b"{}", BadMessage, "$.query", "MISSING_FIELD"),
        (b'{"query": 5}', BadMessage, "$.query", "INVALID_REQUEST"),
        (b'{"query": {}}', BadMessage, "$.query.text", "MISSING_FIELD"),
        (b'{"query": {"text": null}}', BadMessage, "$.query.text", "MISSING_FIELD"),
        (b'{"query": {"text": 5}}', BadMessage, "$.query.text", "INVALID_REQUEST"),
        (b'{"query": {"text": "x", "site": 5}}', BadMessage, "$.query.site", "INVALID_REQUEST"),
        (b'{"query": {"text": "x", "max_results": 0}}', BadMessage, "$.query.max_results", "INVALID_REQUEST"),
        (b'{"query": {"text": "x"}, "context": "y"}', BadMessage, "$.context", "INVALID_REQUEST"),
        (b'{"query": {"text": "x"}, "context": {"prev": [1]}}', BadMessage, "$.context.prev", "INVALID_REQUEST"),
        (b'{"query": {"text": "x"}, "prefer": {"mode": "sing"}}', BadMessage, "$.prefer.mode", "UNSUPPORTED_MODE"),
        (
            b'{"query": {"text": "x"}, "prefer": {"response_format": "xml"}}',
            BadMessage,
            "$.prefer.response_format",
            "UNSUPPORTED_FORMAT",
        ),
        (b'{"query": {"text": "x"}, "prefer": {"streaming": "maybe"}}', BadMessage, "$.prefer.streaming", None),
    ],
)
def test_what_is_wrong_is_refused_by_its_path_w6(
    body: bytes, kind: type[BadMessage], where: str, code: str | None
) -> None:
    with pytest.raises(kind) as refused:
        nlweb.decode_ask(body)
    assert refused.value.where == where
    assert code is None or code_of(refused.value) == (400, code)


def test_a_question_without_end_is_too_big() -> None:
    with pytest.raises(TooLarge):
        ask(query={"text": "x" * 40_000})


def test_an_unknown_version_is_refused_with_the_known_ones_w6() -> None:
    with pytest.raises(UnknownVersion, match=r"expected 0\.54 or 0\.55") as refused:
        nlweb.ResponseFormat.of(ask(meta={"api_version": "0.1"}))
    assert code_of(refused.value) == (400, "UNSUPPORTED_VERSION")


def test_the_flat_request_is_refused_with_its_own_nested_form_w7() -> None:
    flat = {
        "query": "some text",
        "site": "example.com",
        "prev": ["previous query"],
        "context": "some context",
        "streaming": True,
        "num_results": 50,
    }
    shown = {
        "query": {"text": "some text", "site": "example.com", "num_results": 50},
        "context": {"prev": ["previous query"], "text": "some context"},
        "prefer": {"streaming": True},
    }
    assert nested(flat) == shown
    with pytest.raises(BadMessage) as refused:
        nlweb.decode_ask(json.dumps(flat).encode())
    assert json.loads(str(refused.value).split("nested form: ")[1]) == shown
    assert nlweb.decode_ask(json.dumps(shown).encode()).query.text == "some text"


@pytest.mark.parametrize("session", ["abc", 5, [1], True])
def test_a_flat_request_with_a_section_that_is_not_an_object_is_shown_a_nested_form_w7(session: object) -> None:
    flat = {"query": "soup", "meta": {"session_context": session}, "conversation_id": "c"}
    with pytest.raises(BadMessage, match="nested form"):
        nlweb.decode_ask(json.dumps(flat).encode())
    assert nested(flat)["meta"] == {"session_context": {"conversation_id": "c"}}


@pytest.mark.parametrize(
    "pairs",
    [
        [("query", "soup")],
        [("query.text", "soup")],
        [("query", '{"text": "soup"}')],
    ],
)
def test_a_get_request_is_read_in_each_of_its_forms_w8(pairs: list[tuple[str, str]]) -> None:
    more = [("prefer.streaming", "false"), ("query.site", "a.example"), ("query.max_results", "3")]
    request = ask_of_pairs([*pairs, *more])
    assert (request.query.text, request.query.site, request.query.max_results) == ("soup", ("a.example",), 3)
    assert request.prefer.streaming is False


def test_a_flat_get_request_is_refused_with_its_dotted_form_w7() -> None:
    with pytest.raises(BadMessage, match=r"query\.text=soup&query\.site=a\.example"):
        ask_of_pairs([("query", "soup"), ("site", "a.example")])


def test_await_requests_are_read_and_refused() -> None:
    assert nlweb.decode_await(b'{"promise_token": "t", "action": "cancel"}').action == "cancel"
    for body, code in (
        (b'{"action": "checkin"}', "MISSING_FIELD"),
        (b'{"promise_token": "t"}', "INVALID_ACTION"),
        (b'{"promise_token": "t", "action": "eat"}', "INVALID_ACTION"),
        (b'{"promise_token": 7, "action": "checkin"}', "INVALID_REQUEST"),
    ):
        with pytest.raises(BadMessage) as refused:
            nlweb.decode_await(body)
        assert code_of(refused.value) == (400, code)


# -- responses ------------------------------------------------------------------------------------


def test_the_default_format_is_the_chatgpt_app_w4() -> None:
    body = answer_to(Message.of(text_part("One soup."), META, json_part(RECIPE, label="result")))
    assert body["_meta"] == {"response_type": "Answer", "version": "0.54", "response_format": "chatgpt_app"}
    assert body["content"][0]["type"] == "text" and body["content"][0]["text"] == "One soup."
    assert body["structuredData"] == [RECIPE]
    assert body["structuredContent"] == {"results": [RECIPE]}
    assert "results" not in body


@pytest.mark.parametrize("name", ["conv_search", "conversational_search"])
def test_conversational_search_gives_results_and_echoes_its_name_w4(name: str) -> None:
    body = answer_to(Message.of(META, json_part(RECIPE, label="result")), prefer={"response_format": name})
    assert body["_meta"]["response_format"] == name
    assert body["results"] == [RECIPE]
    assert "content" not in body


def test_the_case_of_response_types_and_the_summary_go_by_version_w1() -> None:
    summary = json_part(
        {"text": "It is soup. [1]", "citations": [{"text": "Soup.", "url": "u", "name": "n"}]}, label="summary"
    )
    message = Message.of(META, json_part(RECIPE, label="result"), summary)
    for version, answer, kind in (("0.54", "Answer", "Summary"), ("0.55", "answer", "SearchSummary")):
        body = answer_to(message, meta={"version": version}, prefer={"response_format": "conv_search"})
        assert body["_meta"]["response_type"] == answer and body["_meta"]["version"] == version
        assert body["results"][-1]["@type"] == kind
        assert body["results"][-1]["text"] == "It is soup. [1]"
        assert body["results"][-1]["grounding"] == {"source_urls": ["u"], "citations": ["n: Soup."]}


def test_a_result_gets_what_clients_drop_it_without() -> None:
    body = answer_to(Message.of(META, json_part({"name": "bare"}, label="result")))
    assert set(body["structuredData"][0]) == {"@type", "@id", "name", "site", "score"}


def test_a_result_that_fits_no_model_is_sent_and_not_blamed_on_the_caller() -> None:
    odd = {"@type": "Recipe", "score": "high", "url": ["u"], "actions": [5], "grounding": "here", "name": {"en": "x"}}
    [item] = answer_to(Message.of(META, json_part(odd, label="result")))["structuredData"]
    assert item["@type"] == "Recipe" and item["score"] == 0.0 and isinstance(item["@id"], str)
    assert item["name"] == {"en": "x"} and item["url"] == ["u"]


def test_an_agent_that_is_not_a_site_returns_its_text() -> None:
    assert answer_to(Message.text("hello"))["content"][0]["text"] == "hello"
    results = answer_to(Message.text("hello"), prefer={"response_format": "conv_search"})["results"]
    assert [(result["@type"], result["text"]) for result in results] == [("Answer", "hello")]


def test_an_agent_without_a_site_reports_that_no_filter_was_applied_w5() -> None:
    body = answer_to(Message.text("hello"), query={"text": "x", "site": "a", "price": "5"})
    assert body["_meta"]["ignored_filters"] == ["site", "price"]


def test_nothing_found_is_the_failure_no_results_w6() -> None:
    nothing = json_part({"question": "x", "rewritten": False, "ignored": [], "total": 0, "coverage": 1.0}, label="meta")
    body = answer_to(Message.of(text_part("I found nothing for that."), nothing))
    assert body["_meta"]["response_type"] == "Failure"
    assert body["error"] == {"code": "NO_RESULTS", "message": "I found nothing for that."}


def test_a_question_is_an_elicitation() -> None:
    question = Question(
        "Which?", (Field("kind", "Which kind?", "multi_select", ("a", "b")), Field("sure", "Sure?", "boolean"))
    )
    body = json.loads(nlweb.encode(nlweb.ResponseFormat().question(question)))
    assert body["elicitation"] == {
        "text": "Which?",
        "questions": [
            {"id": "kind", "text": "Which kind?", "type": "multi_select", "options": ["a", "b"]},
            {"id": "sure", "text": "Sure?", "type": "single_select", "options": ["yes", "no"]},
        ],
    }


def test_the_session_context_comes_back_like_a_cookie() -> None:
    sent = {"conversation_id": "conv_98765", "state_token": "encrypted_blob_xyz", "cart": [1]}
    response_format = nlweb.ResponseFormat.of(ask(meta={"session_context": sent}))
    session = response_format.session_with("ours")
    assert session is not None
    assert plain(session) == {**sent, "conversation_token": "ours"}
    again = nlweb.ResponseFormat.of(ask(meta={"session_context": plain(session)}))
    assert again.session_with("ours") == session
    assert plain(nlweb.ResponseFormat().session_with("ours") or nlweb.SessionContext()) == {"conversation_id": "ours"}


# -- events ---------------------------------------------------------------------------------------


def test_events_of_0_54_can_be_read_without_their_names_w2() -> None:
    stream = nlweb.Stream(nlweb.ResponseFormat.of(ask(prefer={"response_format": "conv_search"})))
    raw = stream.piece(Delta(json_part(RECIPE, label="result")))
    raw += stream.reply(Message.of(text_part("words"), META, json_part(RECIPE, label="result")))
    heard = events(raw)
    assert [name for name, _ in heard] == ["start", "result", "complete"]
    assert heard[0][1]["_meta"]["response_type"] == "Answer"
    assert heard[1][1] == {"index": 0, "item": RECIPE, "results": [RECIPE]}
    assert heard[2][1]["_meta"]["version"] == "0.54"


def test_events_of_0_55_carry_items_only_w1() -> None:
    stream = nlweb.Stream(nlweb.ResponseFormat.of(ask(meta={"version": "0.55"})))
    heard = events(stream.reply(Message.of(text_part("words"), META, json_part(RECIPE, label="result"))))
    assert [name for name, _ in heard] == ["start", "result", "content", "complete"]
    assert heard[1][1] == {"index": 0, "item": RECIPE}
    assert heard[2][1] == {"type": "text", "text": "words"}


def test_progress_is_an_event_of_its_own() -> None:
    heard = events(nlweb.Stream(nlweb.ResponseFormat()).piece(Progress(0.5, "half")))
    assert heard[1] == ("progress", {"progress": 0.5, "message": "half"})


def test_a_failure_in_a_stream_has_meta_and_error_in_one_event() -> None:
    raw = nlweb.Stream(nlweb.ResponseFormat()).response(nlweb.ResponseFormat().no_results())
    [(name, data)] = events(raw)
    assert name == "error"
    assert data["_meta"]["response_type"] == "Failure" and data["error"]["code"] == "NO_RESULTS"


# -- anything at all --------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=12,
)


@given(JSON)
@settings(max_examples=400, deadline=None)
def test_any_json_is_read_or_refused_with_a_place(value: Any) -> None:
    body = value if not isinstance(value, dict) else {"query": {"text": "x"}, **value}
    try:
        request = nlweb.decode_ask(json.dumps(body).encode())
        nlweb.message_of(request)
        nlweb.ResponseFormat.of(request)
    except BadInput as refused:
        assert refused.where.startswith("$") and code_of(refused)[0] in (400, 413)


@given(st.lists(st.tuples(st.sampled_from(PATHS) | st.text(max_size=6), st.text(max_size=8)), max_size=6))
@settings(max_examples=300, deadline=None)
def test_any_url_is_read_or_refused_with_a_place(pairs: list[tuple[str, str]]) -> None:
    try:
        ask_of_pairs(pairs)
    except BadInput as refused:
        assert refused.where.startswith("$")


@given(JSON)
@settings(max_examples=300, deadline=None)
def test_any_result_of_an_agent_can_be_sent(value: Any) -> None:
    message = Message.of(
        META, json_part({"@type": "Thing", **(value if isinstance(value, dict) else {})}, label="result")
    )
    assert len(answer_to(message)["structuredData"]) == 1


# -- tables ---------------------------------------------------------------------------------------


def test_every_error_has_a_status_and_a_code() -> None:
    assert {kind.__name__ for kind in tree(SabirError) if kind.__module__ == "sabir.errors"} == {
        kind.__name__ for kind in nlweb.CODES
    }


def test_what_nlweb_cannot_carry_is_said_and_true() -> None:
    message = Message.of(text_part("bonjour", "french"), json_part({"a": 1}, label="mine"))
    message = message.with_part(message.parts[0].__class__("binary", "image/png", b"\x89PNG"))
    body = json.dumps(answer_to(message))
    assert "french" not in body and "mine" not in body and "iVBOR" not in body and "[image/png, 4 bytes]" in body
    assert all(nlweb.LOSSES)


# -- what the seed and other clients write (C10) --------------------------------------------------


def test_a_query_is_made_with_its_filters_as_arguments() -> None:
    made = nlweb.Query(text="soup", itemType="Recipe", max_results=3)
    assert made == nlweb.Query("soup", max_results=3, filters={"itemType": "Recipe"})
    assert nlweb.plain(made) == {"text": "soup", "max_results": 3, "itemType": "Recipe"}
    with pytest.raises(TypeError):
        nlweb.Elicitation(text="Which?", colour="red")  # a closed model takes nothing else


def test_the_meta_of_responses_has_the_name_of_the_protocol() -> None:
    assert nlweb.AskResponseMeta("Answer", "0.54").response_type == "Answer"


MERGED = {
    "the URL adds": (
        "query.site=a.com&prefer.mode=summarize",
        {"query": {"text": "x"}},
        ("x", ("a.com",), ("summarize",)),
    ),
    "the body wins": (
        "query.text=url&query.site=a.com&prefer.mode=list",
        {"query": {"text": "body", "site": "b.com"}, "prefer": {"mode": "generate"}},
        ("body", ("b.com",), ("generate",)),
    ),
    "the URL has the query": ("query=words", {"prefer": {"mode": "summarize"}}, ("words", (), ("summarize",))),
    "JSON in the URL": ('query={"text":"j","site":"a.com"}', {"query": {"text": "k"}}, ("k", ("a.com",), ("list",))),
    "no URL": ("", {"query": {"text": "x"}}, ("x", (), ("list",))),
}


@pytest.mark.parametrize("name", MERGED)
def test_url_parameters_and_the_body_are_one_request(name: str) -> None:
    url, body, (text, site, modes) = MERGED[name]
    request = ask_of(merged(parse_qsl(url), body))
    assert (request.query.text, request.query.site, request.prefer.mode) == (text, site, modes)


def test_numbers_and_booleans_of_the_url_are_read_from_text() -> None:
    pairs = parse_qsl("query.max_results=3&prefer.streaming=false&meta.start_num=2")
    request = ask_of(merged(pairs, {"query": {"text": "x"}}))
    assert (request.query.max_results, request.prefer.streaming, request.meta.start_num) == (3, False, 2)


@pytest.mark.parametrize("value", [{}, {"query": {}}, {"query": {"type": "mcp"}}, {"query": None}])
def test_who_needs_a_text(value: object) -> None:
    with pytest.raises(BadMessage, match=r"\$\.query\.text: expected text that says what to look for.*it is missing"):
        who_of(value)


@pytest.mark.parametrize(
    ("query", "where"),
    [
        ({"text": "a" * 32_769}, "text"),
        ({"text": "x", "domain": "a" * 257}, "domain"),
        ({"text": "x", "type": "a" * 257}, "type"),
        ({"text": "x", "capabilities": ["a" * 257]}, "capabilities"),
        ({"text": "x", "capabilities": ["a"] * 101}, "capabilities"),
    ],
)
def test_who_is_refused_what_is_too_long_to_compare_with_every_agent(query: dict[str, Any], where: str) -> None:
    with pytest.raises(TooLarge, match=rf"\$\.query\.{where}: expected at most"):
        who_of({"query": query})


def test_who_with_an_empty_text_looks_for_everybody() -> None:
    assert who_of({"query": {"text": ""}}).text == ""


# -- what servers answer, by dialect --------------------------------------------------------------

DIALECTS = {
    "0.54": [
        {"results": [{"@type": "Recipe", "@id": "urn:x:1", "name": "Soup"}]},
        {"type": "text", "text": "One soup."},
    ],
    "0.55, as events": [
        ("result", {"index": 0, "item": {"@type": "Recipe", "@id": "urn:x:1", "name": "Soup"}}),
        ("content", {"type": "text", "text": "One "}),
        ("content", {"type": "text", "text": "soup."}),
    ],
    "0.54, for an app": [
        {
            "content": [{"type": "text", "text": "One soup."}],
            "structuredData": [{"@type": "Recipe", "@id": "urn:x:1", "name": "Soup"}],
        }
    ],
    "0.5": [
        {"message_type": "result_batch", "content": [{"@type": "Recipe", "@id": "urn:x:1", "name": "Soup"}]},
        {"message_type": "nlws", "content": "One soup."},
    ],
    "resources": [
        {
            "content": [
                {"type": "resource", "resource": {"data": {"@type": "Recipe", "@id": "urn:x:1", "name": "Soup"}}},
                {"Type": "text", "Text": "One soup."},
            ]
        }
    ],
}


@pytest.mark.parametrize("name", DIALECTS)
def test_every_dialect_says_the_same(name: str) -> None:
    reader = ResponseReader()
    for row in DIALECTS[name]:
        event, data = row if isinstance(row, tuple) else ("", row)
        list(reader.feed(data, event))
    reply = reader.reply()
    assert reply.text == "One soup."
    assert nlweb.results_of(reply) == [{"@type": "Recipe", "@id": "urn:x:1", "name": "Soup"}]
    assert reader.known


ENDS = {
    "0.54": ({"error": {"code": "NO_RESULTS", "message": "none"}}, {"elicitation": {"text": "Which?"}}),
    "0.5": ({"message_type": "error", "content": "none"}, {"message_type": "ask_user", "content": "Which?"}),
    "plain": ({"error": "none"}, {"elicitation": {"text": "Which?", "questions": [5]}}),
}


@pytest.mark.parametrize("name", ENDS)
def test_every_dialect_fails_and_asks(name: str) -> None:
    failed, asks = ResponseReader(), ResponseReader()
    list(failed.feed(ENDS[name][0]))
    list(asks.feed(ENDS[name][1]))
    assert failed.error is not None and failed.error.message == "none"
    assert asks.asked == Question("Which?")
