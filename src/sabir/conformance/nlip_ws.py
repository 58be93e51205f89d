"""NLIP over WebSocket: ECMA-432, tested from outside."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final
from urllib.parse import urlsplit

import cbor2
import httpx2
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI, WebSocketException

from .answer import CheckedAnswer, from_cbor, from_json
from .base import CheckFailed, Declined, Exchanged, Skipped, Suite, Wire, demand
from .core import Samples, add_core_checks
from .messages import HELLO, POLICIES, part, text, token

BY_POLICY: Final = {401, 403}
PONG: Final = 2.0  # seconds in which a ping must be answered
CBOR: Final = "/nlip/ws"
TEXT: Final = "/nlip/ws/text"
MAX_READ: Final = 16 * 1024 * 1024  # bytes of an answer
BROKEN: Final = {1006, 1011}  # close codes of a server that failed
LARGE: Final = 2 * 1024 * 1024  # bytes of a message that a server may find too large


class NotUtf8(bytes):
    """The payload of a text frame that is not UTF-8."""


Frame = bytes | str | list[bytes] | list[str] | NotUtf8


class Closed(CheckFailed):
    """The server closed the connection instead of answering."""

    def __init__(self, code: int) -> None:
        super().__init__(f"the connection was closed with {code}")
        self.code = code


class WsTarget:
    """One server, by its WebSocket base address."""

    def __init__(
        self,
        base: str,
        wire: Wire,
        ssl: Any = None,
        absent: set[str] | None = None,
        authorization: str | None = None,
        samples: Samples | None = None,
    ) -> None:
        self.base = base
        self._headers = {"authorization": authorization} if authorization is not None else {}
        self._wire = wire
        self._ssl = ssl
        self._absent = absent if absent is not None else set()  # paths where nothing was found, shared between checks
        self.samples = samples if samples is not None else Samples()

    def evidence(self) -> list[Exchanged]:
        return self._wire.log

    async def exchange(self, message: Any) -> CheckedAnswer:
        """The answer to a message in CBOR; closing the connection instead is a refusal."""
        try:
            [answer] = await self.talk(CBOR, cbor2.dumps(message))
        except Closed as closed:
            return CheckedAnswer(None, refusal=str(closed), broken=closed.code in BROKEN)
        return read(answer)

    async def talk(self, path: str, *frames: Frame) -> list[bytes | str]:
        """Open the path, send each frame and await one answer to each.

        Raises:
            Failed: there is no such endpoint, or it closes the connection.
            Declined: it refuses by policy.
        """
        if path in self._absent and frames:
            raise Skipped(f"nothing answers at {path}")
        try:
            async with self._opened(path) as socket:
                return [await self._one(socket, frame) for frame in frames]
        except InvalidHandshake as exc:
            response = getattr(exc, "response", None)
            status = getattr(response, "status_code", None)
            self._wire.keep(f"GET {path} (upgrade)".encode(), f"HTTP {status}".encode())
            if response is not None and status == 429:
                await self._wire.slow_down(response.headers.get("retry-after"))
                return await self.talk(path, *frames)
            if status in BY_POLICY and await self._exists(path):
                raise Declined(f"HTTP {status}") from None
            self._absent.add(path)
            if path == TEXT:
                raise Skipped("the fallback is not offered; a server that reads CBOR need not") from None
            raise CheckFailed(f"there is no WebSocket at {path} (HTTP {status})") from None
        except ConnectionClosed as closed:
            code = closed.rcvd.code if closed.rcvd is not None else 1006
            raise Closed(code) from None
        except (OSError, InvalidURI, WebSocketException) as exc:
            raise CheckFailed(f"no connection: {exc}") from None

    def _opened(self, path: str) -> connect:
        options = {"ssl": self._ssl} if self.base.startswith("wss:") and self._ssl is not None else {}
        return connect(
            self.base + path,
            open_timeout=10,
            max_size=MAX_READ,
            compression=None,
            proxy=None,  # as over HTTP: the server under test is reached directly
            additional_headers=self._headers,
            **options,
        )

    async def ping(self, path: str) -> bool:
        """Whether a ping on this path is answered.

        Raises:
            Failed: it closes.
        """
        if path in self._absent:
            raise Skipped(f"nothing answers at {path}")
        try:
            async with self._opened(path) as socket:
                async with asyncio.timeout(PONG):
                    await (await socket.ping(b"sabir-check"))
                self._wire.keep(b"ping sabir-check", b"pong")
                return True
        except TimeoutError:
            self._wire.keep(b"ping sabir-check", b"")
            return False
        except (OSError, WebSocketException) as exc:
            raise CheckFailed(f"the connection broke: {exc}") from None

    async def _exists(self, path: str) -> bool:
        """Whether there is something at the path: servers also refuse the upgrade of an unknown one with 403."""
        url = self.base.replace("ws", "http", 1) + path
        async with httpx2.AsyncClient(trust_env=False, verify=self._ssl if self._ssl is not None else True) as client:
            try:
                return (await client.get(url, timeout=10)).status_code != 404
            except httpx2.TransportError:
                return False

    async def _one(self, socket: ClientConnection, frame: Frame) -> bytes | str:
        pieces = frame if isinstance(frame, list) else [frame]
        sent = b"".join(piece.encode() if isinstance(piece, str) else piece for piece in pieces)
        try:
            await socket.send(frame, text=isinstance(frame, NotUtf8) or None)
            answer = await socket.recv()
        except ConnectionClosed as closed:
            self._wire.keep(sent, str(closed).encode())
            raise
        self._wire.keep(sent, answer.encode() if isinstance(answer, str) else answer)
        return answer


def base_of(url: str) -> str:
    """``https://host/nlip`` → ``wss://host``."""
    parts = urlsplit(url)
    return f"{'wss' if parts.scheme in ('https', 'wss') else 'ws'}://{parts.netloc}"


