"""The ACL suite: what the draft and its completion require of any endpoint (``sabir check --protocol acl URL``).

Each check talks to an agent of the endpoint under its own name, and reads replies with ``Prefer: wait``.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit
from uuid import UUID, uuid4

import httpx2

from sabir.errors import BadInput, PeerUnavailable
from sabir.http.connect_errors import why_no_connection
from sabir.protocols.acl.wire.envelope import Envelope, envelope_of

from .base import CheckFailed, CheckPace, CheckReport, Declined, Suite, Wire, choose, demand, run_checks
from .suites import Options

SUITE: Final = Suite["AclTarget"]("http")
_WAIT: Final = 10  # time limit of an agent's first reply
_ENDS: Final = ("INFORM_RESULT", "FAILURE", "TASK_REJECT", "NOT_UNDERSTOOD")


class Answer:
    """The response to a request."""

    def __init__(self, response: httpx2.Response) -> None:
        self.status = response.status_code
        self.headers = response.headers
        self.text = response.text
        try:
            self.value = response.json()
        except ValueError:
            self.value = None

    @property
    def message(self) -> Envelope:
        """The message in the body.

        Raises:
            Failed: there is no readable message.
        """
        demand(isinstance(self.value, dict), f"expected a message, got HTTP {self.status}: {self.text[:200]!r}")
        try:
            return envelope_of(self.value)
        except BadInput as exc:
            raise CheckFailed(f"the answer is not a message: {exc}") from None

    def refusal(self, act: str, *reasons: str) -> Envelope:
        """The message of a refusal, with one of these reasons."""
        message = self.message
        demand(message.performative == act, f"expected {act}, got {message.performative}")
        code = message.payload.get("reason_code") or message.payload.get("error_code")
        demand(code in reasons, f"expected the reason {' or '.join(reasons)}, got {code!r}")
        return message


class AclTarget:
    """One endpoint, seen by one agent."""

    def __init__(self, client: httpx2.AsyncClient, url: str, wire: Wire, agent: str) -> None:
        self._client = client
        self.url = url
        self.wire = wire
        self.agent = agent
        self.name = f"check-{uuid4().hex[:12]}"

    async def send(self, method: str, url: str, body: str = "", **headers: str) -> Answer:
        """One request. 401, 403 and 429 are policy.

        Raises:
            Declined: the endpoint requires authentication, or asks to slow down for too long.
        """
        while True:
            request = self._client.build_request(
                method, url, content=body or None, headers={"content-type": "application/json", **headers}
            )
            try:
                response = await self._client.send(request)
            except httpx2.RequestError as exc:
                raise PeerUnavailable(
                    self.url, why_no_connection(exc, f"no connection ({type(exc).__name__})")
                ) from None
            self.wire.keep(f"{method} {url}\n{body}".encode(), f"HTTP {response.status_code}\n{response.text}".encode())
            if response.status_code == 401:
                raise Declined("HTTP 401: authentication required; set SABIR_TOKEN")
            if response.status_code != 429:
                return Answer(response)
            await self.wire.slow_down(response.headers.get("retry-after"))

    def message(self, act: str = "TASK_REQUEST", **more: Any) -> dict[str, Any]:
        given = {
            "mcp_version": "0.1.0",
            "message_id": str(uuid4()),
            "performative": act,
            "sender": {"agent_id": self.name},
            "receiver": {"agent_id": self.agent},
            "language": "application/json",
            "ontology": "elizaos:general_query",
            "timestamp": "2026-01-01T00:00:00Z",
            "payload": {"task_type": "ask", "task_description": "Hello"},
        }
        return {**given, **more}

    async def post(self, value: Any, *, wait: bool = False) -> Answer:
        body = value if isinstance(value, str) else json.dumps(value)
        headers = {"prefer": f"wait={_WAIT}"} if wait else {}
        return await self.send("POST", self.url, body, **headers)

    async def reply(self, act: str = "TASK_REQUEST", **more: Any) -> Envelope:
        """The first reply to a message."""
        answer = await self.post(self.message(act, **more), wait=True)
        demand(answer.status == 200, f"expected the first reply with HTTP 200, got {answer.status}")
        return answer.message

    async def inbox(self, count: int, last: str | None = None) -> list[tuple[str, Envelope]]:
        """This many messages of our inbox, with the ids of their events."""
        headers = {"accept": "text/event-stream", **({"last-event-id": last} if last is not None else {})}
        found: list[tuple[str, Envelope]] = []
        place = f"{self.url}/inbox/{self.name}"
        async with self._client.stream("GET", place, headers=headers) as response:
            demand(response.status_code == 200, f"expected HTTP 200 for the inbox, got {response.status_code}")
            kind = response.headers.get("content-type", "")
            demand(kind.startswith("text/event-stream"), f"expected text/event-stream, got {kind!r}")
            number = ""
            async for line in response.aiter_lines():
                self.wire.keep(b"", line.encode())
                if line.startswith("id:"):
                    number = line[3:].strip()
                elif line.startswith("data:"):
                    try:
                        found.append((number, envelope_of(json.loads(line[5:]))))
                    except (ValueError, BadInput) as exc:
                        raise CheckFailed(f"an event is not a message: {exc}") from None
                if len(found) == count:
                    break
        return found


check = SUITE.check


@check("ACL-C1", "draft 3", "must", "A message is acknowledged with 202 and its id")
async def acknowledged(target: AclTarget) -> None:
    sent = target.message()
    answer = await target.post(sent)
    demand(answer.status == 202, f"expected HTTP 202, got {answer.status}")
    value = answer.value if isinstance(answer.value, dict) else {}
    demand(value.get("message_id") == sent["message_id"], "the acknowledgement does not name the message")


@check("ACL-C2", "draft 4.2", "must", "TASK_REQUEST is accepted or rejected, in reply to its message_id")
async def accepted(target: AclTarget) -> None:
    sent = target.message()
    reply = (await target.post(sent, wait=True)).message
    known = ("TASK_ACCEPT", "TASK_REJECT", "INFORM_RESULT", "FAILURE", "NOT_UNDERSTOOD")
    demand(reply.performative in known, f"{reply.performative} does not answer a request")
    demand(reply.in_reply_to == sent["message_id"], "in_reply_to is not the message_id of the request")


@check(
    "ACL-C3", "draft 3", "must", "A reply has the agent as its sender, and the sender of the request as its receiver"
)
async def addressed(target: AclTarget) -> None:
    reply = await target.reply()
    demand(reply.receiver_ids == (target.name,), f"the receiver is {reply.receiver_ids}")
    demand(reply.sender_id == target.agent, f"the sender is {reply.sender_id!r}")


@check("ACL-C4", "draft 3", "must", "A reply has a message_id of its own")
async def own_id(target: AclTarget) -> None:
    sent = target.message()
    reply = (await target.post(sent, wait=True)).message
    demand(reply.message_id != sent["message_id"], "the reply repeats the message_id of the request")


@check("ACL-C5", "draft 3", "should", "message_id is a UUID")
async def uuid(target: AclTarget) -> None:
    reply = await target.reply()
    try:
        UUID(reply.message_id)
    except ValueError:
        raise CheckFailed(f"{reply.message_id!r} is not a UUID") from None


@check("ACL-C6", "draft 3", "must", "mcp_version is 0.1.0")
async def version(target: AclTarget) -> None:
    answer = await target.post(target.message(), wait=True)
    value = answer.value if isinstance(answer.value, dict) else {}
    demand(value.get("mcp_version") == "0.1.0", f"mcp_version is {value.get('mcp_version')!r}")


@check("ACL-C7", "draft 3", "must", "timestamp is ISO 8601 in UTC")
async def timestamp(target: AclTarget) -> None:
    reply = await target.reply()
    demand(reply.at is not None, "the reply has no timestamp")
    demand(reply.timestamp.endswith(("Z", "+00:00")), f"{reply.timestamp!r} is not UTC")


@check("ACL-C8", "draft 4.3", "must", "A result arrives in the inbox, in reply to the request")
async def result(target: AclTarget) -> None:
    sent = target.message()
    await target.post(sent)
    last = None
    for _ in range(50):
        ((last, message),) = await target.inbox(1, last)
        if message.performative in _ENDS:
            demand(message.in_reply_to == sent["message_id"], "in_reply_to is not the message_id of the request")
            return
    raise CheckFailed("no result after 50 messages")


@check("ACL-C9", "draft 4.8", "must", "The answer to QUERY_CAPABILITIES with summary lists topics and actions")
async def summary(target: AclTarget) -> None:
    reply = await target.reply("QUERY_CAPABILITIES", payload={"query_type": "summary"})
    demand(reply.performative == "INFORM_CAPABILITIES", f"got {reply.performative}")
    answer = reply.payload.get("capabilities")
    demand(isinstance(answer, dict), "capabilities is not an object")
    assert isinstance(answer, dict)
    demand(isinstance(answer.get("topics"), list), "topics is not a list")
    actions = answer.get("actions")
    named = isinstance(actions, list) and all(isinstance(action, dict) and "name" in action for action in actions)
    demand(named, "actions is not a list of objects with a name")


@check(
    "ACL-C10",
    "draft 9 (Whispering Wind)",
    "must",
    "The answer to QUERY_CAPABILITIES with specific has match_result beside status",
)
async def specific(target: AclTarget) -> None:
    query = {"query_type": "specific", "query_parameters": {"capabilities": ["no such thing"], "match_type": "any"}}
    reply = await target.reply("QUERY_CAPABILITIES", payload=query)
    demand(reply.payload.get("match_result") is False, f"match_result is {reply.payload.get('match_result')!r}")
    demand(reply.payload.get("matched_capabilities") == [], "matched_capabilities is not an empty list")


@check("ACL-C11", "A-5", "ours", "The answer to action_details of an unknown action is unsupported_function")
async def details(target: AclTarget) -> None:
    query = {"query_type": "action_details", "query_parameters": {"action_name": "no such action"}}
    reply = await target.reply("QUERY_CAPABILITIES", payload=query)
    demand(reply.payload.get("reason_code") == "unsupported_function", f"got {reply.payload}")


@check("ACL-C12", "draft 4.7", "must", "An unknown performative is not understood")
async def unknown_performative(target: AclTarget) -> None:
    answer = await target.post(target.message(performative="NO_SUCH_ACT"), wait=True)
    answer.refusal("NOT_UNDERSTOOD", "unknown_performative")


@check("ACL-C13", "draft 4.7", "must", "A body that is not JSON is a parsing_error")
async def parsing(target: AclTarget) -> None:
    answer = await target.post("{ this is not JSON")
    answer.refusal("NOT_UNDERSTOOD", "parsing_error")


@check("ACL-C14", "draft 4.7", "must", "A payload without a required field is invalid_payload_structure")
async def invalid_payload(target: AclTarget) -> None:
    answer = await target.post(target.message(payload={}), wait=True)
    answer.refusal("NOT_UNDERSTOOD", "invalid_payload_structure")


@check("ACL-C15", "draft 4.2 to 4.9", "must", "An answering act without in_reply_to is rejected")
async def without_reference(target: AclTarget) -> None:
    answer = await target.post(target.message("TASK_ACCEPT", payload={"status": "accepted"}))
    demand(400 <= answer.status < 500, f"expected a refusal, got HTTP {answer.status}")


@check("ACL-C16", "FIPA 00025", "must", "An act out of sequence is unexpected_act")
async def sequence(target: AclTarget) -> None:
    sent = target.message()
    await target.post(sent)
    answer = await target.post(target.message("RENEW", in_reply_to=sent["message_id"], payload={}))
    answer.refusal("NOT_UNDERSTOOD", "unexpected_act")


@check("ACL-C17", "A-10", "must", "A duplicate message_id is acknowledged and not handled twice")
async def duplicate(target: AclTarget) -> None:
    sent = target.message("QUERY_CAPABILITIES", payload={"query_type": "summary"})
    first = (await target.post(sent, wait=True)).message
    again = await target.post(sent)
    demand(again.status in (200, 202), f"expected the duplicate to be acknowledged, got HTTP {again.status}")
    later = target.message("QUERY_CAPABILITIES", payload={"query_type": "summary"})
    await target.post(later)
    for _, message in await target.inbox(1):
        demand(
            message.in_reply_to == later["message_id"] or message.message_id == first.message_id,
            "the duplicate was answered a second time",
        )


@check("ACL-C18", "A-10", "must", "A message to an unknown agent is a FAILURE with not_registered")
async def unknown_agent(target: AclTarget) -> None:
    answer = await target.post(target.message(receiver={"agent_id": f"nobody-{uuid4().hex[:8]}"}), wait=True)
    answer.refusal("FAILURE", "not_registered")


@check("ACL-C19", "draft 3", "ours", "Another version is rejected, and the known ones are named")
async def other_version(target: AclTarget) -> None:
    refused = (await target.post(target.message(mcp_version="9.9.9"))).refusal("NOT_UNDERSTOOD", "unsupported_value")
    demand("0.1.0" in str(refused.payload.get("reason_text")), "the known version is not named")


@check("ACL-C20", "draft 3", "ours", "Unknown fields are accepted")
async def unknown_fields(target: AclTarget) -> None:
    answer = await target.post(target.message(x_own_field={"a": 1}))
    demand(answer.status == 202, f"expected HTTP 202, got {answer.status}")


@check("ACL-C21", "A-9", "must", "Nobody can send under the name of the server's own agent")
async def forged(target: AclTarget) -> None:
    answer = await target.post(target.message(sender={"agent_id": target.agent}))
    answer.refusal("TASK_REJECT", "unauthorised", "unauthorized")


@check("ACL-C22", "A-9", "must", "Nobody else can read the inbox of the server's own agent")
async def foreign_inbox(target: AclTarget) -> None:
    url = target.url.replace("/acl", f"/acl/inbox/{target.agent}", 1)
    answer = await target.send("GET", url, accept="application/json")
    demand(answer.status in (403, 404), f"expected HTTP 403 or 404, got {answer.status}")


@check("ACL-C23", "A-10", "ours", "Last-Event-ID acknowledges what came before")
async def resumed(target: AclTarget) -> None:
    for _ in range(2):
        await target.post(target.message("QUERY_CAPABILITIES", payload={"query_type": "summary"}))
    first = await target.inbox(2)
    again = await target.inbox(1, first[0][0])
    demand(
        again[0][1].message_id == first[1][1].message_id, "what was acknowledged came again, or what was not is lost"
    )


@check("ACL-C24", "A-1", "ours", "QUERY_IF is answered by INFORM_IF with true, false or null")
async def query_if(target: AclTarget) -> None:
    reply = await target.reply("QUERY_IF", payload={"condition": {"capacity": 1}})
    demand(reply.performative == "INFORM_IF", f"got {reply.performative}")


def end_point(url: str) -> str:
    """The address of ``/acl`` at an address."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    before, found, _ = f"{path}/".partition("/acl/")
    path = f"{before}/acl" if found else f"{path}/acl"
    return urlunsplit(parts._replace(path=path, query="", fragment=""))


