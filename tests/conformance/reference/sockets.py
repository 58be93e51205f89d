"""The reference server on a socket: HTTP/1.1 by hand, WebSocket by the sans-I/O half of ``websockets``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import Any

import cbor2
from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.server import ServerProtocol

from . import rules
from .agent import Agent, HttpAgent, Reply, Request, encode, error
from .rules import Rejected

PATHS = {"/nlip/ws": "cbor", "/nlip/ws/text": "text"}
MOST = 1024 * 1024


@asynccontextmanager
async def listening(agent: Agent) -> AsyncIterator[str]:
    """The agent at a free port of the loopback; its address."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await _connection(agent, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    agent.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield agent.url
    finally:
        server.close()


async def _connection(agent: Agent, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    http = HttpAgent(agent)
    while True:
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        headers = {}
        for line in lines[1:-2]:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        method, target, _ = lines[0].split(" ")
        path, _, query = target.partition("?")
        if headers.get("upgrade", "").lower() == "websocket":
            await WebSocket(agent, reader, writer, path).run(head)
            return
        response = http.handle(Request(method, path, query, headers, await _body(reader, headers)))
        response.headers["content-length"] = str(len(response.body))
        first = f"{response.version} {response.status} {HTTPStatus(response.status).phrase}\r\n"
        fields = "".join(f"{name}: {value}\r\n" for name, value in response.headers.items())
        writer.write((first + fields + "\r\n").encode("latin-1") + response.body)
        await writer.drain()
        if response.version == "HTTP/1.0":
            return


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if "transfer-encoding" not in headers:
        return await reader.readexactly(int(headers.get("content-length", "0")))
    pieces = []
    while size := int(await reader.readuntil(b"\r\n"), 16):
        pieces.append((await reader.readexactly(size + 2))[:-2])
    await reader.readuntil(b"\r\n")
    return b"".join(pieces)


class WebSocket:
    """The agent over WebSocket: ECMA-432."""

    def __init__(self, agent: Agent, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str) -> None:
        self._agent, self._reader, self._writer = agent, reader, writer
        self._quirks = agent.faults.quirks
        self._protocol = ServerProtocol(max_size=None if "drops large" in self._quirks else MOST)
        self._fragments: list[bytes] = []
        self._earlier: list[dict[str, Any]] = []
        self._opcode = Opcode.BINARY
        self._path = path
        self._speaks = PATHS.get(path, "")

    async def run(self, head: bytes) -> None:
        self._protocol.receive_data(head)
        [request] = self._protocol.events_received()
        if not self._speaks or f"no {self._path}" in self._quirks:
            self._protocol.send_response(self._protocol.reject(HTTPStatus.NOT_FOUND, "nothing here"))
        else:
            self._protocol.send_response(self._protocol.accept(request))
        self._flush()
        while self._protocol.state is not State.CLOSED and (data := await self._reader.read(65536)):
            self._protocol.receive_data(data)
            for event in self._protocol.events_received():
                if isinstance(event, Frame):
                    self._frame(event)
            self._flush()

    def _frame(self, frame: Frame) -> None:
        if frame.opcode is Opcode.PING and "no pong" in self._quirks:
            self._protocol.data_to_send()  # the pong, thrown away
        if frame.opcode not in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            return
        if frame.opcode is not Opcode.CONT:
            self._fragments, self._opcode = [], frame.opcode
        self._fragments.append(bytes(frame.data))
        no_text = "no text fragments" in self._quirks and self._opcode is Opcode.TEXT
        if frame.fin or no_text or "no fragments" in self._quirks:
            self._message(b"".join(self._fragments))

    def _message(self, data: bytes) -> None:
        is_text = self._opcode is Opcode.TEXT
        if "drops large" in self._quirks and len(data) > MOST:
            self._writer.transport.abort()
            return
        try:
            asked: bytes | str = data.decode() if is_text else data
        except UnicodeDecodeError:
            if "not utf-8" not in self._quirks:
                self._protocol.fail(1007, "text is UTF-8")
                return
            asked = data.decode("utf-8", "replace")
        answer = self._agent.faults.frame(asked, self._answer(asked, is_text))
        if answer is None:
            self._protocol.fail(1011 if "fails" in self._quirks else 1008, "no more")
        elif isinstance(answer, str):
            self._protocol.send_text(answer.encode())
        else:
            self._protocol.send_binary(answer)
        failed = isinstance(answer, str) and not is_text and "closes after error" in self._quirks
        if "once" in self._quirks or failed:
            self._protocol.send_close(1000)

    def _answer(self, asked: bytes | str, is_text: bool) -> bytes | str:
        as_text = is_text and not (self._speaks == "cbor" and "only binary at /nlip/ws" in self._quirks)
        try:
            ignore = self._agent.faults.ignore
            value = rules.from_json(asked.encode(), ignore) if isinstance(asked, str) else self._binary(asked)
            as_text = as_text or (self._speaks == "text")
            message = self._agent.read(value)
            reply = self._agent.answer(message)
            if "mixes tokens" in self._quirks:
                reply["submessages"] = [*self._earlier, *reply["submessages"]]
                self._earlier = message.tokens
        except Rejected as exc:
            as_text = as_text or exc.status == 400
            fallback = {"format": "structured", "subformat": "uri", "content": f"{self._agent.url}/nlip/ws/text"}
            reply = error(str(exc), submessages=[fallback])
        return _encoded(reply, as_text)

    def _binary(self, data: bytes) -> object:
        if self._speaks == "text":
            return rules.from_json(data, self._agent.faults.ignore)
        return rules.from_cbor(data, self._agent.faults.ignore)

    def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                self._writer.write(data)
            else:
                with suppress(OSError):
                    self._writer.write_eof()


def _encoded(reply: Reply, as_text: bool) -> bytes | str:
    return encode(reply).decode() if as_text else cbor2.dumps(reply)
