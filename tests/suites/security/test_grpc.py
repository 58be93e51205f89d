"""A2A over gRPC, with the plain gRPC client: authentication, ownership, limits and errors."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import Served, serving
from deadline import DEADLINE
from sabir.gateway.gateway import Gateway
from sabir.guard.build import GuardSettings, IdentitySettings
from sabir.guard.quotas.rates import Quotas
from sabir.protocols.a2a.door.routes import A2aDoor
from suites.security.attackers import add_key

from .conftest import PLANTED, RULES, endless, leaky, memory, vault

grpc = pytest.importorskip("grpc")
pb = pytest.importorskip("a2a.types.a2a_pb2")
pb_grpc = pytest.importorskip("a2a.types.a2a_pb2_grpc")

Meta = tuple[tuple[str, str], ...]


def server(home: Path, settings: GuardSettings) -> Gateway:
    doors = {"a2a": {"grpc": {"port": 0}}}
    return Gateway(memory, vault, leaky, endless, home=home, guard=settings, doors=doors)


def stub_of(served: Served, **options: Any) -> Any:
    return pb_grpc.A2AServiceStub(channel_to(served, **options))


def channel_to(served: Served, **options: Any) -> Any:
    door = next(door for door in served.gateway.doors if isinstance(door, A2aDoor))
    return grpc.insecure_channel(door.cards.grpc, **options)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(server(tmp_path_factory.mktemp("grpc"), GuardSettings(rights=RULES))) as made:
        yield made


@pytest.fixture(scope="module")
def stub(served: Served) -> Any:
    return stub_of(served)


@pytest.fixture(scope="module")
def alice(served: Served) -> Meta:
    return (("authorization", f"Bearer {add_key(served.gateway.home, 'alice', 'staff')}"),)


@pytest.fixture(scope="module")
def mallory(served: Served) -> Meta:
    return (("x-api-key", add_key(served.gateway.home, "mallory")),)


def sending(text: str, agent: str = "memory", context: str = "", **data: Any) -> Any:
    parts = [pb.Part(text=text)]
    if data:
        part = pb.Part()
        part.data.struct_value.update(data)
        parts.append(part)
    message = pb.Message(message_id="1", role=pb.ROLE_USER, context_id=context, parts=parts)
    return pb.SendMessageRequest(tenant=agent, message=message)


def refusal(call: Any, request: Any, metadata: Meta = ()) -> tuple[str, str]:
    """The status by name, and all its text."""
    with pytest.raises(grpc.RpcError) as raised:
        answer = call(request, metadata=metadata, timeout=DEADLINE)
        list(answer) if hasattr(answer, "__next__") else None
    said = f"{raised.value.details()} {raised.value.trailing_metadata()}"
    assert "Traceback" not in said and ".py" not in said
    return raised.value.code().name, said


def test_callers_are_known_and_wrong_credentials_are_not_taken_for_nobody(stub: Any, alice: Meta) -> None:
    assert "alice" in str(stub.SendMessage(sending("hi"), metadata=alice, timeout=DEADLINE))
    assert "anonymous" in str(stub.SendMessage(sending("hi"), timeout=DEADLINE))
    raised = ("Bearer sbk_000000000000_wrong", "Bearer a.b.c", "Basic YTpi", alice[0][1][:-3], f"{alice[0][1]}x")
    for item in raised:
        status, said = refusal(stub.SendMessage, sending("hi"), (("authorization", item),))
        assert status == "UNAUTHENTICATED" and "www-authenticate" in said
        assert item.partition(" ")[2] not in said


def test_grpc_rejects_anonymous_callers_where_anonymous_access_is_disabled(home: Path) -> None:
    with serving(server(home, GuardSettings(IdentitySettings(anonymous=False)))) as made:
        stub = stub_of(made)
        for call, request in (
            (stub.SendMessage, sending("hi")),
            (stub.SendStreamingMessage, sending("hi")),
            (stub.GetTask, pb.GetTaskRequest(tenant="memory", id="x")),
            (stub.ListTasks, pb.ListTasksRequest(tenant="memory")),
        ):
            assert refusal(call, request)[0] == "UNAUTHENTICATED"


def test_an_agent_that_is_not_for_a_caller_is_not_called(stub: Any, alice: Meta, mallory: Meta) -> None:
    assert "the vault is open" in str(stub.SendMessage(sending("open", "vault"), metadata=alice, timeout=DEADLINE))
    for call in (stub.SendMessage, stub.SendStreamingMessage):
        assert refusal(call, sending("open", "vault"), mallory)[0] == "PERMISSION_DENIED"
        assert refusal(call, sending("open", "vault"))[0] == "UNAUTHENTICATED"


def test_a_conversation_and_a_task_are_there_for_their_owner_only(stub: Any, alice: Meta, mallory: Meta) -> None:
    """A2A 13.1: access is checked before anything is looked up; "not yours" and "not there" look alike."""
    task = stub.SendMessage(sending("my diagnosis is gout"), metadata=alice, timeout=DEADLINE).task
    again = stub.SendMessage(sending("and?", context=task.context_id), metadata=alice, timeout=DEADLINE)
    assert "gout" in str(again.task.artifacts)
    missing = f"{task.id[:-4]}0000"
    for thief in (mallory, ()):
        with_token = [("SendMessage", sending("and?", context=task.context_id))]
        for name, request in with_token:
            try:
                assert "gout" not in str(getattr(stub, name)(request, metadata=thief, timeout=DEADLINE))
            except grpc.RpcError as refused:
                assert "gout" not in str(refused.details())
        for name, kind in (
            ("GetTask", pb.GetTaskRequest), ("CancelTask", pb.CancelTaskRequest),
            ("SubscribeToTask", pb.SubscribeToTaskRequest),
        ):  # fmt: skip
            call = getattr(stub, name)
            theirs = refusal(call, kind(tenant="memory", id=task.id), thief)
            none = refusal(call, kind(tenant="memory", id=missing), thief)
            assert theirs[0] == none[0] == "NOT_FOUND"
            assert theirs[1].replace(task.id, "") == none[1].replace(missing, "")
        listed = stub.ListTasks(pb.ListTasksRequest(tenant="memory"), metadata=thief, timeout=DEADLINE)
        assert task.id not in str(listed)
    assert stub.GetTask(pb.GetTaskRequest(tenant="memory", id=task.id), metadata=alice, timeout=DEADLINE).id == task.id


def deep(levels: int) -> bytes:
    """A message with data in data in data, as bytes: the libraries would not write it."""

    def field(number: int, body: bytes) -> bytes:
        length, size = b"", len(body)
        while size > 127:
            length, size = length + bytes([size & 127 | 128]), size >> 7
        return bytes([number << 3 | 2]) + length + bytes([size]) + body

    value = b""
    for _ in range(levels):
        entry = field(1, b"a") + field(2, value)
        value = field(5, field(1, entry))  # a Value that is a Struct of one field
    part = field(pb.Part.DESCRIPTOR.fields_by_name["data"].number, value)
    message = field(1, b"m") + field(pb.Message.DESCRIPTOR.fields_by_name["parts"].number, part)
    return field(pb.SendMessageRequest.DESCRIPTOR.fields_by_name["message"].number, message)


def test_calls_that_are_too_large_too_deep_or_malformed_are_rejected_and_the_server_continues(
    served: Served, stub: Any
) -> None:
    assert refusal(stub.SendMessage, sending("x" * 2_000_000))[0] == "RESOURCE_EXHAUSTED"
    packed = stub_of(served, compression=grpc.Compression.Gzip)  # 32 MiB that are 32 KiB on the wire
    assert refusal(packed.SendMessage, sending("x" * (32 << 20)))[0] == "RESOURCE_EXHAUSTED"
    raw = channel_to(served).unary_unary(
        "/lf.a2a.v1.A2AService/SendMessage", request_serializer=bytes, response_deserializer=bytes
    )
    for body in (b"\xff" * 100, deep(5_000), deep(80)):
        try:
            raw(body, timeout=DEADLINE)
        except grpc.RpcError as refused:
            assert "Traceback" not in str(refused.details()) and "Recursion" not in str(refused.details())
    many = pb.SendMessageRequest(tenant="memory", message=pb.Message(message_id="1", role=pb.ROLE_USER))
    many.message.parts.extend(pb.Part(text="x") for _ in range(50_000))
    assert refusal(stub.SendMessage, many)[0] in ("INVALID_ARGUMENT", "RESOURCE_EXHAUSTED")
    assert "anonymous" in str(stub.SendMessage(sending("still there?"), timeout=DEADLINE))


def test_a_failing_agent_shows_nothing_of_why_and_what_was_said_is_not_logged(
    stub: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "sabir")
    try:
        said = str(stub.SendMessage(sending("go", "leaky"), timeout=DEADLINE))
    except grpc.RpcError as failed:
        said = f"{failed.details()} {failed.trailing_metadata()}"
    assert PLANTED not in said and "RuntimeError" not in said
    stub.SendMessage(sending("PLANTED-IN-CONTENT"), timeout=DEADLINE)
    refusal(stub.SendMessage, sending("hi", "PLANTED-IN-TENANT"))
    refusal(stub.SendMessage, sending("hi"), (("authorization", "Bearer sbk_0_PLANTED-IN-TOKEN"),))
    ours = "\n".join(record.getMessage() for record in caplog.records)
    for planted in ("PLANTED-IN-CONTENT", "PLANTED-IN-TENANT", "PLANTED-IN-TOKEN"):
        assert planted not in ours


def test_a_flood_is_rejected(home: Path) -> None:
    settings = GuardSettings(quotas=Quotas(rate_per_caller=0.01, rate_per_address=0.01, burst=5.0))
    with serving(server(home, settings)) as made:
        stub, codes = stub_of(made), []
        for n in range(30):
            try:
                stub.SendMessage(sending(f"{n}"), timeout=DEADLINE)
            except grpc.RpcError as refused:
                codes.append(refused.code().name)
    assert codes.count("RESOURCE_EXHAUSTED") >= 20 and set(codes) == {"RESOURCE_EXHAUSTED"}


def test_guessing_keys_is_slowed_down(home: Path) -> None:
    with serving(server(home, GuardSettings())) as made:
        stub, codes = stub_of(made), []
        for n in range(40):
            codes.append(refusal(stub.SendMessage, sending("hi"), (("x-api-key", f"sbk_{n:012}_guess"),))[0])
    assert codes[0] == "UNAUTHENTICATED" and codes[-1] == "RESOURCE_EXHAUSTED"
