"""Who may send as whom, read whose inbox, and sign what."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from joserfc.jwk import OKPKey

from acl_messages import message
from conftest import Served, serving
from deadline import DEADLINE
from sabir.agents.echo import echo
from sabir.cluster.directory import Change, Entry
from sabir.errors import ConfigError
from sabir.gateway.gateway import Gateway
from sabir.guard.build import GuardSettings
from sabir.guard.identity.api_keys import ApiKeys
from sabir.guard.rights import Rule
from sabir.protocols.acl.door.door import Acl
from sabir.protocols.acl.wire.envelope import encode, envelope_of, plain, stamp
from sabir.protocols.acl.wire.signatures import encrypted, keys_of, signed
from sabir.stores.base import AuditLine
from sabir.stores.sqlite.store import SQLiteStore

RULES = (Rule(roles=("known",)),)


def key_of(home: Path, name: str) -> str:
    async def add() -> str:
        store = SQLiteStore(home / "sabir.db")
        await store.open()
        try:
            return (await ApiKeys(store).add(name))[1]
        finally:
            await store.close()

    return asyncio.run(add())


def refusals(served: Served) -> list[AuditLine]:
    async def read() -> list[AuditLine]:
        store = SQLiteStore(served.gateway.home / "sabir.db")
        await store.open()
        try:
            return [audit_line.line for audit_line in await store.audit_lines(0, 1000)]
        finally:
            await store.close()

    return [line for line in asyncio.run(read()) if line.kind == "refused"]


class Http:
    """Requests with a key, each on a connection of its own."""

    def __init__(self, url: str, key: str) -> None:
        self._options: dict[str, Any] = {"base_url": url, "headers": {"authorization": f"Bearer {key}"}, "timeout": 30}

    def get(self, path: str, **more: Any) -> httpx.Response:
        with httpx.Client(**self._options) as client:
            return client.get(path, **more)

    def post(self, path: str, **more: Any) -> httpx.Response:
        with httpx.Client(**self._options) as client:
            return client.post(path, **more)


class Client:
    """One caller with a key, by plain HTTP."""

    def __init__(self, served: Served, name: str) -> None:
        key = key_of(served.gateway.home, name)
        self.http = Http(served.url, key)

    def post(self, value: Any) -> httpx.Response:
        content = value if isinstance(value, bytes) else json.dumps(value)
        return self.http.post("/acl", content=content, headers={"content-type": "application/json"})

    def register(self, name: str, key: OKPKey) -> None:
        public = json.dumps(key.as_dict(private=False))
        response = self.http.post(
            "/acl/directory", json={"action": "register", "parameters": {"name": name, "key": public}}
        )
        assert response.status_code == 200, response.text


def said(sender: str = "eddy", to: str = "echo", **more: Any) -> dict[str, Any]:
    given = {"message_id": str(uuid4()), "timestamp": stamp(time.time()), **more}
    return message(sender={"agent_id": sender}, receiver={"agent_id": to}, **given)


@pytest.fixture(params=["off"])
def services(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    doors = {"acl": {"signatures": request.param, "groups": {"choir": ["echo"]}}}
    gateway = Gateway(echo, home=tmp_path, guard=GuardSettings(rights=RULES), doors=doors)
    with serving(gateway) as served:
        yield served


SIGNED = pytest.mark.parametrize("services", ["require"], indirect=True)


def is_unauthorised(response: httpx.Response) -> bool:
    body = response.json()
    return (response.status_code, body["performative"], body["payload"]["reason_code"]) == (
        403,
        "TASK_REJECT",
        "unauthorised",
    )


def test_a_forged_sender_is_rejected_and_leaves_one_line(services: Served) -> None:  # ACL-47, A-9
    alice, mallory = Client(services, "alice"), Client(services, "mallory")
    assert alice.post(said("eddy")).status_code == 202
    assert is_unauthorised(mallory.post(said("eddy")))
    (line,) = refusals(services)
    assert (line.outcome, line.door, line.agent) == ("Forbidden", "acl", "echo")


@pytest.mark.parametrize("name", ["echo", "df", "gateway"])
def test_nobody_sends_under_the_name_of_an_agent_of_the_gateway(services: Served, name: str) -> None:  # ACL-47
    assert is_unauthorised(Client(services, "mallory").post(said(name)))


@pytest.mark.parametrize("body", [b"", b"\xff", b"\x01\x00\x00\x00\x09cut off", b"\x98"])
def test_an_unreadable_letter_does_not_hide_the_others(services: Served, body: bytes) -> None:  # ACL-35
    alice = Client(services, "alice")
    alice.post(said("eddy", "ivy"))
    alice.http.get("/acl/inbox/ivy", headers={"accept": "application/json"})  # alice owns this name, too
    sent = said("eddy", "ivy")
    assert alice.post(sent).status_code == 202
    connection = sqlite3.connect(services.gateway.home / "sabir.db")
    with connection:
        values = "SELECT box, 'poison', ?, at, expires, sender, '', priority, member FROM letters WHERE box = 'ivy'"
        columns = "box, id, body, at, expires, sender, lane, priority, member"
        connection.execute(f"INSERT INTO letters ({columns}) {values} LIMIT 1", (body,))
    connection.close()
    listed = alice.http.get("/acl/inbox/ivy", headers={"accept": "application/json"})
    assert listed.status_code == 200
    assert sent["message_id"] in [item["message"]["message_id"] for item in listed.json()["messages"]]


def test_an_inbox_is_read_by_its_owner_only(services: Served) -> None:  # ACL-47
    alice, mallory = Client(services, "alice"), Client(services, "mallory")
    alice.post(said("eddy"))
    for path in ("/acl/inbox/eddy", "/acl/inbox/echo", "/mcp/sse?agentId=eddy"):
        answer = mallory.http.get(path, headers={"accept": "application/json"})
        assert answer.status_code == 403, path
    assert len(refusals(services)) == 3
    assert alice.http.get("/acl/inbox/eddy", headers={"accept": "application/json"}).status_code == 200


def test_reading_an_inbox_keeps_its_name_in_use(services: Served) -> None:  # ACL-32, ACL-47
    """A program that only receives may poll a list: it is known from the first look, and the name is its own."""
    alice, bob, mallory = (Client(services, name) for name in ("alice", "bob", "mallory"))
    assert bob.post(said("bob", "mia")).status_code == 404
    assert alice.http.get("/acl/inbox/mia", headers={"accept": "application/json"}).status_code == 200
    assert bob.post(said("bob", "mia")).status_code == 202
    assert is_unauthorised(mallory.post(said("mia")))


@pytest.mark.parametrize("how", ["deregistered", "lease"])
def test_letters_for_a_name_are_not_read_by_its_next_owner(services: Served, how: str) -> None:  # ACL-47
    alice, bob, mallory = (Client(services, name) for name in ("alice", "bob", "mallory"))
    lease = 1 if how == "lease" else 60
    offer = {"action": "register", "parameters": {"name": "painter", "lease_seconds": lease}}
    assert alice.http.post("/acl/directory", json=offer).status_code == 200
    assert bob.post(said("bob", "painter")).status_code == 202
    if how == "deregistered":
        body = {"action": "deregister", "parameters": {"name": "painter"}}
        assert alice.http.post("/acl/directory", json=body).status_code == 200
    end = time.monotonic() + DEADLINE
    while bob.post(said("bob", "painter")).status_code != 404:  # nobody uses the name any more
        assert time.monotonic() < end
    assert mallory.http.get("/acl/inbox/painter", headers={"accept": "application/json"}).status_code == 403
    assert is_unauthorised(mallory.post(said("painter")))
    assert mallory.http.post("/acl/directory", json=offer).status_code == 409
    assert len(alice.http.get("/acl/inbox/painter", headers={"accept": "application/json"}).json()["messages"]) >= 1


def test_a_conversation_of_others_is_not_shown(services: Served) -> None:  # ACL-29
    alice, mallory = Client(services, "alice"), Client(services, "mallory")
    sent = said("eddy")
    alice.post(sent)
    path = f"/acl/conversations/{sent['message_id']}"
    assert (alice.http.get(path).status_code, mallory.http.get(path).status_code) == (200, 404)


@pytest.mark.parametrize("receiver", [{"agent_ids": ["echo", "df"]}, {"agent_id": "*"}, {"group": "choir"}])
def test_the_id_of_a_conversation_opens_nothing_of_others(
    services: Served, receiver: dict[str, Any]
) -> None:  # ACL-29, ACL-47
    """Whoever guesses an id and opens a conversation of that name sees their own messages, and no others."""
    alice, mallory = Client(services, "alice"), Client(services, "mallory")
    task = {"task_type": "ask", "task_description": "a secret"}
    sent = {**said("eddy", conversation_id="plan"), "receiver": receiver, "payload": task}
    assert alice.post(sent).status_code == 202
    assert mallory.post(said("mallory", conversation_id="plan")).status_code == 202
    view = mallory.http.get("/acl/conversations/plan")
    assert {item["initiator"] for item in view.json()["dialogues"]} == {"mallory"}
    assert "a secret" not in view.text
    assert "a secret" in alice.http.get("/acl/conversations/plan").text


def test_an_award_does_the_work_of_its_own_call(services: Served) -> None:  # ACL-47, ACL-17
    alice, mallory = Client(services, "alice"), Client(services, "mallory")

    def call(client: Client, name: str) -> dict[str, Any]:
        task = {"task_type": "ask", "task_description": f"the work of {name}"}
        sent = {**said(name, conversation_id="job"), "performative": "CALL_FOR_PROPOSALS", "payload": task}
        return dict(client.http.post("/acl", json=sent, headers={"prefer": "wait=20"}).json())

    bid = call(alice, "alice")
    call(mallory, "mallory")
    award = {**said("alice", conversation_id="job", in_reply_to=bid["message_id"]), "performative": "ACCEPT_PROPOSAL"}
    body = alice.http.post("/mcp-request", json={**award, "payload": {}}, headers={"prefer": "wait=20"}).json()
    assert body["performative"] == "INFORM_RESULT"
    assert "the work of alice" in body["payload"]["result_summary"]


def test_a_subscriber_is_only_notified_of_agents_that_it_may_use(tmp_path: Path) -> None:  # ACL-19, ACL-41
    rules = (Rule(roles=("known",), agents=("df", "echo", "open-*")), Rule(roles=("id:key:bob",)))
    with serving(Gateway(echo, home=tmp_path, guard=GuardSettings(rights=rules))) as served:
        alice, bob = Client(served, "alice"), Client(served, "bob")
        given = {"performative": "SUBSCRIBE", "payload": {"topic": "directory", "lease_seconds": 60}}
        body = alice.http.post("/acl", json={**said("eddy", "df"), **given}, headers={"prefer": "wait=20"}).json()
        assert body["performative"] == "TASK_ACCEPT"
        for name in ("hidden", "open-1"):
            bob.register(name, OKPKey.generate_key("Ed25519"))
        end, heard = time.monotonic() + DEADLINE, []
        while not heard and time.monotonic() < end:
            listed = alice.http.get("/acl/inbox/eddy", headers={"accept": "application/json"}).json()["messages"]
            heard = [item["message"]["payload"]["event"]["entry"]["name"] for item in listed]
    assert heard == ["open-1"]


def test_a_change_of_the_directory_is_reported_once(services: Served) -> None:  # ACL-19, ACL-41
    """Each node of a cluster sees a change; what they tell has the same id."""
    alice = Client(services, "alice")
    given = {"performative": "SUBSCRIBE", "payload": {"topic": "directory", "lease_seconds": 60}}
    alice.http.post("/acl", json={**said("eddy", "df"), **given}, headers={"prefer": "wait=20"})
    door = next(door for door in services.gateway.doors if isinstance(door, Acl))
    loop = services.server.loop
    assert loop is not None
    entry = Entry("painter", skills=("oil",), until=1.0)
    changes = [Change("registered", entry), Change("modified", entry, 2), Change("modified", entry, 4)]
    for change in (*changes, *changes):
        asyncio.run_coroutine_threadsafe(door.yellow_pages.notify(change), loop).result(DEADLINE)
    listed = alice.http.get("/acl/inbox/eddy", headers={"accept": "application/json"}).json()["messages"]
    kinds = [item["message"]["payload"]["event"]["kind"] for item in listed]
    assert kinds == ["registered", "modified", "modified"]


def test_an_entry_of_others_is_not_changed(services: Served) -> None:  # ACL-41
    alice, mallory = Client(services, "alice"), Client(services, "mallory")
    alice.register("painter", OKPKey.generate_key("Ed25519"))
    for action in ("register", "modify", "deregister"):
        body = {"action": action, "parameters": {"name": "painter"}}
        assert mallory.http.post("/acl/directory", json=body).status_code in (404, 409)


def test_a_message_to_everybody_reaches_only_agents_that_the_sender_may_use(tmp_path: Path) -> None:  # ACL-36
    rules = (Rule(roles=("known",), agents=("nobody",)),)
    with serving(Gateway(echo, home=tmp_path, guard=GuardSettings(rights=rules))) as served:
        body = Client(served, "alice").post({**said(), "receiver": {"agent_id": "*"}}).json()
    assert body["receivers"] == []


@SIGNED
def test_a_signed_message_is_accepted_and_others_are_rejected(services: Served) -> None:  # ACL-48
    alice, key = Client(services, "alice"), OKPKey.generate_key("Ed25519")
    alice.register("eddy", key)
    good = signed(envelope_of(said("eddy")), key)
    assert alice.post(encode(good)).status_code == 202
    rejected: dict[str, dict[str, Any]] = {
        "missing": said("eddy"),
        "of another key": plain(signed(envelope_of(said("eddy")), OKPKey.generate_key("Ed25519"))),
        "of another message": {**plain(good), "message_id": str(uuid4())},
        "too old": plain(signed(envelope_of(said("eddy", timestamp=stamp(time.time() - 3600))), key)),
        "from the future": plain(signed(envelope_of(said("eddy", timestamp=stamp(time.time() + 3600))), key)),
    }
    for number, (what, value) in enumerate(rejected.items(), 1):
        assert is_unauthorised(alice.post(value)), what
        assert len(refusals(services)) == number, what
    again = alice.post(encode(good))  # a replay is a duplicate, and handled by nobody
    assert (again.status_code, again.json()["duplicate"]) == (202, True)
    assert [line.outcome for line in refusals(services)][len(rejected) :] == ["Replay"]


@pytest.mark.parametrize("services", ["accept"], indirect=True)
def test_an_agent_that_signed_once_must_keep_signing(services: Served) -> None:  # ACL-48
    alice, key = Client(services, "alice"), OKPKey.generate_key("Ed25519")
    assert alice.post(said("ada")).status_code == 202  # has no key
    alice.register("eddy", key)
    assert alice.post(encode(signed(envelope_of(said("eddy")), key))).status_code == 202
    assert is_unauthorised(alice.post(said("eddy")))


@pytest.mark.parametrize("signatures", ["accept", "require"])
def test_a_replay_is_remembered_as_long_as_it_is_valid(tmp_path: Path, signatures: str) -> None:  # ACL-48
    short = {"signatures": signatures, "skew_seconds": 300, "keep_seconds": 599, "remember_seconds": 10}
    with pytest.raises(ConfigError, match=r"doors.acl.remember_seconds: expected at least twice skew_seconds"):
        Gateway(echo, home=tmp_path, doors={"acl": short})
    Gateway(echo, home=tmp_path, doors={"acl": {**short, "keep_seconds": 600}})


def test_an_encrypted_payload_is_carried_and_the_audit_says_what_was_not_applied(
    services: Served,
) -> None:  # ACL-48, C-2
    alice, bob, key = Client(services, "alice"), Client(services, "bob"), OKPKey.generate_key("X25519")
    bob.register("jane", key)
    found = alice.http.get("/acl/directory", params={"name": "jane"}).json()["entries"][0]
    closed = encrypted({"task_type": "x", "task_description": "secret"}, keys_of(found["key"]))
    assert alice.post({**said("eddy", "jane"), "payload": closed}).status_code == 202
    (waiting,) = bob.http.get("/acl/inbox/jane", headers={"accept": "application/json"}).json()["messages"]
    assert waiting["message"]["payload"] == closed

    async def read() -> list[AuditLine]:
        store = SQLiteStore(services.gateway.home / "sabir.db")
        await store.open()
        try:
            return [audit_line.line for audit_line in await store.audit_lines(0, 1000)]
        finally:
            await store.close()

    assert any("filters" in str(line.detail.get("not_applied")) for line in asyncio.run(read()))


INVOICE = {
    "acts": ["TASK_REQUEST"],
    "payload": {"type": "object", "properties": {"amount": {"type": "number"}}, "required": ["amount"]},
    "document": "https://example.com/invoice.owl",
}


def test_terms_of_the_operator_are_checked(tmp_path: Path) -> None:  # ACL-22
    gateway = Gateway(echo, home=tmp_path, doors={"acl": {"ontologies": {"my:invoice": INVOICE}}})
    with serving(gateway) as served, httpx.Client(base_url=served.url) as client:
        known = client.get("/.well-known/acl").json()["ontologies"]
        task = {"task_type": "bill", "task_description": "x"}

        def outcome_of(act: str, payload: dict[str, Any], **more: Any) -> tuple[int, str, str]:
            response = client.post("/acl", json=message(act, message_id=str(uuid4()), receiver={"agent_id": "echo"},
                                                        ontology="my:invoice", payload=payload, **more))  # fmt: skip
            reason = response.json().get("payload", {})
            return response.status_code, reason.get("reason_code", ""), reason.get("reason_text", "")

        good = outcome_of("TASK_REQUEST", {**task, "amount": 3})
        invalid = outcome_of("TASK_REQUEST", {**task, "amount": "three"})
        missing = outcome_of("TASK_REQUEST", task)
        other = outcome_of("QUERY_CAPABILITIES", {"query_type": "summary"})
    assert "my:invoice" in known
    assert good[0] == 202
    assert (invalid[1], "$.payload.amount: expected type 'number'" in invalid[2]) == ("invalid_payload_structure", True)
    assert (missing[0], "required" in missing[2]) == (400, True)
    assert (other[0], "my:invoice is carried by TASK_REQUEST" in other[2]) == (400, True)


def test_a_term_with_an_invalid_schema_is_a_configuration_error(tmp_path: Path) -> None:  # ACL-22
    invalid = {"my:invoice": {"payload": {"type": "nonsense"}}}
    with pytest.raises(ConfigError, match=r"doors.acl.ontologies.my:invoice.payload: expected a JSON Schema"):
        Gateway(echo, home=tmp_path, doors={"acl": {"ontologies": invalid}})
