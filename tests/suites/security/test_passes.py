"""A pass is worth no more than the key it was given for, at a gateway that listens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from websockets.sync.client import connect

from conftest import Serve
from deadline import DEADLINE
from sabir.agents.echo import echo
from sabir.gateway.gateway import Gateway
from sabir.guard.build import GuardSettings, IdentitySettings
from sabir.guard.identity.api_keys import ApiKeys
from sabir.guard.rights import Rule
from sabir.stores.sqlite.store import SQLiteStore
from suites.security.attackers import Caller, say

SETTINGS = GuardSettings(IdentitySettings(keys_seconds=0.0), rights=(Rule(roles=("staff",)),))


class Office:
    """Issues and revokes keys, besides the gateway."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, name: str) -> tuple[str, str]:
        async def made() -> tuple[str, str]:
            store = SQLiteStore(self._path)
            await store.open()
            key, text = await ApiKeys(store).add(name, roles=("staff",))
            await store.close()
            return key.id, text

        return asyncio.run(made())

    def revoke(self, item_id: str) -> None:
        async def gone() -> None:
            store = SQLiteStore(self._path)
            await store.open()
            await ApiKeys(store).revoke(item_id)
            await store.close()

        asyncio.run(gone())


@pytest.fixture
def office(home: Path) -> Iterator[Office]:
    home.mkdir(mode=0o700, parents=True)
    yield Office(home / "sabir.db")


def passes_in(reply: Any) -> list[dict[str, Any]]:
    return [part for part in reply.json().get("submessages", ()) if part["subformat"] == "authentication"]


def test_a_revoked_key_does_not_live_on_in_its_pass(serve: Serve, home: Path, office: Office) -> None:
    item_id, key = office.add("pat")
    served = serve(Gateway(echo, home=home, guard=SETTINGS))
    with Caller(served.url, key) as known, Caller(served.url) as bearer:
        wish = say("Please give me an authentication token", control=True)
        (given,) = passes_in(known.ask(wish))
        assert bearer.ask(say("hi", given)).json()["content"] == "You said: hi"
        office.revoke(item_id)
        assert known.ask(say("hi")).status_code == 401
        refused = bearer.ask(say("hi", given))
        assert refused.status_code == 401
        assert "was revoked" in refused.json()["content"]
        again = bearer.ask({**wish, "submessages": [given]})
        assert again.status_code == 401
        assert not [part for part in passes_in(again) if part != given]


def act(text: str) -> dict[str, Any]:
    request = {"task_type": "ask", "task_description": text}
    return {"performative": "TASK_REQUEST", "sender": {"agent_id": "pat"}, "receiver": {"agent_id": "echo"},
            "message_id": str(uuid4()), "payload": request}  # fmt: skip


def test_a_revoked_key_ends_an_open_acl_websocket(serve: Serve, home: Path, office: Office) -> None:
    item_id, key = office.add("pat")
    served = serve(Gateway(echo, home=home, guard=SETTINGS))
    headers = {"authorization": f"Bearer {key}"}
    with connect(f"{served.ws_url}/acl/ws/pat", additional_headers=headers) as socket:
        socket.send(json.dumps({"send": act("before")}))
        seen: list[dict[str, Any]] = []
        while not any("INFORM_RESULT" in json.dumps(item) for item in seen):
            seen.append(json.loads(socket.recv(timeout=DEADLINE)))
        office.revoke(item_id)
        socket.send(json.dumps({"send": act("after")}))
        assert "error" in json.loads(socket.recv(timeout=DEADLINE))


def test_a_revoked_key_ends_an_open_acl_stream(serve: Serve, home: Path, office: Office) -> None:
    """The message that comes after it is not delivered."""
    (item_id, key), (_, other) = office.add("pat"), office.add("quinn")
    served = serve(Gateway(echo, home=home, guard=SETTINGS))
    with (
        httpx2.Client(base_url=served.url) as client,
        client.stream("GET", "/acl/inbox/pat", headers={"authorization": f"Bearer {key}"}) as stream,
    ):
        lines = stream.iter_lines()
        next(lines)
        office.revoke(item_id)
        letter = {**act("secret"), "sender": {"agent_id": "quinn"}, "receiver": {"agent_id": "pat"}}
        posted = client.post("/acl", json=letter, headers={"authorization": f"Bearer {other}"})
        assert posted.status_code == 202
        assert "secret" not in "".join(lines)
