"""A client of each protocol, as its own users write one: the official SDK where there is one, else plain HTTP.

Each says the same things in its own way, and gives back what it heard as plain values.
"""

from __future__ import annotations

import asyncio
import base64
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import httpx
import mcp_types
from a2a.client import Client as A2aSdkClient
from a2a.client import ClientConfig, ClientFactory
from a2a.types import a2a_pb2 as pb
from google.protobuf.json_format import MessageToDict
from mcp import Client as McpClient
from mcp.shared.exceptions import MCPError

from deadline import DEADLINE
from gates import Gate
from sabir.message import Message
from sabir.protocols.nlip.wire import json as nlip


@dataclass
class Heard:
    """What a client got for one message."""

    text: str = ""
    images: list[bytes] = field(default_factory=list)
    data: list[Any] = field(default_factory=list)
    place: Any = None  # with which the conversation goes on
    question: str = ""
    options: list[str] = field(default_factory=list)
    failure: str = ""
    pieces: list[str] = field(default_factory=list)


class Talker(ABC):
    """One protocol's client."""

    protocol: str

    def __init__(self, url: str) -> None:
        self.url = url
        self.http = httpx.AsyncClient(trust_env=False)

    @abstractmethod
    async def ask(self, agent: str, text: str, place: Any = None) -> Heard:
        """Say something, in a conversation or not."""

    @abstractmethod
    async def stream(self, agent: str, text: str) -> Heard:
        """The same, with pieces ahead of the answer."""

    @abstractmethod
    async def later(self, agent: str, text: str, gate: Gate) -> Heard:
        """Begin long work, see that it is not done, let it be done, and fetch its answer."""

    @abstractmethod
    async def questioned(self, agent: str, text: str, answer: Any) -> tuple[Heard, Heard]:
        """Be asked back, and answer; what was asked, and the end."""

    @abstractmethod
    async def cancel(self, agent: str, text: str, gate: Gate) -> None:
        """Begin long work and take it back."""

    @abstractmethod
    async def who(self, agent: str) -> str:
        """What the agent says of itself."""

    async def aclose(self) -> None:
        await self.http.aclose()


async def entered(gate: Gate) -> None:
    assert await asyncio.to_thread(gate.entered.wait, DEADLINE), "the agent was not reached"


class NlipTalker(Talker):
    protocol = "nlip"

    def heard(self, response: httpx.Response) -> Heard:
        return self.heard_of(nlip.decode(response.content), failed=response.status_code >= 400)

    def heard_of(self, message: Message, failed: bool = False) -> Heard:
        question = nlip.question_of(message)
        parts = message.without_tokens().parts
        return Heard(
            text=message.without_tokens().text,
            images=[p.content for p in parts if p.format == "binary"],
            data=[p.value for p in parts if p.format == "structured" and p.label is None],
            place=message.tokens,
            question=question.text if question else "",
            options=list(question.fields[0].options) if question and question.fields else [],
            failure=message.text if failed or message.is_error else "",
        )

    async def _post(self, agent: str, text: str, place: Any = None, **headers: str) -> httpx.Response:
        body = nlip.encode(Message.text(text).with_parts(place or ()))
        sent = {"content-type": "application/json", **headers}
        return await self.http.post(f"{self.url}/nlip/{agent}", content=body, headers=sent)

    async def ask(self, agent: str, text: str, place: Any = None) -> Heard:
        return self.heard(await self._post(agent, text, place))

    async def stream(self, agent: str, text: str) -> Heard:
        body = nlip.encode(Message.text(text))
        headers = {"content-type": "application/json", "accept": "text/event-stream"}
        pieces: list[str] = []
        async with self.http.stream("POST", f"{self.url}/nlip/{agent}", content=body, headers=headers) as response:
            async for name, data in events(response):
                message = nlip.decode(data)
                if name == "partial":
                    pieces += [str(p.content) for p in message.submessages if p.format == "text"]
                else:
                    heard = self.heard_of(message)
        heard.pieces = pieces
        return heard

    async def _begun(self, agent: str, text: str) -> str:
        response = await self._post(agent, text, prefer="respond-async")
        assert response.status_code == 202
        return f"{self.url}{response.headers['location']}"

    async def later(self, agent: str, text: str, gate: Gate) -> Heard:
        place = await self._begun(agent, text)
        await entered(gate)
        assert (await self.http.get(place)).status_code == 202
        gate.open()
        return self.heard(await self.http.get(place, headers={"prefer": "wait=15"}))

    async def questioned(self, agent: str, text: str, answer: Any) -> tuple[Heard, Heard]:
        asked = await self.ask(agent, text)
        return asked, await self.ask(agent, answer, asked.place)

    async def cancel(self, agent: str, text: str, gate: Gate) -> None:
        place = await self._begun(agent, text)
        await entered(gate)
        await self.http.delete(place)

    async def who(self, agent: str) -> str:
        body = nlip.encode(Message.text("What are your capabilities?", messagetype="control"))
        response = await self.http.post(f"{self.url}/nlip", content=body, headers={"content-type": "application/json"})
        part = nlip.decode(response.content).labelled("capabilities")
        assert part is not None
        return next(str(card["description"]) for card in part.value["agents"] if card["name"] == agent)


