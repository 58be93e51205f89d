"""Login to an MCP server by OAuth 2.1: the SDK's flow, with tokens stored as secrets.

``show_page`` shows the authorization page to the user, and returns the redirect address. The SDK checks what the server
says about itself: the resource, the issuer, the requested scopes.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

import httpx2
import msgspec
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

from sabir.errors import Unauthenticated
from sabir.private_files import own_folder

ShowPage = Callable[[str], Awaitable[str]]
REDIRECT: Final = "http://localhost:3000/callback"


class StoredCredentials:
    """The tokens and the registration of one server: in memory, or in a file that only its owner can read."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._held: dict[str, str] = {}
        if path is not None and path.exists():
            self._held = msgspec.json.decode(path.read_bytes(), type=dict[str, str])

    async def get_tokens(self) -> OAuthToken | None:
        held = self._held.get("tokens")
        return OAuthToken.model_validate_json(held) if held is not None else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._put("tokens", tokens.model_dump_json(exclude_none=True))

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        held = self._held.get("client")
        return OAuthClientInformationFull.model_validate_json(held) if held is not None else None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._put("client", client_info.model_dump_json(exclude_none=True))

    def _put(self, name: str, value: str) -> None:
        self._held[name] = value
        if self._path is not None:
            own_folder(self._path.parent)
            handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(msgspec.json.encode(self._held))


async def oauth(
    url: str,
    show_page: ShowPage,
    *,
    kept: StoredCredentials | None = None,
    redirect: str = REDIRECT,
    client_id: str | None = None,
    client_secret: str | None = None,
    metadata_url: str | None = None,
) -> httpx2.Auth:
    """The authentication of a peer at this address; ``McpPeer(url, auth=await oauth(url, show_page))``.

    ``client_id`` is for servers that already know us; ``metadata_url`` for those that fetch our metadata.
    """
    kept = kept or StoredCredentials()
    if client_id is not None:
        method = "client_secret_basic" if client_secret else "none"
        known = {"client_id": client_id, "client_secret": client_secret, "redirect_uris": [redirect]}
        await kept.set_client_info(
            OAuthClientInformationFull.model_validate({**known, "token_endpoint_auth_method": method})
        )
    came_back: list[str] = []

    async def show(address: str) -> None:
        if urlsplit(address).scheme not in ("http", "https"):
            raise Unauthenticated("the server's authorization page is not on the web; it is not opened")
        came_back.append(await show_page(address))

    async def answered() -> AuthorizationCodeResult:
        query = parse_qs(urlsplit(came_back.pop()).query)
        if "code" not in query:
            raise Unauthenticated(f"the login was refused ({query.get('error', ['no reason'])[0][:100]})")
        first = {name: values[0] for name, values in query.items()}
        return AuthorizationCodeResult(code=first["code"], state=first.get("state"), iss=first.get("iss"))

    metadata = OAuthClientMetadata.model_validate(
        {
            "client_name": "Sabir",
            "redirect_uris": [redirect],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
        }
    )
    return OAuthClientProvider(url, metadata, kept, show, answered, metadata_url)