def read(answer: bytes | str) -> CheckedAnswer:
    """An answer, decoded by the type of its frame.

    Raises:
        Failed: it is not a CBOR map in a binary frame, nor a JSON object in a text frame.
    """
    return from_cbor(answer) if isinstance(answer, bytes) else from_json(answer.encode())


SUITE: Final[Suite[WsTarget]] = Suite("websocket")
check = SUITE.check


@check("WS-6", "ECMA-432 6", "must", "there is an endpoint at /nlip/ws")
async def _there(target: WsTarget) -> None:
    await target.talk(CBOR)


@check("WS-7.1", "ECMA-432 7.1", "must", "a CBOR message in a binary frame is answered by one")
async def _cbor(target: WsTarget) -> None:
    [answer] = await target.talk(CBOR, cbor2.dumps(HELLO))
    demand(isinstance(answer, bytes), "the answer is a text frame")
    read(answer)


@check("WS-6-again", "ECMA-432 6", "must", "several messages on one connection are answered, each by one message")
async def _again(target: WsTarget) -> None:
    names = ("one", "two", "three")
    sent = [text("Hello", token("conversation_check", name)) for name in names]
    answers = [read(answer) for answer in await target.talk(CBOR, *(cbor2.dumps(item) for item in sent))]
    demand(all(answer.is_message for answer in answers), "an answer is not an NLIP message")
    held = [{str(item.content) for item in answer.tokens} for answer in answers]
    mixed = [name for name, contents in zip(names, held, strict=True) if contents & (set(names) - {name})]
    demand(not mixed, f"the answer to message {', '.join(mixed)} has the token of another one")


@check("WS-8", "ECMA-432 8", "must", "the first example of the standard is accepted: raw bytes, Pascal-case names")
async def _example(target: WsTarget) -> None:
    parts = [
        {"Label": "transcription", "Format": "text", "Subformat": "en-US", "Content": "When does tram 11 leave?"},
        {"Label": "audio", "Format": "binary", "Subformat": "audio/wav", "Content": b"RIFF"},
    ]
    message = {
        "MessageType": "Request",
        "Format": "structured",
        "Subformat": "application/json",
        "Content": {"intent": "next_tram"},
        "Submessages": parts,
    }
    await _taken(target, cbor2.dumps(message))