class NlwebTalker(Talker):
    protocol = "nlweb"

    async def _post(self, agent: str, text: str, place: Any = None, **headers: str) -> dict[str, Any]:
        body: dict[str, Any] = {"query": {"text": text}, "prefer": {"streaming": False}}
        if place:
            body["meta"] = {"session_context": place}
        response = await self.http.post(f"{self.url}/ask/{agent}", json=body, headers=headers)
        answer: dict[str, Any] = response.json()
        return answer

    def heard_of(self, answer: dict[str, Any]) -> Heard:
        meta = answer["_meta"]
        heard = Heard(place=meta.get("session_context"))
        kind = meta["response_type"]
        if kind == "Failure":
            heard.failure = answer["error"]["message"]
        elif kind == "Elicitation":
            asked = answer["elicitation"]
            heard.question = asked["text"]
            heard.options = [str(option) for q in asked.get("questions", ()) for option in q.get("options") or ()]
        else:
            texts = [str(item["text"]) for item in answer.get("content", ())]
            heard.text = texts[0] if texts else ""
            heard.data = [decoded for text in texts[1:] if (decoded := _json(text)) is not None]
        return heard

    async def ask(self, agent: str, text: str, place: Any = None) -> Heard:
        return self.heard_of(await self._post(agent, text, place))

    async def stream(self, agent: str, text: str) -> Heard:
        body = {"query": {"text": text}, "prefer": {"streaming": True}}
        pieces: list[str] = []
        async with self.http.stream("POST", f"{self.url}/ask/{agent}", json=body) as response:
            async for name, data in events(response):
                if name == "content":
                    pieces.append(json.loads(data)["text"])
        return Heard(text="".join(pieces), pieces=pieces)

    async def _begun(self, agent: str, text: str) -> str:
        answer = await self._post(agent, text, prefer="respond-async")
        assert answer["_meta"]["response_type"] == "Promise"
        return str(answer["promise"]["token"])

    async def _await(self, token: str, **more: Any) -> dict[str, Any]:
        response = await self.http.post(f"{self.url}/await", json={"promise_token": token, "action": "checkin", **more})
        body: dict[str, Any] = response.json()
        return body

    async def later(self, agent: str, text: str, gate: Gate) -> Heard:
        token = await self._begun(agent, text)
        await entered(gate)
        assert (await self._await(token))["_meta"]["response_type"] == "Promise"
        gate.open()
        while (answer := await self._await(token))["_meta"]["response_type"] == "Promise":
            await asyncio.sleep(0.02)
        return self.heard_of(answer)

    async def questioned(self, agent: str, text: str, answer: Any) -> tuple[Heard, Heard]:
        asked = await self.ask(agent, text)
        return asked, await self.ask(agent, answer, asked.place)

    async def cancel(self, agent: str, text: str, gate: Gate) -> None:
        token = await self._begun(agent, text)
        await entered(gate)
        await self._await(token, action="cancel")

    async def who(self, agent: str) -> str:
        body = (await self.http.get(f"{self.url}/who", params={"query": ""})).json()
        return next(str(r["definition"]["description"]) for r in body["results"] if r["definition"]["name"] == agent)


