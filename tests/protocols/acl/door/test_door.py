"""ACL over real sockets: messages, inboxes, the known clients, and what is refused how."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from uuid import uuid4

import pytest
from websockets.asyncio.client import connect as ws_connect

from acl_messages import message
from conftest import Served
from deadline import DEADLINE
from gates import Gate
from protocols.acl.conftest import Speaker


def act(text: dict[str, Any]) -> str:
    return str(text["performative"])


# -- POST /acl ------------------------------------------------------------------------------------


async def test_a_message_is_acknowledged_once_it_is_stored(eddy: Speaker) -> None:  # ACL-31, ACL-43
    sent = eddy.message()
    first, again = await eddy.post(sent), await eddy.post(sent)
    assert (first.status_code, first.json()["message_id"]) == (202, sent["message_id"])
    assert (first.json()["duplicate"], again.json()["duplicate"]) == (False, True)


async def test_the_first_reply_comes_with_prefer_wait(eddy: Speaker) -> None:  # ACL-43, ACL-8
    reply = await eddy.say("TASK_REQUEST", "jules")
    assert act(reply) == "TASK_ACCEPT"
    assert reply["payload"]["status"] == "accepted"
    assert reply["payload"]["task_id_assigned"]
    assert reply["ontology"] == "elizaos:ontology:general/task_acceptance"  # ACL-21


async def test_the_first_reply_of_several_receivers_comes_with_prefer_wait(eddy: Speaker) -> None:  # ACL-43, A-4
    reply = await eddy.say("QUERY_CAPABILITIES", "jules", receiver={"agent_ids": ["jules", "painter"]})
    assert (act(reply), reply["receiver"]) == ("INFORM_CAPABILITIES", {"agent_id": eddy.name})
    (_, other), *_ = await eddy.read(1)  # the other reply is in the inbox, and the first is not
    assert {reply["sender"]["agent_id"], other["sender"]["agent_id"]} == {"jules", "painter"}


async def test_a_request_goes_through_acceptance_progress_and_result(eddy: Speaker) -> None:  # ACL-37, ACL-9
    sent = eddy.message(reply_with="my-reference")
    await eddy.post(sent)
    messages = [text for _, text in await eddy.read(4)]
    assert [act(text) for text in messages] == ["TASK_ACCEPT", "INFORM_PROGRESS", "INFORM_PROGRESS", "INFORM_RESULT"]
    assert {text["in_reply_to"] for text in messages} == {sent["message_id"]}
    assert {text["reply_with"] for text in messages} == {"my-reference"}  # A-3
    assert messages[1]["payload"] == {"fraction": 0.5, "note": "half way"}
    assert messages[3]["payload"]["result_summary"] == "You said: Say hello"


async def test_a_result_has_its_text_data_and_files(eddy: Speaker) -> None:  # ACL-37
    payload = (await eddy.ask("painter"))["payload"]
    assert (payload["result_summary"], payload["result_details"]) == ("A heron.", {"size": 8})
    assert payload["artifacts"] == [{"type": "image/png", "content": "iVBORw0KGgo=", "encoding": "base64"}]


async def test_prose_in_another_language_reaches_the_agent(eddy: Speaker) -> None:  # ACL-20, A-12
    reply = await eddy.ask("german", payload={"text": "Hallo"}, language="de", ontology="my:term")
    assert reply["payload"]["result_summary"] == "Sie sagten: Hallo"


async def test_a_question_is_answered_by_input(eddy: Speaker) -> None:  # ACL-37, ACL-17
    reply = await eddy.ask("asker")
    assert act(reply) == "REQUEST_INPUT"
    assert reply["payload"]["question"] == "Which colour?"
    assert reply["payload"]["schema"]["properties"]["colour"]["enum"] == ["red", "blue"]
    answer = eddy.message("INFORM_INPUT", "asker", in_reply_to=reply["message_id"], payload={"answer": "red"})
    await eddy.post(answer)
    ended = (await eddy.read(2))[-1][1]  # behind the acceptance
    assert ended["payload"]["result_summary"] == "You chose red."


async def test_a_crash_is_a_failure_and_an_unsuccessful_task_is_a_result(eddy: Speaker) -> None:  # ACL-12
    crashed, tried = await eddy.ask("broken"), await eddy.ask("unlucky")
    assert (act(crashed), crashed["payload"]["error_text"]) == ("FAILURE", "the sandbox crashed")
    assert (act(tried), tried["payload"]["task_status"]) == ("INFORM_RESULT", "failure")
    assert tried["payload"]["result_summary"] == "Bug not found."


async def test_a_cancelled_task_is_done(eddy: Speaker, gate: Gate) -> None:  # ACL-37
    gate.reset()
    sent = eddy.message(to="slow")
    await eddy.post(sent)
    assert await asyncio.to_thread(gate.entered.wait, DEADLINE)
    cancel = eddy.message("CANCEL", "slow", in_reply_to=sent["message_id"])
    await eddy.post(cancel)
    messages = [text for _, text in await eddy.read(2)]
    assert [act(text) for text in messages] == ["TASK_ACCEPT", "INFORM_DONE"]
    assert messages[1]["in_reply_to"] == cancel["message_id"]
    gate.open()


async def test_a_conversation_continues_with_the_next_request(eddy: Speaker) -> None:
    said = [(await eddy.ask("counter", conversation_id="c-1"))["payload"]["result_summary"] for _ in range(3)]
    assert said == ["turn 1", "turn 2", "turn 3"]


# -- queries --------------------------------------------------------------------------------------


async def test_capabilities_come_from_the_card(eddy: Speaker) -> None:  # ACL-14, A-5, C-8
    summary = await eddy.say("QUERY_CAPABILITIES", "jules")
    assert act(summary) == "INFORM_CAPABILITIES"
    answer = summary["payload"]["capabilities"]
    assert answer["topics"] == ["Python", "debugging", "coding", "Explain code"]
    assert answer["actions"][0] == {"name": "EXECUTE_DELEGATED_CODING_TASK", "description": "Debugs code"}


@pytest.mark.parametrize(
    ("wanted", "match", "result", "matched"),
    [
        (["PYTHON", "Debugging"], "all", True, ["PYTHON", "Debugging"]),
        (["python", "cobol"], "all", False, ["python"]),
        (["python", "cobol"], "any", True, ["python"]),
        (["cobol"], "any", False, []),
    ],
)
async def test_specific_capabilities_are_matched_in_any_letter_case(
    eddy: Speaker, wanted: list[str], match: str, result: bool, matched: list[str]
) -> None:  # ACL-14
    query = {"query_type": "specific", "query_parameters": {"capabilities": wanted, "match_type": match}}
    reply = await eddy.say("QUERY_CAPABILITIES", "jules", query)
    assert reply["payload"] == {"status": "success", "match_result": result, "matched_capabilities": matched}


async def test_the_details_of_a_known_action_are_returned(eddy: Speaker) -> None:  # ACL-14, A-5
    def query(name: str) -> dict[str, Any]:
        return {"query_type": "action_details", "query_parameters": {"action_name": name}}

    known = (await eddy.say("QUERY_CAPABILITIES", "jules", query("explain")))["payload"]
    assert known["capabilities"]["action"]["parameters"] == {"type": "object"}
    unknown = (await eddy.say("QUERY_CAPABILITIES", "jules", query("fly")))["payload"]
    assert unknown == {"status": "failure", "reason_code": "unsupported_function"}


@pytest.mark.parametrize(
    ("condition", "result"),
    [
        ({"agent_status": {"agent_id": "jules", "is_busy": False}}, True),
        ({"agent_status": {"agent_id": "jules", "is_busy": True}}, False),
        ({"capacity": 1}, True),
        ({"the_moon": "cheese"}, None),
    ],
)
async def test_a_condition_is_answered_by_the_gateway_or_the_agent(
    eddy: Speaker, condition: Any, result: bool | None
) -> None:  # ACL-10, A-1, C-10
    reply = await eddy.say("QUERY_IF", "jules", {"condition": condition})
    assert (act(reply), reply["payload"]["result"]) == ("INFORM_IF", result)


async def test_a_reference_is_answered_by_the_gateway_or_the_agent(eddy: Speaker) -> None:  # ACL-10, A-1, ACL-23
    known = await eddy.say("QUERY_REF", "german", {"reference": "agent.ontologies"})
    assert known["payload"] == {"reference": "agent.ontologies", "value": ["my:term"]}
    languages = await eddy.say("QUERY_REF", "german", {"reference": "agent.languages"})
    assert languages["payload"]["value"] == ["application/json", "german"]
    asked = await eddy.say("QUERY_REF", "jules", {"reference": "user_preferences.theme"})
    assert asked["payload"]["value"] == "You said: What is the value of user_preferences.theme?"
    broken = await eddy.say("QUERY_REF", "broken", {"reference": "x"})
    assert (act(broken), broken["payload"]["error_code"]) == ("FAILURE", "unsupported_value")


async def test_the_first_known_alternative_is_chosen(eddy: Speaker) -> None:  # ACL-22, ACL-23, C-1
    more = {"ontology": ["elizaos:other", "my:term"], "language": ["fr", "de"], "payload": {"text": "Hallo"}}
    reply = await eddy.say("TASK_REQUEST", "german", **more)
    assert (reply["payload"]["ontology"], reply["payload"]["language"]) == ("my:term", "de")
    refused = await eddy.say("TASK_REQUEST", "german", ontology="elizaos:other")
    assert (act(refused), refused["payload"]["reason_code"]) == ("NOT_UNDERSTOOD", "unknown_ontology")
    assert "my:term" in refused["payload"]["reason_text"]
    unread = await eddy.say("TASK_REQUEST", "german", ontology="my:term", language="fr", payload={"text": "Salut"})
    assert (act(unread), unread["payload"]["reason_code"]) == ("NOT_UNDERSTOOD", "unsupported_value")


# -- more acts ------------------------------------------------------------------------------------


async def test_a_plain_agent_bids_and_does_what_it_is_awarded(eddy: Speaker) -> None:  # ACL-17
    bid = await eddy.say("CALL_FOR_PROPOSALS", "jules", conversation_id="cfp-1")
    assert (act(bid), bid["payload"]["proposal"]["agent_id"]) == ("PROPOSE", "jules")
    award = eddy.message("ACCEPT_PROPOSAL", in_reply_to=bid["message_id"], conversation_id="cfp-1")
    response = await eddy.post(award, "/mcp-request")
    assert act(response.json()) == "INFORM_RESULT"


async def test_an_act_out_of_sequence_is_answered_and_changes_nothing(eddy: Speaker) -> None:  # ACL-24
    sent = eddy.message(to="asker")
    await eddy.post(sent)
    await eddy.read(1)
    response = await eddy.post(eddy.message("RENEW", "asker", in_reply_to=sent["message_id"]))
    body = response.json()
    assert (response.status_code, act(body), body["payload"]["reason_code"]) == (
        409,
        "NOT_UNDERSTOOD",
        "unexpected_act",
    )


async def test_an_unknown_agent_is_a_failure(eddy: Speaker) -> None:  # ACL-32, A-10
    response = await eddy.post(eddy.message(to="nobody"))
    body = response.json()
    assert (response.status_code, act(body), body["payload"]["error_code"]) == (404, "FAILURE", "not_registered")


async def test_a_known_agent_that_is_absent_gets_it_later(eddy: Speaker, served: Served) -> None:  # ACL-32, A-10
    jane = Speaker(served.url, f"jane-{uuid4().hex[:8]}")
    assert await jane.waiting() == []  # known from now on, and away
    assert (await eddy.post(eddy.message(to=jane.name))).status_code == 202
    ((number, reply),) = await jane.read(1)
    assert (act(reply), reply["sender"]) == ("TASK_REQUEST", {"agent_id": eddy.name})
    assert [m["message_id"] for m in await jane.waiting()] == [reply["message_id"]]  # not acknowledged yet
    answer = jane.message("TASK_REJECT", eddy.name, in_reply_to=reply["message_id"])
    assert (await jane.post(answer)).status_code == 202
    await jane.http.post(f"/acl/inbox/{jane.name}", json={"through": number})
    assert await jane.waiting() == []
    assert act((await eddy.read(1))[0][1]) == "TASK_REJECT"
    await jane.http.aclose()


async def test_the_last_event_id_acknowledges_what_came_before(eddy: Speaker) -> None:  # ACL-43
    await eddy.post(eddy.message())
    first = await eddy.read(4)
    again = await eddy.read(2, last=first[1][0])
    assert [text["message_id"] for _, text in again] == [text["message_id"] for _, text in first[2:]]


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        ("{", 400, "parsing_error"),
        ('{"a": 1 // comment\n}', 400, "parsing_error"),
        ("[]", 400, "parsing_error"),
        (json.dumps({**message(), "performative": "HELLO"}), 400, "unknown_performative"),
        (json.dumps({**message(), "mcp_version": "9.0"}), 400, "unsupported_value"),
        (json.dumps({**message(), "payload": {}}), 400, "invalid_payload_structure"),
        (json.dumps(message("TASK_ACCEPT")), 400, "missing_argument"),
    ],
)
async def test_what_is_not_understood_says_why(eddy: Speaker, body: str, status: int, reason: str) -> None:  # ACL-13
    response = await eddy.post(body)
    answer = response.json()
    assert (response.status_code, act(answer), answer["payload"]["reason_code"]) == (status, "NOT_UNDERSTOOD", reason)


async def test_not_understood_is_never_answered_by_another(eddy: Speaker) -> None:  # ACL-13
    response = await eddy.post(eddy.message("NOT_UNDERSTOOD", payload={"reason": 1}, in_reply_to="x"))
    assert (response.status_code, "performative" in response.json()) == (400, False)


async def test_a_message_that_is_too_large_is_rejected(eddy: Speaker) -> None:  # ACL-31
    payload = {"task_type": "ask", "task_description": "x" * 600_000}
    response = await eddy.post(eddy.message(payload=payload))
    body = response.json()
    assert (response.status_code, act(body), body["payload"]["reason_code"]) == (413, "TASK_REJECT", "too_large")


async def test_a_message_to_many_opens_a_conversation_with_each(eddy: Speaker) -> None:  # ACL-36, A-4
    sent = eddy.message("QUERY_CAPABILITIES", receiver={"agent_ids": ["jules", "painter", "nobody"]})
    response = await eddy.post(sent)
    assert response.json()["receivers"] == ["jules", "painter"]
    found = [text for _, text in await eddy.read(3)]
    senders = {item["sender"]["agent_id"]: act(item) for item in found}
    wanted = {"jules": "INFORM_CAPABILITIES", "painter": "INFORM_CAPABILITIES", "gateway": "FAILURE"}
    assert senders == wanted


async def test_a_message_to_everybody_reaches_all_agents(eddy: Speaker, served: Served) -> None:  # ACL-36, C-11
    response = await eddy.post(eddy.message("QUERY_CAPABILITIES", receiver={"agent_id": "*"}))
    assert set(served.gateway.agents) <= set(response.json()["receivers"])


async def test_people_see_a_conversation_they_take_part_in(eddy: Speaker, served: Served) -> None:  # ACL-29
    sent = eddy.message()
    await eddy.post(sent)
    await eddy.read(4)
    view = (await eddy.http.get(f"/acl/conversations/{sent['message_id']}")).json()
    assert view["dialogues"][0]["state"] == "done"
    assert act(view["messages"][0]) == "TASK_REQUEST"
    assert (await eddy.http.get("/acl/conversations/unknown")).status_code == 404


async def test_a_plugin_finds_what_it_needs(eddy: Speaker, served: Served) -> None:  # C-11, ACL-42
    body = (await eddy.http.get("/.well-known/acl")).json()
    assert body["endpoint"].endswith("/acl")
    assert [agent["agent_id"] for agent in body["agents"]] == list(served.gateway.agents)
    who = (await eddy.http.get("/who", params={"query": ""})).json()
    listed = {row["definition"]["name"] for row in who["results"] if row["protocol"] == "acl"}
    assert listed == set(served.gateway.agents)


# -- the two known clients ------------------------------------------------------------------------


async def test_the_ide_extension_gets_its_result_in_its_own_form(served: Served) -> None:  # ACL-44, A-8, ACL-16
    ide = Speaker(served.url, "vscode")
    value = {
        "conversation_id": str(uuid4()),
        "performative": "REQUEST",
        "ontology": "elizaos:ide:explain_code",
        "payload": {"code": "x = 1", "question": "What is x?"},
        "sender": "vscode",
        "receiver": "jules",
    }
    response = await ide.post(value, "/mcp-request")
    body = response.json()
    assert (response.status_code, body["performative"], body["sender"]) == (200, "INFORM_RESULT", "jules")
    assert body["conversation_id"] == value["conversation_id"]
    assert body["payload"]["result_summary"] == "You said: What is x?"
    async with asyncio.timeout(DEADLINE), ide.http.stream("GET", "/mcp-events") as events:
        async for line in events.aiter_lines():
            event = json.loads(line[5:]) if line.startswith("data:") else {}
            if event.get("receiver") == "vscode":  # other agents of the same caller are listened to as well
                break
    assert (event["performative"], event["sender"]) == ("ACCEPT", "jules")
    await ide.http.aclose()


async def test_the_browser_panel_sends_and_listens(served: Served) -> None:  # ACL-44
    panel = Speaker(served.url, f"panel-{uuid4().hex[:6]}")
    assert (await panel.post(panel.message(), "/mcp/send")).status_code == 202
    async with asyncio.timeout(DEADLINE), panel.http.stream("GET", f"/mcp/sse?agentId={panel.name}") as events:
        lines = events.aiter_lines()
        while not (line := await anext(lines)).startswith("data:"):
            pass
    assert act(json.loads(line[5:])) == "TASK_ACCEPT"
    await panel.http.aclose()


async def test_mcp_answers_on_the_same_gateway(served: Served, eddy: Speaker) -> None:  # ACL-44
    hello = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    response = await eddy.http.post("/mcp/jules", json=hello, headers={"accept": "application/json, text/event-stream"})
    assert response.status_code != 404


# -- WebSocket ------------------------------------------------------------------------------------


async def test_both_directions_go_over_one_websocket(served: Served, eddy: Speaker) -> None:  # ACL-43
    async with asyncio.timeout(DEADLINE), ws_connect(f"{served.ws_url}/acl/ws/{eddy.name}") as socket:
        sent = eddy.message()
        await socket.send(json.dumps({"send": sent}))
        frames = [json.loads(await socket.recv()) for _ in range(5)]
        accepted = [frame for frame in frames if "accepted" in frame]
        messages = [frame for frame in frames if "message" in frame]
        assert accepted[0]["accepted"] == sent["message_id"]
        assert [act(frame["message"]) for frame in messages][-1] == "INFORM_RESULT"
        await socket.send(json.dumps({"ack": messages[-1]["id"]}))
        await socket.send("nonsense")
        error = json.loads(await socket.recv())["error"]
        assert error["payload"]["reason_code"] == "parsing_error"
    assert await eddy.waiting() == []


async def test_a_frame_may_acknowledge_and_send(served: Served, eddy: Speaker) -> None:  # ACL-43
    async with asyncio.timeout(DEADLINE), ws_connect(f"{served.ws_url}/acl/ws/{eddy.name}") as socket:
        sent = eddy.message()
        await socket.send(json.dumps({"ack": 0, "send": sent}))
        assert json.loads(await socket.recv())["accepted"] == sent["message_id"]


@pytest.mark.parametrize("number", [2**63, 2**64, 10**30, -1, True, 1.5, "1", None])
async def test_only_a_number_acknowledges(served: Served, eddy: Speaker, number: object) -> None:  # ACL-43
    for given in ({"through": number}, {"numbers": [number]}):
        assert (await eddy.http.post(f"/acl/inbox/{eddy.name}", json=given)).status_code == 400
    async with asyncio.timeout(DEADLINE), ws_connect(f"{served.ws_url}/acl/ws/{eddy.name}") as socket:
        await socket.send(json.dumps({"ack": number}))
        assert json.loads(await socket.recv())["error"]["payload"]["reason_code"] == "parsing_error"


async def test_a_payload_may_be_as_deep_over_either_way(served: Served, eddy: Speaker) -> None:
    def nested(levels: int) -> dict[str, Any]:
        parameters: dict[str, Any] = {}
        for _ in range(levels):
            parameters = {"a": parameters}
        return eddy.message(payload={"task_type": "ask", "task_description": "x", "task_parameters": parameters})

    async with asyncio.timeout(DEADLINE), ws_connect(f"{served.ws_url}/acl/ws/{eddy.name}") as socket:
        for levels, status, answer in ((60, 202, "accepted"), (70, 413, "error")):
            assert (await eddy.post(nested(levels))).status_code == status
            await socket.send(json.dumps({"send": nested(levels)}))
            frame: dict[str, Any] = {"message": ""}
            while "message" in frame:
                frame = json.loads(await socket.recv())
            assert answer in frame


# -- the directory --------------------------------------------------------------------------------


async def df(speaker: Speaker, action: str, **parameters: Any) -> dict[str, Any]:
    payload = {"task_type": action, "task_description": action, "task_parameters": parameters}
    return await speaker.say("TASK_REQUEST", "df", payload)


async def test_agents_are_registered_found_changed_and_removed(eddy: Speaker) -> None:  # ACL-41
    name = f"painter-{uuid4().hex[:6]}"
    answer = await df(eddy, "register", name=name, skills=["Oil", "portrait"], lease_seconds=60)
    assert answer["payload"]["result_details"]["entry"]["name"] == name
    found = await df(eddy, "search", template={"skills": ["oil"]})
    assert [entry["name"] for entry in found["payload"]["result_details"]["entries"]] == [name]
    await df(eddy, "modify", name=name, skills=["water"])
    assert (await df(eddy, "search", template={"skills": ["oil"]}))["payload"]["result_details"]["entries"] == []
    over_http = (await eddy.http.get("/acl/directory", params={"skills": "water"})).json()
    assert [entry["name"] for entry in over_http["entries"]] == [name]
    await df(eddy, "deregister", name=name)
    missing = await df(eddy, "deregister", name=name)
    assert (act(missing), missing["payload"]["reason_code"]) == ("TASK_REJECT", "not_registered")


async def test_the_directory_holds_the_agents_of_the_gateway_without_a_bus(eddy: Speaker) -> None:  # ACL-41
    found = await df(eddy, "search", template={"skills": ["debugging"]})
    (entry,) = found["payload"]["result_details"]["entries"]
    assert (entry["name"], entry["addresses"]["acl"].rpartition("/")[2]) == ("jules", "jules")


async def test_a_subscriber_learns_of_changes_by_template(eddy: Speaker) -> None:  # ACL-19, ACL-41
    skill = uuid4().hex
    payload = {"topic": "directory", "template": {"skills": [skill]}, "lease_seconds": 60}
    assert act(await eddy.say("SUBSCRIBE", "df", payload)) == "TASK_ACCEPT"
    await df(eddy, "register", name=f"other-{skill[:8]}", skills=["something else"])
    await df(eddy, "register", name=f"new-{skill[:8]}", skills=[skill])
    ((_, answer),) = await eddy.read(1)
    assert (act(answer), answer["payload"]["event"]["kind"]) == ("NOTIFY", "registered")
    assert answer["payload"]["event"]["entry"]["skills"] == [skill]


@pytest.mark.parametrize("name", ["two words", "x" * 65, "jules"])
async def test_a_name_that_no_agent_can_have_is_refused_with_the_form(eddy: Speaker, name: str) -> None:  # ACL-42
    answer = await df(eddy, "register", name=name)
    assert (act(answer), "64 letters" in answer["payload"]["reason_text"]) == ("NOT_UNDERSTOOD", True)
