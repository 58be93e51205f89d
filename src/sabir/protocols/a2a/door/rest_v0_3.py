"""The HTTP+JSON binding of A2A 0.3, on the SDK's own 0.3 types: ``/a2a/{agent}/v1/…``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from a2a.compat.v0_3 import a2a_v0_3_pb2 as pb
from a2a.compat.v0_3 import conversions
from a2a.compat.v0_3 import types as old
from a2a.compat.v0_3.proto_utils import FromProto, ToProto
from a2a.utils.errors import MethodNotFoundError
from google.protobuf.json_format import MessageToDict, ParseError

from sabir.errors import BadMessage, BadMethod
from sabir.protocols.a2a.wire import content as wire
from sabir.protocols.a2a.wire.misfits import unfit_value

from .http import is_base64, parsed

Asked = Callable[[Any, Mapping[str, str]], Any]


@dataclass(frozen=True, slots=True)
class OldPath:
    """One row of the binding: its route, its input, and its operation."""

    method: str
    pattern: re.Pattern[str]
    operation: str
    make: Asked
    reads: bool = False
    streams: bool = False
    named: Mapping[str, str] = ()  # type: ignore[assignment]  # filled in when a path has matched

    @property
    def wraps(self) -> bool:
        """Whether its answer may be a task or a message, and says which."""
        return self.operation == "on_message_send"

    def asked(self, body: Any) -> Any:
        """Raises:
        BadMessage: the body does not match 0.3.
        """
        return self.make(body, self.named)

    def answer(self, answers: Any, asked: Any, context: Any) -> Any:
        return getattr(answers, self.operation)(asked, context)


def check_old_message(asked: Any) -> None:
    """Check that a 0.3 message is also a valid 1.0 message, which is what the operations take.

    Raises:
        BadMessage: it is not; a file's base64 or the type of a value is invalid.
    """
    for index, part in enumerate(asked.params.message.parts):
        data = getattr(getattr(part.root, "file", None), "bytes", None)
        if data is not None and not is_base64(data):
            raise BadMessage(wire.PROTOCOL, f"$.params.message.parts[{index}].file.bytes", "base64 text")
    try:
        conversions.to_core_send_message_request(asked)
    except (ParseError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        found = unfit_value(asked.params.model_dump(by_alias=True), "$.params")
        where, expected = found or ("$.params.message", "a message as A2A 0.3 defines it")
        raise BadMessage(wire.PROTOCOL, where, expected) from None


def _message(kind: type[Any]) -> Asked:
    def make(body: Any, named: Mapping[str, str]) -> Any:
        sent = parsed(body, pb.SendMessageRequest, "$")
        try:
            asked = kind(id="", params=FromProto.message_send_params(sent))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise BadMessage(wire.PROTOCOL, "$", "a message as A2A 0.3 defines it") from None
        check_old_message(asked)
        return asked

    return make


def _config(body: Any, named: Mapping[str, str]) -> Any:
    sent = parsed(body, pb.CreateTaskPushNotificationConfigRequest, "$")
    try:
        params = FromProto.task_push_notification_config_request(sent)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise BadMessage(wire.PROTOCOL, "$", "a configuration as A2A 0.3 defines it") from None
    params.task_id = named["id"]
    return old.SetTaskPushNotificationConfigRequest(id="", params=params)


def _by_id(kind: type[Any], params: type[Any]) -> Asked:
    return lambda _, named: kind(id="", params=params(**named))


_TASK: Final = r"tasks/(?P<id>[^/:]+)"
_CONFIGS: Final = _TASK + "/pushNotificationConfigs"
_SUBSCRIBE: Final = _by_id(old.TaskResubscriptionRequest, old.TaskIdParams)
_GET_CONFIG: Final = _by_id(old.GetTaskPushNotificationConfigRequest, old.GetTaskPushNotificationConfigParams)

OLD_PATHS: Final[tuple[OldPath, ...]] = (
    OldPath("POST", re.compile("message:send"), "on_message_send", _message(old.SendMessageRequest), True),
    OldPath(
        "POST",
        re.compile("message:stream"),
        "on_message_send_stream",
        _message(old.SendStreamingMessageRequest),
        True,
        True,
    ),
    OldPath("GET", re.compile(_TASK), "on_get_task", _by_id(old.GetTaskRequest, old.TaskQueryParams)),
    OldPath("POST", re.compile(_TASK + ":cancel"), "on_cancel_task", _by_id(old.CancelTaskRequest, old.TaskIdParams)),
    OldPath("GET", re.compile(_TASK + ":subscribe"), "on_subscribe_to_task", _SUBSCRIBE, streams=True),
    OldPath("POST", re.compile(_TASK + ":subscribe"), "on_subscribe_to_task", _SUBSCRIBE, streams=True),
    OldPath("POST", re.compile(_CONFIGS), "on_create_task_push_notification_config", _config, True),
    OldPath(
        "GET",
        re.compile(_CONFIGS),
        "on_list_task_push_notification_configs",
        _by_id(old.ListTaskPushNotificationConfigRequest, old.ListTaskPushNotificationConfigParams),
    ),
    OldPath(
        "GET",
        re.compile(_CONFIGS + "/(?P<push_notification_config_id>[^/:]+)"),
        "on_get_task_push_notification_config",
        _GET_CONFIG,
    ),
    OldPath(
        "GET",
        re.compile("card"),
        "on_get_extended_agent_card",
        lambda _, __: old.GetAuthenticatedExtendedCardRequest(id=""),
    ),
)


def matched_old(method: str, rest: str) -> OldPath:
    """The row for a method and path.

    Raises:
        BadMethod: the path exists, with other methods.
        MethodNotFoundError: it does not exist.
    """
    allowed: list[str] = []
    for path in OLD_PATHS:
        match = path.pattern.fullmatch(rest)
        reads = ("GET", "HEAD") if path.method == "GET" and not path.streams else (path.method,)
        if match is not None and method in reads:
            return replace(path, named=match.groupdict())
        if match is not None:
            allowed.extend(reads)
    if allowed:
        raise BadMethod(wire.PROTOCOL, "method", ", ".join(allowed))
    raise MethodNotFoundError("not found")


def plain_old(answer: Any, *, wraps: bool = False) -> Any:
    """An answer of the 0.3 layer as the binding's JSON, which is that of its protobuf types."""
    match answer:
        case old.SendStreamingMessageSuccessResponse():
            return MessageToDict(ToProto.stream_response(answer.result))
        case old.Message() | old.Task() if wraps:
            return MessageToDict(ToProto.task_or_message(answer))
        case old.Task():
            return MessageToDict(ToProto.task(answer))
        case old.TaskPushNotificationConfig():
            return MessageToDict(ToProto.task_push_notification_config(answer))
        case old.AgentCard():
            return MessageToDict(ToProto.agent_card(answer))
        case list():
            return {"configs": [plain_old(item) for item in answer]}
        case _:
            return {}
