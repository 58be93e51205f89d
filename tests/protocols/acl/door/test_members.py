"""An ACL agent is an agent of Sabir, an agent of Sabir is an ACL agent, and every protocol lists the same ones."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from acl_messages import message
from conftest import Served, serving
from sabir import Federation, Quotas
from sabir.agents.echo import echo
from sabir.errors import ConfigError
from sabir.gateway.gateway import Gateway
from sabir.protocols.acl.peer import AclConversation, Messenger
from sabir.protocols.acl.wire.envelope import Envelope
from sabir.protocols.connect import connect


async def test_an_acl_agent_sits_in_a_federation_behind_nlip(served: Served, tmp_path: Path) -> None:  # ACL-38
    name = f"painter-{uuid4().hex[:8]}"
    async with Messenger(f"{served.url}/acl", name) as painter:

        @painter.on("TASK_REQUEST")
        async def paint(conversation: AclConversation, reported: Envelope) -> None:
            text = f"painted {reported.payload['task_description']}"
            result = {"task_status": "success", "result_summary": text, "result_details": {}}
            await conversation.say("INFORM_RESULT", result)

        await painter.link.waiting(name)
        peers = [connect(f"{served.url}/acl", agent=item) for item in (name, "jules")]
        gateway = Gateway(Federation(peers, name="studio"), home=tmp_path, beside=peers)
        with serving(gateway) as front:
            async with httpx.AsyncClient(timeout=600) as client:
                asked = {"format": "text", "subformat": "english", "content": "a heron"}
                answer = (await client.post(f"{front.url}/nlip/studio", json=asked)).json()
    assert "painted a heron" in answer["content"]
    assert "You said: a heron" in answer["content"]


def test_every_protocol_lists_the_same_agents(served: Served) -> None:  # ACL-42
    agents = set(served.gateway.agents)
    with httpx.Client(base_url=served.url) as client:
        acl = {agent["agent_id"] for agent in client.get("/.well-known/acl").json()["agents"]}
        found = {entry["name"] for entry in client.get("/acl/directory").json()["entries"]}
        who = {row["definition"]["name"] for row in client.get("/who", params={"query": ""}).json()["results"]}
        cards = {client.get(f"/a2a/{name}/.well-known/agent-card.json").json()["name"] for name in agents}
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}
        tools = client.post("/mcp", json=call, headers=headers)
    assert acl == agents
    assert agents <= found
    assert who == agents
    assert cards == agents
    assert all(f'"{name}"' in tools.text for name in agents), tools.text[:500]


def test_the_door_has_typed_settings_limits_and_a_switch(tmp_path: Path) -> None:  # ACL-46
    with pytest.raises(ConfigError, match="signatures"):
        Gateway(echo, home=tmp_path, doors={"acl": {"signatures": "sometimes"}})
    Gateway(echo, home=tmp_path, doors={"acl": {"signatures": False, "log_messages": False}})  # a bare off in YAML
    with pytest.raises(ConfigError, match="signatures"):
        Gateway(echo, home=tmp_path, doors={"acl": {"signatures": True}})
    with pytest.raises(ConfigError, match="inbox_message"):
        Gateway(echo, home=tmp_path, doors={"acl": {"inbox_message": 3}})
    with serving(Gateway(echo, home=tmp_path, doors={"acl": False})) as closed:
        assert httpx.post(f"{closed.url}/acl", json={}).status_code == 404
    quotas = Quotas(rate_per_address=1000)
    small = Gateway(echo, home=tmp_path, doors={"acl": {"message_bytes": 1000}}, quotas=quotas)
    with serving(small) as served, httpx.Client(base_url=served.url) as client:
        given = message(receiver={"agent_id": "echo"})
        taken = client.post("/acl", json=given)
        payload = {"task_type": "ask", "task_description": "x" * 2000}
        large = client.post("/acl", json={**given, "payload": payload})
    assert taken.status_code == 202
    assert "ratelimit" in taken.headers
    assert (large.status_code, large.json()["payload"]["reason_code"]) == (413, "too_large")  # ACL-31
