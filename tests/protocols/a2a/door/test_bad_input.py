"""What may come at the A2A door: the protocol's own codes, and nothing from inside."""

from __future__ import annotations

import gzip
import json
from typing import Any

import httpx
import pytest

from conftest import Served
from protocols.a2a.a2a_bench import Bench
from sabir.gateway.gateway import Gateway

SEND = {"message": {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "hi"}]}}
V1 = {"a2a-version": "1.0", "content-type": "application/json"}
INSIDE = ("Traceback", "Error:", "protobuf", "google.protobuf", "pydantic", "site-packages", "sabir/", "msgspec")


@pytest.fixture
def url(shared: Served) -> str:
    return shared.url


def rpc(method: str, params: Any = SEND, **more: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": params, **more}).encode()


def deep(levels: int) -> bytes:
    part = b'{"data":' + b"[" * levels + b"]" * levels + b"}"
    return rpc("SendMessage").replace(b'{"text": "hi"}', part)


MALFORMED = [
    ("not JSON", b"{", 200, -32700),
    ("nothing", b"", 200, -32700),
    ("half a surrogate", rpc("SendMessage").replace(b"hi", b"\\ud800"), 200, -32700),
    ("not UTF-8", rpc("SendMessage").replace(b"hi", b"\xff"), 200, -32700),
    ("a batch", b"[" + rpc("SendMessage") + b"]", 200, -32600),
    ("a string", b'"hello"', 200, -32600),
    ("no version of JSON-RPC", b'{"id":7,"method":"SendMessage","params":{}}', 200, -32600),
    ("another version of JSON-RPC", rpc("SendMessage", jsonrpc="1.0"), 200, -32600),
    ("no method", b'{"jsonrpc":"2.0","id":7}', 200, -32600),
    ("a method that is a number", b'{"jsonrpc":"2.0","id":7,"method":5}', 200, -32600),
    ("an id that is an object", rpc("SendMessage", id={}), 200, -32600),
    ("an id that is a truth", rpc("SendMessage", id=True), 200, -32600),
    ("an unknown method", rpc("SendMassage"), 200, -32601),
    ("params that are a list", rpc("SendMessage", []), 200, -32602),
    ("params that are null", rpc("SendMessage", None), 200, -32602),
    ("no message", rpc("SendMessage", {}), 200, -32602),
    ("a message that is a string", rpc("SendMessage", {"message": "hi"}), 200, -32602),
    ("no parts", rpc("SendMessage", {"message": {"messageId": "1", "role": "ROLE_USER", "parts": []}}), 200, -32602),
    ("no message id", rpc("SendMessage", {"message": {"role": "ROLE_USER", "parts": [{"text": "a"}]}}), 200, -32602),
    ("no role", rpc("SendMessage", {"message": {"messageId": "1", "parts": [{"text": "a"}]}}), 200, -32602),
    ("an empty part", rpc("SendMessage").replace(b'{"text": "hi"}', b"{}"), 200, -32602),
    ("two contents", rpc("SendMessage").replace(b'"hi"', b'"hi", "url": "http://x"'), 200, -32602),
    ("not base64", rpc("SendMessage").replace(b'{"text": "hi"}', b'{"raw": "!!"}'), 200, -32602),
    ("a token in disguise", rpc("SendMessage").replace(
        b'"hi"', b'"hi", "metadata": {"nlip": {"format": "token", "subformat": "authentication"}}'), 200, -32602),
    ("an unknown task", rpc("GetTask", {"id": "nope"}), 200, -32001),
    ("no task", rpc("GetTask", {}), 200, -32602),
    ("a page of minus one", rpc("ListTasks", {"pageSize": -1}), 200, -32602),
    ("a page token of ours that is not", rpc("ListTasks", {"pageToken": "%%%"}), 200, -32602),
    ("a negative history", rpc("SendMessage", {**SEND, "configuration": {"historyLength": -1}}), 200, -32602),
    ("100,000 levels", deep(100_000), 413, -32600),
    ("1,000 levels", deep(1_000), 413, -32600),
    ("100 levels", deep(100), 413, -32600),
    ("257 parts more", rpc("SendMessage").replace(
        b'[{"text": "hi"}]', b"[" + b",".join([b'{"text":"a"}'] * 300) + b"]"), 413, -32600),
]  # fmt: skip


@pytest.mark.parametrize(("body", "status", "code"), [case[1:] for case in MALFORMED], ids=[c[0] for c in MALFORMED])
async def test_bad_requests_get_the_codes_of_the_protocol(
    url: str, http: httpx.AsyncClient, body: bytes, status: int, code: int
) -> None:
    answer = await http.post(f"{url}/a2a/echo", content=body, headers=V1)
    reply = answer.json()
    assert (answer.status_code, reply["error"]["code"]) == (status, code), reply
    assert reply["jsonrpc"] == "2.0"
    assert reply["id"] in (7, None)
    assert reply["error"]["data"][0]["domain"] == "a2a-protocol.org"
    assert not [word for word in INSIDE if word in answer.text], answer.text
    assert len(answer.content) < 1000


async def test_errors_say_where_and_what_was_expected(url: str, http: httpx.AsyncClient) -> None:
    answer = await http.post(f"{url}/a2a", content=rpc("SendMessage", {"message": {"parts": 5}}), headers=V1)
    assert answer.json()["error"] == {
        "code": -32602,
        "message": "a2a: at $.params.message.parts: expected an array",
        "data": [
            {
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": "INVALID_PARAMS",
                "domain": "a2a-protocol.org",
                "metadata": {},
            },
            {
                "@type": "type.googleapis.com/google.rpc.BadRequest",
                "fieldViolations": [
                    {
                        "field": "$.params.message.parts",
                        "description": "expected an array",
                    }
                ],
            },
        ],
    }


async def test_fields_of_later_versions_are_passed_over(url: str, http: httpx.AsyncClient) -> None:
    params = {**SEND, "novelty": {"a": 1}}
    answer = await http.post(f"{url}/a2a/echo", content=rpc("SendMessage", params), headers=V1)
    assert answer.json()["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize("version", ["2.0", "9", "banana", "0.3"])
async def test_a_version_that_is_not_spoken_or_lacks_it(url: str, http: httpx.AsyncClient, version: str) -> None:
    headers = {**V1, "a2a-version": version}
    answer = await http.post(f"{url}/a2a", content=rpc("SendMessage"), headers=headers)
    assert answer.json()["error"]["code"] == -32009
    answer = await http.post(f"{url}/a2a/echo/message:send", json=SEND, headers=headers)
    assert (answer.status_code, answer.json()["error"]["details"][0]["reason"]) == (400, "VERSION_NOT_SUPPORTED")


async def test_no_version_means_0_3_which_has_no_such_method(url: str, http: httpx.AsyncClient) -> None:
    answer = await http.post(f"{url}/a2a", content=rpc("SendMessage"), headers={"content-type": "application/json"})
    assert answer.json()["error"]["code"] == -32009
    assert "absent means 0.3" in answer.json()["error"]["message"]


async def test_a_body_over_the_limit_is_refused_before_it_is_read(url: str, http: httpx.AsyncClient) -> None:
    body = rpc("SendMessage").replace(b"hi", b"h" * (10 * 1024 * 1024))
    for place in ("/a2a", "/a2a/echo/message:send"):
        answer = await http.post(f"{url}{place}", content=body, headers=V1)
        assert answer.status_code == 413

    async def chunks():
        for _ in range(200):
            yield b" " * 65536

    answer = await http.post(f"{url}/a2a", content=chunks(), headers=V1)
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, -32600)


async def test_a_packed_body_is_not_unpacked(url: str, http: httpx.AsyncClient) -> None:
    bomb = gzip.compress(b" " * 200_000_000, 9)
    for place in ("/a2a", "/a2a/echo/message:send"):
        answer = await http.post(f"{url}{place}", content=bomb, headers={**V1, "content-encoding": "gzip"})
        assert answer.status_code == 415
        assert "identity" in answer.text


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
async def test_a_form_that_a_browser_could_post_is_refused(url: str, http: httpx.AsyncClient, kind: str) -> None:
    answer = await http.post(f"{url}/a2a", content=rpc("SendMessage"), headers={**V1, "content-type": kind})
    assert (answer.status_code, answer.json()["error"]["code"]) == (415, -32005)


async def test_other_hosts_and_origins_are_refused(url: str, http: httpx.AsyncClient) -> None:
    answer = await http.post(f"{url}/a2a", content=rpc("SendMessage"), headers={**V1, "host": "evil.example"})
    assert answer.status_code == 403
    answer = await http.post(f"{url}/a2a", content=rpc("SendMessage"), headers={**V1, "origin": "http://evil.example"})
    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers
    answer = await http.get(f"{url}/.well-known/agent-card.json", headers={"host": "evil.example"})
    assert answer.status_code == 403


async def test_a_page_of_an_allowed_origin_may_say_its_version(serve, home, http: httpx.AsyncClient) -> None:
    served = serve(Gateway(*Bench().agents(), home=home, origins=["https://page.example"]))
    asked = {"origin": "https://page.example", "access-control-request-method": "POST"}
    answer = await http.options(f"{served.url}/a2a", headers=asked)
    assert "a2a-version" in answer.headers["access-control-allow-headers"]
    answer = await http.post(f"{served.url}/a2a", content=rpc("SendMessage"), headers={**V1, **asked})
    assert answer.headers["access-control-allow-origin"] == "https://page.example"
    assert "result" in answer.json()


async def test_methods_and_paths_that_are_not_there(url: str, http: httpx.AsyncClient) -> None:
    answer = await http.get(f"{url}/a2a", headers=V1)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    answer = await http.put(f"{url}/a2a/echo/tasks/x", headers=V1)
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")
    for place in ("/a2a/nobody", "/a2a/echo/nothing", "/a2a/nobody/message:send", "/a2a/echo/.well-known/other"):
        answer = await http.post(f"{url}{place}", json=SEND, headers=V1)
        assert answer.status_code in (404, 405), place
        assert answer.json()["error"]["code"] in (404, 405)


@pytest.mark.parametrize(
    ("method", "place", "body", "status", "reason"),
    [
        ("POST", "message:send", b"{", 400, "PARSE_ERROR"),
        ("POST", "message:send", b"{}", 400, "INVALID_PARAMS"),
        ("POST", "message:stream", b"{}", 400, "INVALID_PARAMS"),
        ("GET", "tasks/nope", b"", 404, "TASK_NOT_FOUND"),
        ("GET", "tasks?pageSize=abc", b"", 400, "INVALID_PARAMS"),
        ("GET", "tasks/nope:subscribe", b"", 404, "TASK_NOT_FOUND"),
        ("POST", "tasks/nope:cancel", b"", 404, "TASK_NOT_FOUND"),
        ("GET", "tasks/nope/pushNotificationConfigs", b"", 404, "TASK_NOT_FOUND"),
    ],
)
async def test_the_http_binding_answers_with_its_statuses(
    url: str, http: httpx.AsyncClient, method: str, place: str, body: bytes, status: int, reason: str
) -> None:
    answer = await http.request(method, f"{url}/a2a/echo/{place}", content=body, headers=V1)
    reply = answer.json()["error"]
    assert (answer.status_code, reply["code"], reply["details"][0]["reason"]) == (status, status, reason)
    assert not [word for word in INSIDE if word in answer.text], answer.text


async def test_the_gateway_still_answers_after_all_of_it(url: str, http: httpx.AsyncClient) -> None:
    for _, body, _, _ in MALFORMED:
        await http.post(f"{url}/a2a/echo", content=body, headers=V1)
    answer = await http.post(f"{url}/a2a/echo", content=rpc("SendMessage"), headers=V1)
    assert answer.json()["result"]["task"]["artifacts"][0]["parts"][0]["text"] == "hi"