async def _taken(target: WsTarget, frame: Frame, path: str = CBOR) -> CheckedAnswer:
    [answer] = await target.talk(path, frame)
    found = read(answer)
    demand(not found.refusal, f"it is refused: {found.refusal}")
    return found


@check("WS-7.1-raw", "ECMA-432 7.1", "must", "binary content is accepted as a byte string")
async def _raw(target: WsTarget) -> None:
    image = part("binary", "image/png", b"\x89PNG")
    for message in (image, text("Hello", image)):
        await _taken(target, cbor2.dumps(message))


@check("WS-7.1-bytes", "ECMA-432 7.1", "must", "a token whose content is a byte string comes back as a byte string")
async def _bytes(target: WsTarget) -> None:
    sent = token("conversation_check", b"\x00\x01")
    demand((await _taken(target, cbor2.dumps(text("Hello", sent)))).has(sent), "the token does not come back so")


@check("WS-7.1-indefinite", "ECMA-432 7.1", "must", "indefinite lengths are valid CBOR and are read")
async def _indefinite(target: WsTarget) -> None:
    frame = "bf66666f726d6174647465787469737562666f726d617467656e676c69736867636f6e74656e747f626865636c6c6fffff"
    await _taken(target, bytes.fromhex(frame))


@check("WS-9", "ECMA-432 9", "must", "a message in several fragments is put together")
async def _fragments(target: WsTarget) -> None:
    frame = cbor2.dumps(HELLO)
    await _taken(target, [frame[:10], frame[10:]])


@check("WS-9-text", "ECMA-432 9, RFC 6455 5.4", "must", "a text message in several fragments is put together")
async def _text_fragments(target: WsTarget) -> None:
    frame = json.dumps(HELLO)
    await _taken(target, [frame[:10], frame[10:]], TEXT)


@check(
    "WS-7.2",
    "ECMA-432 7.2",
    "should",
    "JSON in text frames is accepted at /nlip/ws/text, with binary in base64",
)
async def _text(target: WsTarget) -> None:
    binary = {"MessageType": "Request", "Format": "binary", "Subformat": "audio/wav;base64", "Content": "UklGRg=="}
    answers = await target.talk(TEXT, json.dumps(HELLO), json.dumps(binary))
    demand(all(isinstance(answer, str) for answer in answers), "the answer is a binary frame")
    refusals = [found.refusal for found in map(read, answers) if found.refusal]
    demand(not refusals, f"it is refused: {', '.join(refusals)}")


@check("WS-7.2-tokens", "ECMA-430 6.2, ECMA-432 7.2", "must", "a token in a text frame comes back")
async def _text_token(target: WsTarget) -> None:
    sent = token("conversation_text", "check-text")
    found = await _taken(target, json.dumps(text("Hello", sent)), TEXT)
    demand(found.has(sent), "the token does not come back")


@check(
    "WS-7.2-control",
    "ECMA-430 6.3, ECMA-432 7.2",
    "must",
    "a control message in a text frame is answered by a control message",
)
async def _text_control(target: WsTarget) -> None:
    found = await _taken(target, json.dumps(POLICIES), TEXT)
    demand(found.is_control, "the answer is not a control message")


NOT_CBOR: Final = {
    "bytes that are not CBOR": b"\xff\xff\xff",
    "a CBOR item that is cut off": cbor2.dumps(HELLO)[:-2],
    "an empty binary message": b"",
}


