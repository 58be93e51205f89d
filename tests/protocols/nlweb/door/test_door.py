"""The NLWeb door over real sockets: every decision W-1 to W-9 and W-13 that can be seen on the wire."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from conftest import Served, serving
from protocols.nlweb.agents import STEP, events
from protocols.nlweb.wire.test_wire import SEED
from sabir import Gateway, agent
from sabir.agents.echo import echo
from sabir.guard import Quotas
from sabir.protocols.nlweb.door.who import MAX_READ
from sabir.turn import Turn


def post(client: httpx2.Client, body: Any, path: str = "/ask", **headers: str) -> httpx2.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return client.post(path, content=content, headers={"content-type": "application/json", **headers})


def ask(client: httpx2.Client, text: str, path: str = "/ask", **sections: Any) -> dict[str, Any]:
    prefer = {"streaming": False, **sections.pop("prefer", {})}
    query = {"text": text, **sections.pop("query", {})}
    response = post(client, {"query": query, "prefer": prefer, **sections}, path)
    assert response.status_code == 200, response.text
    return dict(response.json())


# -- answers --------------------------------------------------------------------------------------


def test_the_seeds_own_request_gets_recipes_that_obey_its_filters_w4_w5(client: httpx2.Client) -> None:
    response = post(client, SEED)
    body = response.json()
    assert response.status_code == 200 and response.headers["content-type"] == "application/json"
    assert body["_meta"]["response_type"] == "Answer" and body["_meta"]["response_format"] == "chatgpt_app"
    session = body["_meta"]["session_context"]
    assert session["conversation_id"] == "conv_98765" and session["state_token"] == "encrypted_blob_xyz"
    items = body["structuredData"]
    assert items and body["structuredContent"] == {"results": items} and body["content"][0]["text"]
    for item in items:
        assert item["@type"] == "Recipe" and item["site"] == "pumpkins-r-us.com" and item["@id"]
        assert item["offers"]["price"] < 20
        assert "cinnamon" in json.dumps(item).lower()
        assert item["grounding"]["source_urls"] == [item["url"]]
        assert all(isinstance(citation, str) for citation in item["grounding"]["citations"])
    assert any("Pumpkin" in item["name"] for item in items)
    assert items[0]["actions"][0]["protocol"] == "HTTP"


def test_the_default_is_a_stream_unless_only_json_is_accepted_w3(client: httpx2.Client) -> None:
    body = {"query": {"text": "pumpkin"}}
    assert post(client, body).headers["content-type"].startswith("text/event-stream")
    assert post(client, body, accept="application/json").headers["content-type"] == "application/json"
    both = post(client, body, accept="application/json, text/event-stream")
    assert both.headers["content-type"].startswith("text/event-stream")
    said = post(client, {**body, "prefer": {"streaming": True}}, accept="application/json")
    assert said.headers["content-type"].startswith("text/event-stream")


def test_a_stream_has_named_events_that_are_whole_w2(client: httpx2.Client) -> None:
    body = {"query": {"text": "pumpkin soup"}, "prefer": {"response_format": "conv_search", "mode": "list, summarize"}}
    heard = events(post(client, body).text)
    names = [name for name, _ in heard]
    assert names[0] == "start" and names[-1] == "complete" and "result" in names
    assert heard[0][1]["_meta"]["response_type"] == "Answer"
    results = [data for name, data in heard if name == "result"]
    assert [data["index"] for data in results] == list(range(len(results)))
    assert all(data["results"] == [data["item"]] for data in results)
    assert results[-1]["item"]["@type"] == "Summary" and results[-1]["item"]["text"]
    assert heard[-1][1]["_meta"]["session_context"]["conversation_id"]


async def test_the_first_result_arrives_before_the_last_is_ranked(gateway: Served) -> None:
    gate = asyncio.Event()
    loop = asyncio.get_running_loop()
    made: dict[str, Any] = {}

    class Gate:
        async def wait(self) -> None:
            made["loop"], made["event"] = asyncio.get_running_loop(), asyncio.Event()
            loop.call_soon_threadsafe(gate.set)
            await made["event"].wait()

    STEP["go"] = Gate()  # type: ignore[assignment]
    async with httpx2.AsyncClient() as client:
        body = {"query": {"text": "go"}, "prefer": {"streaming": True}}
        async with client.stream("POST", f"{gateway.url}/ask/stepper", json=body) as response:
            lines = response.aiter_lines()
            text = ""
            while "urn:x:a" not in text:
                text += await anext(lines) + "\n"
            assert "urn:x:b" not in text  # the agent still waits for us
            await gate.wait()
            made["loop"].call_soon_threadsafe(made["event"].set)
            async for line in lines:
                text += line + "\n"
    names = [name for name, _ in events(text)]
    assert names == ["start", "result", "progress", "result", "content", "complete"]


def test_version_0_55_is_spoken_when_it_is_asked_for_w1(client: httpx2.Client) -> None:
    body = ask(client, "pumpkin", meta={"version": "0.55"})
    assert (body["_meta"]["response_type"], body["_meta"]["version"]) == ("answer", "0.55")
    heard = events(post(client, {"query": {"text": "pumpkin"}, "meta": {"version": "0.55"}}).text)
    assert "results" not in next(data for name, data in heard if name == "result")


def test_what_cannot_be_applied_is_reported_and_not_refused_w5(client: httpx2.Client) -> None:
    body = ask(client, "pumpkin", query={"wavelength": "over 500 nm"})
    assert body["_meta"]["ignored_filters"] == ["wavelength"]
    assert body["_meta"]["ignored_because"]["wavelength"]


def test_any_agent_can_be_asked_by_name_and_gives_its_text(client: httpx2.Client) -> None:
    body = ask(client, "hello", "/ask/echo", query={"price": "5"})
    assert body["content"][0]["text"].startswith("You said: hello")
    assert body["structuredData"] == [] and body["_meta"]["ignored_filters"] == ["price"]


def test_a_site_that_is_not_here_is_never_fetched_and_finds_nothing_w13(client: httpx2.Client) -> None:
    body = ask(client, "x", query={"site": "http://169.254.169.254/latest"})
    assert body["_meta"]["response_type"] == "Failure" and body["error"]["code"] == "NO_RESULTS"


def test_get_asks_as_post_does_w8(client: httpx2.Client) -> None:
    wanted = [item["name"] for item in ask(client, "pumpkin soup")["structuredData"]]
    for query in (
        {"query": "pumpkin soup", "prefer.streaming": "false"},
        {"query.text": "pumpkin soup", "prefer.streaming": "false"},
        {"query": '{"text": "pumpkin soup"}', "prefer": '{"streaming": false}'},
    ):
        response = client.get("/ask", params=query)
        assert [item["name"] for item in response.json()["structuredData"]] == wanted
    assert client.get("/ask", params={"query": "soup"}).headers["content-type"].startswith("text/event-stream")


def test_the_request_id_comes_back(client: httpx2.Client) -> None:
    assert ask(client, "pumpkin", meta={"request_id": "r-1"})["_meta"]["request_id"] == "r-1"


# -- conversations and questions ------------------------------------------------------------------


def test_a_session_context_goes_round_and_keeps_the_conversation(client: httpx2.Client) -> None:
    first = ask(client, "pumpkin pie", prefer={"response_format": "conv_search"})
    session = first["_meta"]["session_context"]
    assert session["conversation_id"].startswith("sb")
    second = ask(client, "without nuts", meta={"session_context": session})
    assert second["_meta"]["session_context"] == session
    assert "pie" in second["_meta"]["decontextualized_query"]


def test_a_question_back_is_an_elicitation_and_its_answer_continues_the_turn(client: httpx2.Client) -> None:
    body = ask(client, "paint", "/ask/asker")
    assert body["_meta"]["response_type"] == "Elicitation"
    assert body["elicitation"]["questions"][0] == {
        "id": "colour",
        "text": "Which colour?",
        "type": "single_select",
        "options": ["red", "blue"],
    }
    answered = ask(
        client,
        "that one",
        "/ask/asker",
        context={"answers": {"colour": "blue"}},
        meta={"session_context": body["_meta"]["session_context"]},
    )
    assert answered["content"][0]["text"] == "You chose blue."


def test_a_question_back_in_a_stream_ends_it(client: httpx2.Client) -> None:
    heard = events(post(client, {"query": {"text": "paint"}}, "/ask/asker").text)
    assert [name for name, _ in heard] == ["start", "elicitation", "complete"]
    assert heard[0][1]["_meta"]["response_type"] == "Elicitation"
    session = heard[-1][1]["_meta"]["session_context"]
    answer = ask(client, "red", "/ask/asker", meta={"session_context": session})
    assert answer["content"][0]["text"] == "You chose red."


def test_a_site_asks_for_the_facet_that_splits_best_and_continues_with_the_answer_w10(client: httpx2.Client) -> None:
    knows = {"api_version": "0.54"}
    body = ask(client, "recipes", "/ask/harbour", meta=knows)
    [question] = body["elicitation"]["questions"]
    assert question["type"] == "multi_select" and len(question["options"]) >= 2
    chosen = question["options"][0]
    assert chosen.endswith(")")  # options say how many there are
    session = {**knows, "session_context": body["_meta"]["session_context"]}
    answers = {question["id"]: [chosen]}
    answered = ask(client, "that", "/ask/harbour", context={"answers": answers}, meta=session)
    assert answered["structuredData"]
    assert all(chosen.startswith(item["recipeCategory"]) for item in answered["structuredData"])
    again = ask(client, "recipes", "/ask/harbour", context={"answers": answers})  # the same without a session
    asked = again.get("elicitation", {"questions": []})["questions"]
    assert question["id"] not in [entry["id"] for entry in asked]  # never twice for the same facet
    later = ask(client, "without nuts", "/ask/harbour", meta=session)
    assert later["_meta"]["decontextualized_query"] == "recipes without nuts"  # the topic is the question, not "that"


# -- refusals (W-6, W-7) --------------------------------------------------------------------------

REFUSALS: list[tuple[Any, int, str]] = [
    (b"{", 400, "INVALID_REQUEST"),
    ([], 400, "INVALID_REQUEST"),
    ({}, 400, "MISSING_FIELD"),
    ({"query": {}}, 400, "MISSING_FIELD"),
    ({"query": "flat", "site": "x"}, 400, "INVALID_REQUEST"),
    ({"query": {"text": "x"}, "prefer": {"mode": "sing"}}, 400, "UNSUPPORTED_MODE"),
    ({"query": {"text": "x"}, "prefer": {"response_format": "xml"}}, 400, "UNSUPPORTED_FORMAT"),
    ({"query": {"text": "x"}, "meta": {"api_version": "9.9"}}, 400, "UNSUPPORTED_VERSION"),
]


@pytest.mark.parametrize(("body", "status", "code"), REFUSALS)
def test_a_refusal_is_a_failure_in_json(client: httpx2.Client, body: Any, status: int, code: str) -> None:
    response = post(client, body)
    assert response.status_code == status and response.headers["content-type"] == "application/json"
    said = response.json()
    assert said["_meta"] == {"response_type": "Failure", "version": "0.54"}
    assert said["error"]["code"] == code and said["error"]["message"]


@pytest.mark.parametrize(("body", "status", "code"), REFUSALS)
def test_a_refusal_is_a_failure_in_a_stream(client: httpx2.Client, body: Any, status: int, code: str) -> None:
    response = post(client, body, accept="text/event-stream")
    assert response.status_code == status and response.headers["content-type"].startswith("text/event-stream")
    [(name, data)] = events(response.text)
    assert name == "error" and data["_meta"]["response_type"] == "Failure" and data["error"]["code"] == code


def test_the_flat_request_is_shown_its_nested_form_w7(client: httpx2.Client) -> None:
    message = post(client, {"query": "muffins", "site": "a.example", "prev": ["x"]}).json()["error"]["message"]
    assert '{"query":{"text":"muffins","site":"a.example"},"context":{"prev":["x"]}}' in message


def test_a_failing_agent_is_an_internal_error_without_its_text_w6(client: httpx2.Client) -> None:
    for accept in ("application/json", "text/event-stream"):
        response = post(client, {"query": {"text": "x"}}, "/ask/broken", accept=accept)
        assert response.status_code == 500
        assert "INTERNAL_ERROR" in response.text and "hunter2" not in response.text


def test_unknown_agents_and_methods_are_reported_in_nlweb(client: httpx2.Client) -> None:
    missing = post(client, {"query": {"text": "x"}}, "/ask/nobody")
    assert missing.status_code == 404 and missing.json()["error"]["code"] == "NOT_FOUND"
    put = client.put("/ask", content=b"{}")
    assert put.status_code == 405 and put.headers["allow"] == "GET, POST"
    assert put.json()["error"]["code"] == "INVALID_REQUEST"


def test_a_body_over_the_limit_is_refused(client: httpx2.Client, gateway: Served) -> None:
    peak = gateway.gateway.services.limits.body
    response = post(client, b'{"query": {"text": "' + b"x" * peak + b'"}}')
    assert response.status_code == 413 and response.json()["error"]["code"] == "TOO_LARGE"


def test_over_the_rate_is_429_with_when_to_come_back_w6(home: Path) -> None:
    with serving(Gateway(echo, home=home, quotas=Quotas(rate_per_address=1, burst=1))) as served:
        with httpx2.Client(base_url=served.url) as client:
            responses = [post(client, {"query": {"text": "x"}, "prefer": {"streaming": False}}) for _ in range(5)]
    refused = next(response for response in responses if response.status_code != 200)
    assert refused.status_code == 429 and int(refused.headers["retry-after"]) >= 1
    assert refused.json()["error"]["code"] == "RATE_LIMITED"


def test_a_repeated_idempotency_key_gets_the_recorded_answer(home: Path) -> None:
    @agent(description="counts")
    async def counter(turn: Turn) -> str:
        counter.calls = getattr(counter, "calls", 0) + 1
        return f"call {counter.calls}"

    body = {"query": {"text": "x"}, "prefer": {"streaming": False}}
    with serving(Gateway(counter, home=home)) as served:
        headers = {"idempotency-key": "k-1"}
        first, again = (httpx2.post(f"{served.url}/ask", json=body, headers=headers).json() for _ in range(2))
        other = httpx2.post(f"{served.url}/ask", json=body, headers={"idempotency-key": "k-2"}).json()
    assert first["content"] == again["content"] and first["content"][0]["text"] == "call 1"
    assert other["content"][0]["text"] == "call 2"


def test_a_turn_past_its_deadline_is_a_timeout(home: Path) -> None:
    @agent(description="never ends")
    async def sleeper(turn: Turn) -> str:
        await asyncio.Event().wait()
        return ""

    with serving(Gateway(sleeper, home=home, quotas=Quotas(turn_seconds=0.3))) as served:
        response = httpx2.post(f"{served.url}/ask/", json={"query": {"text": "x"}, "prefer": {"streaming": False}})
    assert response.status_code == 504 and response.json()["error"]["code"] == "TIMEOUT"


# -- discovery ------------------------------------------------------------------------------------


def test_sites_lists_what_can_be_asked_here(client: httpx2.Client) -> None:
    assert client.get("/sites").json() == {"message-type": "sites", "sites": ["pumpkins-r-us.com", "harbour.example"]}


def test_who_finds_agents_by_their_cards(client: httpx2.Client, gateway: Served) -> None:
    body = client.post("/who", json={"query": {"text": "which colour?"}, "meta": {"version": "0.1"}}).json()
    best = body["results"][0]
    assert best["definition"]["name"] == "asker" and best["endpoint"] == f"{gateway.url}/ask/asker"
    assert best["protocol"] == "nlweb" and 0 < best["score"] <= 100
    assert body["_meta"]["result_count"] == len(body["results"])
    everyone = client.get("/who", params={"query": ""}).json()["results"]
    assert {row["definition"]["name"] for row in everyone} == {"shop", "echo", "asker", "broken", "stepper", "harbour"}
    assert client.post("/who", json={"query": {"text": "", "domain": "pumpkins-r-us.com"}}).json()["results"]


def test_who_compares_only_the_beginning_of_a_long_text(
    client: httpx2.Client, gateway: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    async def held(self: object, text: str) -> dict[str, float]:
        seen.append(text)
        return {}

    monkeypatch.setattr(type(gateway.gateway.services.agents["shop"]), "held", held)
    long = "pumpkin" * 4000
    assert client.post("/who", json={"query": {"text": long}}).status_code == 200
    assert seen and all(len(text) <= MAX_READ for text in seen)
    refused = client.post("/who", json={"query": {"text": long * 2}})
    assert (refused.status_code, refused.json()["error"]["code"]) == (413, "TOO_LARGE")


def test_who_lists_every_address_of_each_agent(client: httpx2.Client, gateway: Served) -> None:
    rows = client.get("/who", params={"query": ""}).json()["results"]
    ways = {(row["protocol"], row["endpoint"]) for row in rows if row["definition"]["name"] == "asker"}
    web, socket = gateway.url, gateway.url.replace("http", "ws", 1)
    assert ways == {
        ("nlweb", f"{web}/ask/asker"),
        ("nlip", f"{web}/nlip/asker"),
        ("nlip", f"{socket}/nlip/asker/ws"),
        ("mcp", f"{web}/mcp/asker"),
        ("a2a", f"{web}/a2a/asker"),
        ("acl", f"{web}/acl/asker"),
    }
    default = {row["endpoint"] for row in rows if row["definition"]["name"] == "shop"}
    assert default == {
        f"{socket}/nlip/ws",
        *(f"{web}/{path}" for path in ("ask", "nlip", "mcp/shop", "a2a/shop", "acl/shop")),
    }
    one = client.post("/who", json={"query": {"text": "", "type": "mcp"}, "meta": {"max_results": 2}}).json()
    assert [row["protocol"] for row in one["results"]] == ["mcp", "mcp"]
    for protocol, endpoint in ways:  # and there it is
        if protocol == "mcp":
            ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
            assert client.post(
                endpoint, json=ping, headers={"accept": "application/json, text/event-stream"}
            ).is_success
        if protocol == "a2a":
            assert client.get(f"{endpoint}/.well-known/agent-card.json").json()["name"] == "asker"


def test_the_openapi_document_names_every_path_and_model(client: httpx2.Client) -> None:
    document = client.get("/openapi.json").json()
    assert set(document["paths"]) == {"/ask", "/ask/{agent}", "/await", "/await/{token}", "/who", "/sites"}
    schemas = document["components"]["schemas"]
    assert schemas["Query"]["required"] == ["text"] and schemas["Query"]["additionalProperties"] is True
    assert {"AskRequest", "AnswerResponse", "Promise", "Error", "Elicitation", "ResultObject"} <= set(schemas)


def test_ignored_filters_of_the_text_are_reported_with_their_words_w5(client: httpx2.Client) -> None:
    body = {"query": {"text": "a pumpkin dish for tonight"}, "prefer": {"streaming": False}}
    meta = client.post("/ask", json=body).json()["_meta"]
    assert meta["ignored_filters"] == ["text"]
    assert meta["ignored_because"] == {"text": "tonight: what was found is not tied to a day"}


@pytest.mark.parametrize("streaming", [False, True])
def test_an_error_uses_the_version_of_the_request_w1(client: httpx2.Client, streaming: bool) -> None:
    prefer = {"streaming": streaming, "mode": "sing"}
    body = {"query": {"text": "x"}, "prefer": prefer, "meta": {"version": 0.55, "request_id": "r1"}}
    response = client.post("/ask", json=body)
    answer = events(response.text)[0][1] if streaming else response.json()
    assert (answer["_meta"]["response_type"], answer["_meta"]["version"]) == ("failure", "0.55")
    assert (answer["_meta"]["request_id"], answer["error"]["code"]) == ("r1", "UNSUPPORTED_MODE")
    url = "/ask?query.text=x&prefer.mode=sing&meta.version=0.55&prefer.streaming=false"
    assert client.get(url).json()["_meta"]["response_type"] == "failure"


def test_a_stream_that_finds_nothing_is_one_error_event(client: httpx2.Client) -> None:
    body = {"query": {"text": "quantum chromodynamics"}, "prefer": {"streaming": True}}
    [(name, response)] = events(client.post("/ask", json=body).text)
    assert name == "error" and response["error"]["code"] == "NO_RESULTS"
    assert response["_meta"]["response_type"] == "Failure" and response["_meta"]["session_context"]["conversation_id"]


def test_a_client_that_accepts_only_events_gets_a_promise_in_events_w6(client: httpx2.Client) -> None:
    """The promise kept, and one that is unknown."""
    headers = {"accept": "text/event-stream"}
    unknown = client.post("/await", json={"promise_token": "nope", "action": "checkin"}, headers=headers)
    [(name, answer)] = events(unknown.text)
    assert (unknown.status_code, name, answer["error"]["code"]) == (404, "error", "UNKNOWN_PROMISE")
    body = {"query": {"text": "pumpkin"}, "prefer": {"streaming": False, "response_format": "conv_search"}}
    promised = client.post("/ask", json=body, headers={"prefer": "respond-async"}).json()
    asked = {"promise_token": promised["promise"]["token"], "action": "checkin"}
    heard = events(client.post("/await", json=asked, headers={**headers, "prefer": "wait=20"}).text)
    assert [name for name, _ in heard][:2] == ["start", "result"] and heard[-1][0] == "complete"
    assert heard[1][1]["results"] == [heard[1][1]["item"]] and heard[1][1]["item"]["@id"]


@pytest.mark.parametrize(("method", "body"), [("GET", None), ("POST", {}), ("POST", {"query": {"type": "mcp"}})])
def test_who_without_a_text_is_refused(client: httpx2.Client, method: str, body: object) -> None:
    answer = client.request(method, "/who", json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "MISSING_FIELD"
    assert "$.query.text" in answer.json()["error"]["message"]


def test_what_the_url_of_a_post_says_counts_where_the_body_says_nothing(client: httpx2.Client) -> None:
    url = "/ask/echo?query.text=from+the+URL&prefer.streaming=false&meta.request_id=r7"
    body = client.post(url, json={"query": {"text": "from the body"}}).json()
    assert body["content"][0]["text"] == "You said: from the body"
    assert body["_meta"]["request_id"] == "r7"
    alone = client.post(url, json={}).json()
    assert alone["content"][0]["text"] == "You said: from the URL"


def test_who_reads_the_url_of_a_post_too(client: httpx2.Client) -> None:
    def found(answer: httpx2.Response) -> list[Any]:
        assert answer.status_code == 200, answer.text
        return list(answer.json()["results"])

    by_url = found(client.post("/who?query.text=echo&meta.max_results=1", json={}))
    assert len(by_url) == 1 and by_url == found(client.get("/who?query=echo&meta.max_results=1&other=x"))
    assert found(client.post("/who?query.text=nothing-of-the-kind", json={"query": {"text": "echo"}})) != []
    assert found(client.post("/who?query.text=nothing-of-the-kind", json={"query": "echo"})) != []


URLS = {
    "dotted keys of 20,000 levels": (f"query.text=hi&query.{'a.' * 20_000}a=1", 413, "nesting"),
    "JSON of 9,000 levels": ('query={"text":"hi","x":' + "[" * 9_000 + "]" * 9_000 + "}", 413, "nesting"),
    "JSON of 100 levels": ('query={"text":"hi","x":' + "[" * 100 + "]" * 100 + "}", 413, "nesting"),
    "15,000 values": ('query={"text":"hi","x":[' + "1," * 15_000 + "1]}", 413, "values"),
    "JSON that breaks off": ('query={"text":"hi"', 400, "JSON"),
    "a number of 5,000 digits": ('query={"text":"hi","n":' + "9" * 5_000 + "}", 400, "JSON"),
    "not UTF-8": ("query=caf%e9", 400, "UTF-8"),
    "half a surrogate pair": ("query.text=%ed%a0%80", 400, "UTF-8"),
}


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("path", ["/ask", "/ask/echo", "/who"])
@pytest.mark.parametrize(("query", "status", "word"), URLS.values(), ids=URLS.keys())
def test_the_url_keeps_the_limits_of_a_body(
    client: httpx2.Client, method: str, path: str, query: str, status: int, word: str
) -> None:
    """JSON in a URL was bounded by nothing, and deep dotted keys were an internal error (issue 11, D 16)."""
    content = b"" if method == "GET" else b"{}"
    answer = client.request(method, f"{path}?{query}", content=content, headers={"accept": "application/json"})
    assert answer.status_code == status, answer.text
    assert word in answer.json()["error"]["message"]
