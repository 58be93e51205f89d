"""Push notifications: sent to a real receiver, signed, guarded, and continued after a restart."""

from __future__ import annotations

import asyncio
import hashlib
import json
import queue
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import A2AError, InvalidParamsError, TaskNotFoundError

from conftest import serving
from deadline import DEADLINE
from protocols.a2a.a2a_bench import Bench, Keys, closed, connected, said, saying
from sabir.gateway.gateway import Gateway
from sabir.guard import Authenticator
from sabir.protocols.a2a.peer.peer import A2aPeer
from sabir.tasks import TaskSettings


class Receiver:
    """A web server that keeps what it is sent, and fails the first ``fails`` times."""

    def __init__(self, fails: int = 0) -> None:
        self.got: queue.Queue[tuple[dict[str, str], bytes]] = queue.Queue()
        self.fails = fails
        outer = self

        class Answer(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                outer.fails -= 1
                self.send_response(503 if outer.fails >= 0 else 200)
                self.send_header("content-length", "0")
                self.end_headers()
                if outer.fails < 0:
                    outer.got.put(({k.lower(): v for k, v in self.headers.items()}, body))

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/hook"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    async def next(self) -> tuple[dict[str, str], dict[str, Any], bytes]:
        headers, body = await asyncio.to_thread(self.got.get, True, 20)
        return headers, json.loads(body), body

    async def until(self, state: str) -> dict[str, Any]:
        while True:
            _, answer, _ = await self.next()
            if answer.get("statusUpdate", {}).get("status", {}).get("state") == state:
                return answer

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


async def test_every_update_is_posted_signed_and_in_order(
    serve, gateway: Gateway, receiver: Receiver, http: httpx.AsyncClient
) -> None:
    served = serve(gateway)
    client = await connected(served.url, "pieces", as_="alice")
    config = pb.TaskPushNotificationConfig(url=receiver.url, token="t0ken", id="hook")
    (first, *_) = await said(client, saying("go", task_push_notification_config=config))
    keys = jwt.PyJWKSet.from_dict((await http.get(f"{served.url}/a2a/.well-known/jwks.json")).json())
    seen = []
    while True:
        headers, answer, body = await receiver.next()
        assert headers["x-a2a-notification-token"] == "t0ken"
        assert headers["content-type"] == "application/a2a+json"
        signed = headers["x-a2a-notification-signature"]
        assert headers["authorization"] == f"Bearer {signed}"
        claims = jwt.decode(signed, keys.keys[0], algorithms=["ES256"], audience=receiver.url, issuer=served.url)
        assert claims["request_body_sha256"] == hashlib.sha256(body).hexdigest()
        assert claims["taskId"] == first.task.id
        seen.append(next(iter(answer)))
        if answer.get("statusUpdate", {}).get("status", {}).get("state") == "TASK_STATE_COMPLETED":
            break
    assert seen == ["artifactUpdate", "statusUpdate", "artifactUpdate", "artifactUpdate", "statusUpdate"]
    await closed(client)


async def test_the_receiver_s_own_credentials_are_used(serve, gateway: Gateway, receiver: Receiver) -> None:
    client = await connected(serve(gateway).url, "echo", as_="alice")
    config = pb.TaskPushNotificationConfig(url=receiver.url)
    config.authentication.CopyFrom(pb.AuthenticationInfo(scheme="Basic", credentials="YTpi"))
    await said(client, saying("go", task_push_notification_config=config))
    headers, _, _ = await receiver.next()
    assert headers["authorization"] == "Basic YTpi"
    await closed(client)


async def test_a_receiver_that_fails_is_tried_again(serve, gateway: Gateway) -> None:
    receiver = Receiver(fails=1)
    client = await connected(serve(gateway).url, "echo", as_="alice")
    config = pb.TaskPushNotificationConfig(url=receiver.url)
    await said(client, saying("go", task_push_notification_config=config))
    _, first, _ = await receiver.next()
    assert first["artifactUpdate"]["artifact"]["parts"] == [{"text": "go"}]
    await closed(client)
    receiver.close()


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
async def test_configurations_are_kept_listed_and_deleted_by_the_owner(
    serve, gateway: Gateway, bench: Bench, receiver: Receiver, binding: str
) -> None:
    served = serve(gateway)
    alice, bob = [await connected(served.url, "slow", binding, name, streaming=False) for name in ("alice", "bob")]
    (begun,) = await said(alice, saying("work", return_immediately=True))
    task = begun.task.id
    made = await alice.create_task_push_notification_config(
        pb.TaskPushNotificationConfig(task_id=task, url=receiver.url, id="one")
    )
    assert (made.id, made.task_id, made.url) == ("one", task, receiver.url)
    found = await alice.get_task_push_notification_config(
        pb.GetTaskPushNotificationConfigRequest(task_id=task, id="one")
    )
    assert found == made
    listed = await alice.list_task_push_notification_configs(pb.ListTaskPushNotificationConfigsRequest(task_id=task))
    assert list(listed.configs) == [made]
    for ask in (
        bob.get_task_push_notification_config(pb.GetTaskPushNotificationConfigRequest(task_id=task, id="one")),
        bob.list_task_push_notification_configs(pb.ListTaskPushNotificationConfigsRequest(task_id=task)),
        bob.delete_task_push_notification_config(pb.DeleteTaskPushNotificationConfigRequest(task_id=task, id="one")),
        bob.create_task_push_notification_config(pb.TaskPushNotificationConfig(task_id=task, url=receiver.url)),
    ):
        with pytest.raises(TaskNotFoundError):
            await ask
    await alice.delete_task_push_notification_config(pb.DeleteTaskPushNotificationConfigRequest(task_id=task, id="one"))
    with pytest.raises(TaskNotFoundError):
        await alice.get_task_push_notification_config(pb.GetTaskPushNotificationConfigRequest(task_id=task, id="one"))
    bench.gate.open()
    for client in (alice, bob):
        await closed(client)


async def test_configurations_are_distinguished_by_their_whole_id(
    serve, gateway: Gateway, bench: Bench, receiver: Receiver
) -> None:
    alice = await connected(serve(gateway).url, "slow", "JSONRPC", "alice", streaming=False)
    (begun,) = await said(alice, saying("work", return_immediately=True))
    task = begun.task.id
    ids = ["x" * 100 + "1", "x" * 100 + "2"]
    for config_id in ids:
        config = pb.TaskPushNotificationConfig(task_id=task, url=receiver.url, id=config_id)
        assert (await alice.create_task_push_notification_config(config)).id == config_id
    listed = await alice.list_task_push_notification_configs(pb.ListTaskPushNotificationConfigsRequest(task_id=task))
    assert [config.id for config in listed.configs] == ids
    for config_id in ("x" * 257, "a\0b", "a\nb"):
        config = pb.TaskPushNotificationConfig(task_id=task, url=receiver.url, id=config_id)
        with pytest.raises(A2AError, match=r"\$\.id: expected at most 256 printable characters"):
            await alice.create_task_push_notification_config(config)
    bench.gate.open()
    await closed(alice)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9/x",
        "http://localhost/x",
        "http://169.254.169.254/latest/meta-data",
        "http://[::1]/x",
        "http://[::ffff:10.0.0.1]/x",
        "http://2130706433/x",
        "http://10.0.0.8/x",
        "file:///etc/passwd",
        "gopher://example.com/x",
        "http://user:pass@example.com/",
    ],
)
async def test_a_webhook_may_not_point_inside(serve, home: Path, http: httpx.AsyncClient, url: str) -> None:
    served = serve(Gateway(*Bench().agents(), home=home))
    message = {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
    params = {"message": message, "configuration": {"taskPushNotificationConfig": {"url": url}}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
    answer = await http.post(f"{served.url}/a2a", json=request, headers={"a2a-version": "1.0"})
    assert (answer.status_code, answer.json()["error"]["data"][0]["reason"]) == (403, "PERMISSION_DENIED")


async def test_credentials_of_receivers_are_sealed_in_the_store(
    serve, gateway: Gateway, bench: Bench, receiver: Receiver, home: Path
) -> None:
    client = await connected(serve(gateway).url, "slow", as_="alice", streaming=False)
    config = pb.TaskPushNotificationConfig(url=receiver.url, token="plain-t0ken-in-the-store")
    await said(client, saying("work", return_immediately=True, task_push_notification_config=config))
    kept = b"".join(path.read_bytes() for path in home.glob("sabir.db*"))
    assert b"a2a-push" in kept
    assert b"plain-t0ken-in-the-store" not in kept
    bench.gate.open()
    await receiver.until("TASK_STATE_COMPLETED")
    await closed(client)


@pytest.mark.parametrize("token", ["a\r\nx: y", "naïve", "\x00"])
async def test_a_token_that_no_header_can_hold_is_refused(
    serve, gateway: Gateway, receiver: Receiver, token: str
) -> None:
    client = await connected(serve(gateway).url, "echo", streaming=False)
    config = pb.TaskPushNotificationConfig(url=receiver.url, token=token)
    with pytest.raises(InvalidParamsError, match="HTTP header"):
        await said(client, saying("work", task_push_notification_config=config))
    await closed(client)


async def test_notifications_continue_after_a_restart(home: Path, receiver: Receiver) -> None:
    def made() -> Gateway:
        doors = {"a2a": {"push": {"private": True}}}
        quick = TaskSettings(lease=0.5, look=0.05)
        return Gateway(*Bench().agents(), home=home, identity=Authenticator((Keys(),)), doors=doors, tasks=quick)

    with serving(made()) as served:
        client = await connected(served.url, "asker", as_="alice", streaming=False)
        config = pb.TaskPushNotificationConfig(url=receiver.url)
        (asking,) = await said(client, saying("paint", task_push_notification_config=config))
        assert asking.task.status.state == pb.TASK_STATE_INPUT_REQUIRED
        await receiver.until("TASK_STATE_INPUT_REQUIRED")
        await closed(client)
    with serving(made()) as served:
        client = await connected(served.url, "asker", as_="alice", streaming=False)
        await said(client, saying("blue", task=asking.task.id))
        done = await receiver.until("TASK_STATE_COMPLETED")
        assert done["statusUpdate"]["taskId"] == asking.task.id
        await closed(client)


@pytest.mark.parametrize("far_agent", ["slow", "asker"])
async def test_our_peer_is_rung_up_instead_of_polling(serve, home: Path, bench: Bench, far_agent: str) -> None:
    far = serve(Gateway(*bench.agents(), home=home / "far", doors={"a2a": {"push": {"private": True}}}))
    peer = A2aPeer(f"{far.url}/a2a/{far_agent}", name="far", push=True)
    near = serve(Gateway(peer, home=home / "near"))
    async with httpx.AsyncClient(trust_env=False) as http:
        message = {"format": "text", "subformat": "english", "content": "work"}
        asking = asyncio.create_task(http.post(f"{near.url}/nlip", json=message))
        if far_agent == "slow":
            assert peer.hooks is not None
            async with asyncio.timeout(DEADLINE):
                while peer.hooks.received == 0:  # the notification of the piece that it says before the gate
                    await asyncio.sleep(0.01)
            bench.gate.open()
        answer = (await asking).json()
        if far_agent == "asker":
            assert answer["content"] == "Which colour?"
            tokens = [part for part in answer["submessages"] if part["format"] == "token"]
            said_back = {**message, "content": "blue", "submessages": tokens}
            answer = (await http.post(f"{near.url}/nlip", json=said_back)).json()
        assert answer["content"] == {"slow": "first last", "asker": "You chose blue."}[far_agent]
        for path, token in (("far/guessed", "x"), ("nobody/guessed", "x")):
            raised = await http.post(
                f"{near.url}/a2a/.hooks/{path}", json={}, headers={"x-a2a-notification-token": token}
            )
            assert raised.status_code == 404
