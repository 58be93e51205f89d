"""OAuth 2.1 on the side of a resource server: the metadata that says where to get a token, and the challenge that
points to it (RFC 9728, RFC 6750)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

WELL_KNOWN = "/.well-known/oauth-protected-resource"


def metadata_path(resource: str) -> str:
    """The path of a resource's metadata: the well-known path, followed by the resource's own."""
    path = urlsplit(resource).path.rstrip("/")
    return f"{WELL_KNOWN}{path}"


def metadata_url(resource: str) -> str:
    parts = urlsplit(resource)
    return f"{parts.scheme}://{parts.netloc}{metadata_path(resource)}"


def protected_resource(
    resource: str,
    issuers: Sequence[str],
    *,
    scopes: Iterable[str] = (),
    name: str = "",
    documentation: str = "",
    dpop: bool = False,
) -> dict[str, Any]:
    """The RFC 9728 document of a resource; ``resource`` is its URL exactly as clients use it."""
    document: dict[str, Any] = {
        "resource": resource,
        "authorization_servers": list(issuers),
        "bearer_methods_supported": ["header"],
    }
    more: Mapping[str, Any] = {
        "scopes_supported": list(scopes),
        "resource_name": name,
        "resource_documentation": documentation,
        "dpop_bound_access_tokens_required": dpop,
    }
    return document | {key: value for key, value in more.items() if value}


def challenge(
    resource: str | None = None, *, scope: str = "", error: str = "", description: str = "", scheme: str = "Bearer"
) -> str:
    """The value of ``WWW-Authenticate``, with the URL of the metadata if the resource has one."""
    parameters = {
        "resource_metadata": metadata_url(resource) if resource else "",
        "scope": scope,
        "error": error,
        "error_description": description,
    }
    written = ", ".join(f'{name}="{_quoted(value)}"' for name, value in parameters.items() if value)
    return f"{scheme} {written}" if written else scheme


def _quoted(value: str) -> str:
    # Header values are printable ASCII; anything else could inject headers.
    return "".join(c for c in value if " " <= c <= "~" and c not in '"\\')