def _add_decoding_checks() -> None:
    def refused(frame: bytes, name: str) -> Any:
        async def run(target: WsTarget) -> None:
            [answer] = await target.talk(CBOR, frame)
            found = read(answer)
            demand(found.messagetype == "error", "the answer is not of type Error")
            demand(found.parts and found.parts[0].format == "text", "the answer's format is not text")
            language = found.parts[0].subformat.strip().lower()
            demand(
                language.partition("-")[0] in ("english", "en"), f"the answer's subformat is {language}, not English"
            )
            demand(found.text, f"the answer does not say in words what is wrong with {name}")

        return run

    def survived(frame: bytes, name: str) -> Any:
        async def run(target: WsTarget) -> None:
            _, second = await target.talk(CBOR, frame, cbor2.dumps(HELLO))
            demand(not read(second).refusal, f"a valid message after {name} is not answered")

        return run

    for name, frame in NOT_CBOR.items():
        check("WS-11", "ECMA-432 11", "must", f"the server answers {name} with an NLIP error in words")(
            refused(frame, name)
        )
    name = "bytes that are not CBOR"
    title = "the connection stays open after an error"
    check("WS-11-open", "ECMA-432 11", "should", title)(survived(NOT_CBOR[name], name))


_add_decoding_checks()

NOT_ONE_MESSAGE: Final = {
    "WS-7.1-one": ("two messages in one frame", cbor2.dumps(HELLO) * 2),
    "WS-7.1-keys": ("a map without text keys", cbor2.dumps({1: "text", 2: "english", 3: "x"})),
    "WS-7.1-undefined": ("content that is undefined", cbor2.dumps({**HELLO, "content": cbor2.undefined})),
}


def _add_refusal_checks() -> None:
    def refused(frame: bytes, name: str) -> Any:
        async def run(target: WsTarget) -> None:
            [answer] = await target.talk(CBOR, frame)
            demand(read(answer).refusal, f"{name}: answered as if it were one valid message")

        return run

    for check_id, (name, frame) in NOT_ONE_MESSAGE.items():
        check(check_id, "ECMA-432 7.1", "must", f"the answer to {name} is an error message")(refused(frame, name))


_add_refusal_checks()
add_core_checks(SUITE)


@check("WS-10", "ECMA-432 10, RFC 6455 5.5.2", "must", "a ping is answered by a pong")
async def _ping(target: WsTarget) -> None:
    demand(await target.ping(CBOR), f"no pong came within {PONG:g} seconds")


@check("WS-10-field", "ECMA-432 10", "should", "a session id in MessageType or in an extra field does no harm")
async def _session(target: WsTarget) -> None:
    for message in ({**HELLO, "messagetype": "session-4711"}, {**HELLO, "SessionId": "4711"}):
        await _taken(target, cbor2.dumps(message))


@check("WS-7.0", "ECMA-432 7", "should", "a message that is too large gets an NLIP error, or a close with 1009")
async def _large(target: WsTarget) -> None:
    try:
        [answer] = await target.talk(CBOR, cbor2.dumps({**HELLO, "content": "x" * LARGE}))
    except Closed as closed:
        demand(closed.code == 1009, str(closed))
        return
    read(answer)


@check("WS-7.2-not", "ECMA-432 7.2", "should", "a text frame that is not JSON gets an NLIP error")
async def _not_json(target: WsTarget) -> None:
    [answer] = await target.talk(TEXT, "{bad")
    demand(read(answer).refusal, "it is answered as if it were valid")


@check("WS-7.2-utf8", "RFC 6455 8.1", "must", "a text frame that is not UTF-8 gets an NLIP error, or a close with 1007")
async def _not_utf8(target: WsTarget) -> None:
    frame = NotUtf8(b'{"format":"text","subformat":"english","content":"\xff\xfe"}')
    try:
        [answer] = await target.talk(TEXT, frame)
    except Closed as closed:
        demand(closed.code == 1007, str(closed))
        return
    demand(read(answer).refusal, "it is answered as if it were valid")


@check("D-31", "our decision", "ours", "a text frame on /nlip/ws is answered by a text frame")
async def _kind(target: WsTarget) -> None:
    [answer] = await target.talk(CBOR, json.dumps(HELLO))
    demand(isinstance(answer, str), "the answer is a binary frame")


@check("D-33", "our decision", "ours", "the error about invalid CBOR names the fallback as structured/uri")
async def _fallback(target: WsTarget) -> None:
    [answer] = await target.talk(CBOR, b"\xff")
    demand(read(answer).uris, "no structured/uri part names /nlip/ws/text")