class McpTalker(Talker):
    protocol = "mcp"

    def heard_of(self, result: mcp_types.CallToolResult) -> Heard:
        answer = result.model_dump(mode="json", by_alias=True)
        structured = answer.get("structuredContent") or {}
        texts = [block["text"] for block in answer["content"] if block["type"] == "text"]
        data = structured.get("data")
        return Heard(
            text=texts[0] if texts else "",
            images=[base64.b64decode(block["data"]) for block in answer["content"] if block["type"] == "image"],
            data=[data] if data is not None else [],
            place=structured.get("conversation"),
            failure=texts[0] if answer.get("isError") else "",
        )

    def client(self, agent: str, **more: Any) -> McpClient:
        return McpClient(f"{self.url}/mcp/{agent}", **more)

    async def ask(self, agent: str, text: str, place: Any = None) -> Heard:
        arguments = {"text": text, **({"conversation": place} if place else {})}
        async with self.client(agent) as client:
            try:
                return self.heard_of(await client.call_tool(agent, arguments))
            except MCPError as exc:
                return Heard(failure=exc.error.message)

    async def stream(self, agent: str, text: str) -> Heard:
        pieces: list[str] = []

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            if total is None and message:
                pieces.append(message)

        async with self.client(agent) as client:
            heard = self.heard_of(await client.call_tool(agent, {"text": text}, progress_callback=on_progress))
        heard.pieces = pieces
        return heard

    async def later(self, agent: str, text: str, gate: Gate) -> Heard:
        async with self.client(agent, mode="legacy") as client:  # the version in which a client asks for a task

            async def said(method: str, params: dict[str, Any]) -> dict[str, Any]:
                return await client.session._dispatcher.send_raw_request(method, params, {"timeout": 30})

            made = await said("tools/call", {"name": agent, "arguments": {"text": text}, "task": {"ttl": 60_000}})
            item_id = {"taskId": made["task"]["taskId"]}
            await entered(gate)
            assert (await said("tasks/get", item_id))["status"] == "working"
            gate.open()
            return self.heard_of(mcp_types.CallToolResult.model_validate(await said("tasks/result", item_id)))

    async def questioned(self, agent: str, text: str, answer: Any) -> tuple[Heard, Heard]:
        return await self.questioned_by(agent, {"text": text}, answer)

    async def questioned_by(self, agent: str, arguments: dict[str, Any], answer: Any) -> tuple[Heard, Heard]:
        """Be asked back about arguments, and answer."""
        asked = Heard()

        async def elicited(context: Any, params: Any) -> mcp_types.ElicitResult:
            asked.question = params.message
            (name, shape), *_ = params.requested_schema["properties"].items()
            asked.options = list(shape.get("enum", ()))
            return mcp_types.ElicitResult(action="accept", content={name: answer})

        async with self.client(agent, elicitation_callback=elicited) as client:
            return asked, self.heard_of(await client.call_tool(agent, arguments))

    async def cancel(self, agent: str, text: str, gate: Gate) -> None:
        async with self.client(agent) as client:
            calling = asyncio.create_task(client.call_tool(agent, {"text": text}))
            await entered(gate)
            calling.cancel()
            await asyncio.gather(calling, return_exceptions=True)

    async def who(self, agent: str) -> str:
        async with self.client(agent) as client:
            return next(str(tool.description) for tool in (await client.list_tools()).tools if tool.name == agent)


