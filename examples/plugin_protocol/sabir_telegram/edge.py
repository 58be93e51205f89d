"""How Sabir's suite of HTTP rules talks to the door: a valid request, and where an error has its text."""

from typing import Any, Final


def _body(value: object) -> dict[str, Any]:
    return {"text": value} if isinstance(value, str) else {"text": "hello", "extra": value}


DRIVER: Final[dict[str, Any]] = {
    "name": "telegram",
    "path": "/telegram/echo",
    "body": _body,
    "reason": lambda body: str(body["problem"]),
}
