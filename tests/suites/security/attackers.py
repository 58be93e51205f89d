"""Callers of a gateway, over HTTP, with everything on the wire in reach."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2

from sabir.guard.identity.api_keys import ApiKeys
from sabir.stores.sqlite.store import SQLiteStore

JSON = dict[str, Any]


def say(text: str, *parts: JSON, control: bool = False) -> JSON:
    message: JSON = {"format": "text", "subformat": "english", "content": text}
    if control:
        message["messagetype"] = "control"
    if parts:
        message["submessages"] = list(parts)
    return message


def token(content: Any, subformat: str = "conversation") -> JSON:
    return {"format": "token", "subformat": subformat, "content": content}


def tokens(reply: httpx2.Response) -> list[JSON]:
    return [part for part in reply.json().get("submessages", []) if part["format"] == "token"]


def part(reply: httpx2.Response, label: str) -> Any:
    return next((p["content"] for p in reply.json().get("submessages", []) if p.get("label") == label), None)


class Caller:
    """One who calls, with or without a key."""

    def __init__(self, url: str, key: str | None = None, *, address: str | None = None) -> None:
        transport = httpx2.HTTPTransport(local_address=address) if address else None
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self.key = key
        self.http = httpx2.Client(base_url=url, headers=headers, trust_env=False, transport=transport)

    def __enter__(self) -> Caller:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def ask(self, message: JSON, agent: str = "", **headers: str) -> httpx2.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.http.post(f"/nlip/{agent}", content=json.dumps(message), headers={**JSON_TYPE, **named})


JSON_TYPE = {"content-type": "application/json"}


def add_key(home: Path, name: str, *roles: str, expires: float = 0.0) -> str:
    """An API key, made as ``sabir keys add`` makes it: beside the running gateway."""

    async def add() -> str:
        store = SQLiteStore(home / "sabir.db")
        await store.open()
        try:
            return (await ApiKeys(store).add(name, roles=roles, expires=expires))[1]
        finally:
            await store.close()

    return asyncio.run(add())