class A2aTalker(Talker):
    protocol = "a2a"

    async def client(self, agent: str, streaming: bool = False) -> A2aSdkClient:
        config = ClientConfig(httpx_client=self.http, streaming=streaming)
        return await ClientFactory(config).create_from_url(f"{self.url}/a2a/{agent}")

    def request(self, text: str, context: str = "", task: str = "", **configuration: Any) -> pb.SendMessageRequest:
        message = pb.Message(
            message_id=uuid4().hex, role=pb.ROLE_USER, parts=[pb.Part(text=text)], context_id=context, task_id=task
        )
        return pb.SendMessageRequest(message=message, configuration=pb.SendMessageConfiguration(**configuration))

    def heard_of(self, task: pb.Task) -> Heard:
        parts = [part for artifact in task.artifacts for part in artifact.parts]
        words = [p.text for p in task.status.message.parts if p.text]
        heard = Heard(
            text="".join(p.text for p in parts if p.WhichOneof("content") == "text" and not p.media_type),
            images=[p.raw for p in parts if p.WhichOneof("content") == "raw"],
            data=[_value(p) for p in parts if p.media_type == "application/json"],
            place=(task.context_id, task.id),
        )
        if task.status.state == pb.TASK_STATE_INPUT_REQUIRED:
            heard.question = words[0]
            shape = next(_value(p) for p in task.status.message.parts if p.WhichOneof("content") == "data")
            heard.options = shape["questions"][0].get("options", []) if "questions" in shape else []
        elif task.status.state in (pb.TASK_STATE_FAILED, pb.TASK_STATE_REJECTED):
            heard.failure = words[0]
        return heard

    async def ask(self, agent: str, text: str, place: Any = None) -> Heard:
        client = await self.client(agent)
        (response,) = [r async for r in client.send_message(self.request(text, place[0] if place else ""))]
        return self.heard_of(response.task)

    async def stream(self, agent: str, text: str) -> Heard:
        client = await self.client(agent, streaming=True)
        pieces: list[str] = []
        async for response in client.send_message(self.request(text)):
            if response.HasField("artifact_update"):
                pieces += [part.text for part in response.artifact_update.artifact.parts]
        return Heard(text="".join(pieces), pieces=pieces)

    async def _begun(self, agent: str, text: str) -> tuple[A2aSdkClient, str]:
        client = await self.client(agent)
        (response,) = [r async for r in client.send_message(self.request(text, return_immediately=True))]
        return client, response.task.id

    async def later(self, agent: str, text: str, gate: Gate) -> Heard:
        client, item_id = await self._begun(agent, text)
        await entered(gate)
        assert (await client.get_task(pb.GetTaskRequest(id=item_id))).status.state == pb.TASK_STATE_WORKING
        gate.open()
        while (task := await client.get_task(pb.GetTaskRequest(id=item_id))).status.state == pb.TASK_STATE_WORKING:
            await asyncio.sleep(0.02)
        return self.heard_of(task)

    async def questioned(self, agent: str, text: str, answer: Any) -> tuple[Heard, Heard]:
        asked = await self.ask(agent, text)
        client = await self.client(agent)
        (done,) = [r async for r in client.send_message(self.request(answer, *asked.place))]
        return asked, self.heard_of(done.task)

    async def cancel(self, agent: str, text: str, gate: Gate) -> None:
        client, item_id = await self._begun(agent, text)
        await entered(gate)
        await client.cancel_task(pb.CancelTaskRequest(id=item_id))

    async def who(self, agent: str) -> str:
        return str((await self.http.get(f"{self.url}/a2a/{agent}/.well-known/agent-card.json")).json()["description"])