async def _agent(client: httpx2.AsyncClient, url: str, options: Options) -> str:
    """An agent of the endpoint: the one that the address names, or the first that is listed."""
    place = end_point(url)
    named = urlsplit(url).path.rstrip("/").partition("/acl/")[2]
    if named:
        return named
    try:
        response = await client.get(place.removesuffix("/acl") + "/.well-known/acl")
        listed = response.json()["agents"]
        return str(listed[0]["agent_id"])
    except httpx2.RequestError as exc:
        raise PeerUnavailable(url, why_no_connection(exc, f"no connection ({type(exc).__name__})")) from None
    except (ValueError, KeyError, IndexError, TypeError):
        raise PeerUnavailable(url, "it lists no agent at /.well-known/acl; name one: URL/acl/AGENT") from None


@asynccontextmanager
async def _client(options: Options) -> AsyncIterator[httpx2.AsyncClient]:
    async with options.client() as client:
        yield client


async def check_acl(url: str, options: Options) -> CheckReport:
    """The ACL suite.

    Raises:
        PeerUnavailable: no answer.
    """
    async with _client(options) as client:
        agent = await _agent(client, url, options)
        place = end_point(url)

        async def connect(wire: Wire) -> AclTarget:
            return AclTarget(client, place, wire, agent)

        outcomes = await run_checks(
            choose(SUITE.checks, options.level),
            connect,
            pause=options.pause,
            seconds=options.seconds,
            on_outcome=options.on_outcome,
            pace=CheckPace(),
        )
    return CheckReport(url, "acl", tuple(outcomes))
