"""NLIP over WebSocket: ECMA-432, seen from outside."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final
from urllib.parse import urlsplit

import cbor2
import httpx2
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI, WebSocketException

from ..errors import BadInput
from ..message import Message
from ..wire import cbor, nlip
from .base import Declined, Failed, Skipped, Suite, Wire, demand

HELLO: Final = {"format": "text", "subformat": "english", "content": "Hello"}
BY_POLICY: Final = {401, 403}
CBOR: Final = "/nlip/ws"
TEXT: Final = "/nlip/ws/text"
MOST_READ: Final = 16 * 1024 * 1024  # bytes of an answer
LARGE: Final = 2 * 1024 * 1024  # bytes of a message that a server may find too large


class Closed(Failed):
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
    ) -> None:
        self.base = base
        self._headers = {"authorization": authorization} if authorization is not None else {}
        self._wire = wire
        self._ssl = ssl
        self._absent = absent if absent is not None else set()  # paths where nothing was found, kept between checks

    async def talk(self, path: str, *frames: bytes | str | list[bytes]) -> list[bytes | str]:
        """Open the path, send each frame and await one answer to each.

        Raises:
            Failed: there is no such end-point, or it closes.
            Declined: it refuses by policy.
        """
        if path in self._absent:
            raise Skipped(f"there is no WebSocket at {path}")
        try:
            async with self._opened(path) as socket:
                return [await self._one(socket, frame) for frame in frames]
        except InvalidHandshake as wrong:
            response = getattr(wrong, "response", None)
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
            raise Failed(f"there is no WebSocket at {path} (HTTP {status})") from None
        except ConnectionClosed as closed:
            code = closed.rcvd.code if closed.rcvd is not None else 1006
            raise Closed(code) from None
        except (OSError, InvalidURI, WebSocketException) as wrong:
            raise Failed(f"no connection: {wrong}") from None

    def _opened(self, path: str) -> connect:
        options = {"ssl": self._ssl} if self.base.startswith("wss:") and self._ssl is not None else {}
        return connect(
            self.base + path, open_timeout=10, max_size=MOST_READ, additional_headers=self._headers, **options
        )

    async def ping(self, path: str) -> bool:
        """Whether a ping on this path is answered.

        Raises:
            Failed: it closes.
        """
        await self.talk(path)  # is it there, and does it let us in?
        try:
            async with self._opened(path) as socket:
                async with asyncio.timeout(5):
                    await (await socket.ping(b"sabir-check"))
                self._wire.keep(b"ping sabir-check", b"pong")
                return True
        except TimeoutError:
            self._wire.keep(b"ping sabir-check", b"")
            return False
        except (OSError, WebSocketException) as wrong:
            raise Failed(f"the connection broke: {wrong}") from None

    async def _exists(self, path: str) -> bool:
        """Whether something is at the path: servers refuse the upgrade of an unknown one with 403, too."""
        url = self.base.replace("ws", "http", 1) + path
        async with httpx2.AsyncClient(trust_env=False, verify=self._ssl if self._ssl is not None else True) as client:
            try:
                return (await client.get(url, timeout=10)).status_code != 404
            except httpx2.TransportError:
                return False

    async def _one(self, socket: ClientConnection, frame: bytes | str | list[bytes]) -> bytes | str:
        sent = b"".join(frame) if isinstance(frame, list) else frame.encode() if isinstance(frame, str) else frame
        try:
            await socket.send(frame)
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


def read(answer: bytes | str) -> Message:
    try:
        return cbor.decode(answer) if isinstance(answer, bytes) else nlip.decode(answer.encode())
    except BadInput as wrong:
        raise Failed(f"the answer is not an NLIP message ({wrong})") from None


SUITE: Final[Suite[WsTarget]] = Suite("websocket")
check = SUITE.check


@check("WS-6", "ECMA-432 6", "must", "there is an end-point at /nlip/ws")
async def _there(target: WsTarget) -> None:
    await target.talk(CBOR)


@check("WS-7.1", "ECMA-432 7.1", "must", "a CBOR message in a binary frame is answered by one")
async def _cbor(target: WsTarget) -> None:
    [answer] = await target.talk(CBOR, cbor2.dumps(HELLO))
    demand(isinstance(answer, bytes), "the answer is a text frame")
    read(answer)


@check("WS-8", "ECMA-432 8", "must", "the first example of the standard is taken: raw bytes, Pascal-case names")
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
    [answer] = await target.talk(CBOR, cbor2.dumps(message))
    demand(not read(answer).is_error, "it is answered by an error")


@check("WS-7.1-bytes", "ECMA-432 7.1", "must", "a token whose content is a byte string comes back as a byte string")
async def _bytes(target: WsTarget) -> None:
    token = {"format": "token", "subformat": "conversation_check", "content": b"\x00\x01"}
    [answer] = await target.talk(CBOR, cbor2.dumps({**HELLO, "submessages": [token]}))
    demand(any(part.content == b"\x00\x01" for part in read(answer).tokens), "the token does not come back so")


@check("WS-7.1-indefinite", "ECMA-432 7.1", "must", "indefinite lengths are valid CBOR and are read")
async def _indefinite(target: WsTarget) -> None:
    frame = bytes.fromhex(
        "bf66666f726d6174647465787469737562666f726d617467656e676c69736867636f6e74656e747f626865636c6c6fffff"
    )
    [answer] = await target.talk(CBOR, frame)
    demand(not read(answer).is_error, "it is answered by an error")


@check("WS-9", "ECMA-432 9", "must", "a message in several fragments is put together")
async def _fragments(target: WsTarget) -> None:
    frame = cbor2.dumps(HELLO)
    [answer] = await target.talk(CBOR, [frame[:10], frame[10:]])
    demand(not read(answer).is_error, "it is answered by an error")


@check("WS-7.2", "ECMA-432 7.2", "should", "JSON in text frames is taken at /nlip/ws/text, base64 for binary")
async def _text(target: WsTarget) -> None:
    binary = {"MessageType": "Request", "Format": "binary", "Subformat": "audio/wav;base64", "Content": "UklGRg=="}
    answers = await target.talk(TEXT, json.dumps(HELLO), json.dumps(binary))
    demand(all(isinstance(answer, str) for answer in answers), "the answer is a binary frame")
    demand(not any(read(answer).is_error for answer in answers), "it is answered by an error")


@check("WS-11", "ECMA-432 11", "must", "what is not CBOR gets an NLIP error, and the connection stays open")
async def _not_cbor(target: WsTarget) -> None:
    wrong, right = await target.talk(CBOR, b"\xff\xff\xff", cbor2.dumps(HELLO))
    reply = read(wrong)
    demand((reply.messagetype or "").lower() == "error", "the answer is not of type Error")
    demand(reply.format == "text", "the answer's format is not text")
    demand(not read(right).is_error, "a right message after it is not answered")


@check("WS-7.1-one", "ECMA-432 7.1", "must", "two messages in one frame are refused")
async def _two(target: WsTarget) -> None:
    [answer] = await target.talk(CBOR, cbor2.dumps(HELLO) * 2)
    demand(read(answer).is_error, "it is answered as if it were one message")


@check("WS-7.1-keys", "ECMA-432 7.1", "must", "a map without text keys is refused")
async def _keys(target: WsTarget) -> None:
    [answer] = await target.talk(CBOR, cbor2.dumps({1: "text", 2: "english", 3: "x"}))
    demand(read(answer).is_error, "it is answered as if it were a message")


@check("CORE-6.3-ws", "ECMA-430 6.3", "must", "a control message is answered by a control message")
async def _control(target: WsTarget) -> None:
    [answer] = await target.talk(CBOR, cbor2.dumps({**HELLO, "MessageType": "Control"}))
    demand(read(answer).is_control, "the answer is not a control message")


@check("CORE-6.2-ws", "ECMA-430 6.2", "must", "a token with a suffix comes back unchanged")
async def _token(target: WsTarget) -> None:
    token = {"format": "token", "subformat": "conversation_check", "content": "check-ws"}
    [answer] = await target.talk(CBOR, cbor2.dumps({**HELLO, "submessages": [token]}))
    demand(any(part.content == "check-ws" for part in read(answer).tokens), "the token does not come back")


@check("WS-10", "ECMA-432 10, RFC 6455 5.5.2", "must", "a ping is answered by a pong")
async def _ping(target: WsTarget) -> None:
    demand(await target.ping(CBOR), "no pong came within 5 seconds")


@check("WS-10-field", "ECMA-432 10", "should", "a session id in MessageType or in a field of one's own does no harm")
async def _session(target: WsTarget) -> None:
    by_type, by_field = {**HELLO, "messagetype": "session-4711"}, {**HELLO, "SessionId": "4711"}
    answers = await target.talk(CBOR, cbor2.dumps(by_type), cbor2.dumps(by_field))
    demand(not any(read(answer).is_error for answer in answers), "it is answered by an error")


@check("WS-7.0", "ECMA-432 7", "should", "a message that is too large is told so: an NLIP error, or a close with 1009")
async def _large(target: WsTarget) -> None:
    try:
        [answer] = await target.talk(CBOR, cbor2.dumps({**HELLO, "content": "x" * LARGE}))
    except Closed as closed:
        demand(closed.code == 1009, str(closed))
        return
    read(answer)


@check("WS-7.2-not", "ECMA-432 7.2", "should", "what is not JSON in a text frame gets an NLIP error")
async def _not_json(target: WsTarget) -> None:
    [answer] = await target.talk(TEXT, "{bad")
    demand(read(answer).is_error, "it is answered as if it were a message")


@check("D-31", "our decision", "ours", "a text frame on /nlip/ws is answered by a text frame")
async def _kind(target: WsTarget) -> None:
    [answer] = await target.talk(CBOR, json.dumps(HELLO))
    demand(isinstance(answer, str), "the answer is a binary frame")


@check("D-33", "our decision", "ours", "the error on what is not CBOR names the fallback as structured/uri")
async def _fallback(target: WsTarget) -> None:
    [answer] = await target.talk(CBOR, b"\xff")
    demand(any(part.kind == "uri" for part in read(answer).parts), "no structured/uri part names /nlip/ws/text")