class AclTalker(Talker):
    """Plain HTTP and JSON: what is asked goes to ``/acl``, and the inbox is read as it fills."""

    protocol = "acl"

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.name = f"talker-{uuid4().hex[:12]}"

    async def send(self, act: str, agent: str, payload: dict[str, Any], **more: Any) -> dict[str, Any]:
        message = {
            "mcp_version": "0.1.0",
            "message_id": str(uuid4()),
            "performative": act,
            "sender": {"agent_id": self.name},
            "receiver": {"agent_id": agent},
            "language": "application/json",
            "ontology": "elizaos:general",
            "payload": payload,
            **more,
        }
        response = await self.http.post(f"{self.url}/acl", json=message)
        assert response.status_code == 202, response.text
        return message

    async def request(self, agent: str, text: str, place: Any = None) -> dict[str, Any]:
        more = {"conversation_id": place} if place else {}
        return await self.send("TASK_REQUEST", agent, {"task_type": "ask", "task_description": text}, **more)

    async def _until_end(self, conversation: str) -> Heard:
        heard = Heard(place=conversation)
        async with self.http.stream("GET", f"{self.url}/acl/inbox/{self.name}") as response:
            async for _, data in events(response):
                body = json.loads(data)
                payload = body["payload"]
                if body["conversation_id"] != conversation:
                    continue
                if body["performative"] == "INFORM_PROGRESS":
                    heard.pieces += [payload["partial"]] if isinstance(payload.get("partial"), str) else []
                elif body["performative"] != "TASK_ACCEPT":
                    self._ended(heard, body)
                    break
        return heard

    def _ended(self, heard: Heard, text: dict[str, Any]) -> None:
        payload = text["payload"]
        if text["performative"] == "REQUEST_INPUT":
            heard.question = payload["question"]
            heard.options = next(iter(payload["schema"]["properties"].values())).get("enum", [])
            heard.data = [text["message_id"]]
        elif text["performative"] == "INFORM_RESULT":
            heard.text = payload["result_summary"]
            heard.data = [payload["result_details"]] if payload["result_details"] else []
            heard.images = [base64.b64decode(item["content"]) for item in payload.get("artifacts", ())]
        else:
            heard.failure = payload.get("error_text") or payload.get("reason_text") or text["performative"]

    async def ask(self, agent: str, text: str, place: Any = None) -> Heard:
        sent = await self.request(agent, text, place)
        return await self.fresh(sent, place)

    async def fresh(self, sent: dict[str, Any], place: Any) -> Heard:
        heard = await self._until_end(place or sent["message_id"])
        await self._acknowledged()
        return heard

    async def _acknowledged(self) -> None:
        place = f"{self.url}/acl/inbox/{self.name}"
        listed = (await self.http.get(place, headers={"accept": "application/json"})).json()["messages"]
        await self.http.post(place, json={"numbers": [item["id"] for item in listed]})

    async def stream(self, agent: str, text: str) -> Heard:
        return await self.ask(agent, text)

    async def later(self, agent: str, text: str, gate: Gate) -> Heard:
        sent = await self.request(agent, text)
        await entered(gate)
        view = (await self.http.get(f"{self.url}/acl/conversations/{sent['message_id']}")).json()
        assert view["dialogues"][0]["state"] == "accepted"
        gate.open()
        return await self.fresh(sent, None)

    async def questioned(self, agent: str, text: str, answer: Any) -> tuple[Heard, Heard]:
        asked = await self.ask(agent, text)
        more = {"in_reply_to": asked.data[0], "conversation_id": asked.place}
        sent = await self.send("INFORM_INPUT", agent, {"answer": answer}, **more)
        return asked, await self.fresh(sent, asked.place)

    async def cancel(self, agent: str, text: str, gate: Gate) -> None:
        sent = await self.request(agent, text)
        await entered(gate)
        await self.send("CANCEL", agent, {}, in_reply_to=sent["message_id"])

    async def who(self, agent: str) -> str:
        body = (await self.http.get(f"{self.url}/.well-known/acl")).json()
        return next(str(item["description"]) for item in body["agents"] if item["agent_id"] == agent)


TALKERS: dict[str, type[Talker]] = {t.protocol: t for t in (NlipTalker, NlwebTalker, McpTalker, A2aTalker, AclTalker)}


async def events(response: httpx.Response) -> AsyncIterator[tuple[str, bytes]]:
    """The server-sent events of a response."""
    name, data = "message", ""
    async for line in response.aiter_lines():
        if line.startswith("event:"):
            name = line[6:].strip()
        elif line.startswith("data:"):
            data += line[5:].strip()
        elif not line and data:
            yield name, data.encode()
            name, data = "message", ""


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _value(part: pb.Part) -> Any:
    return json.loads(part.text) if part.WhichOneof("content") == "text" else MessageToDict(part.data)
