"""How Sabir's suite of HTTP rules speaks to the door: a valid request, and where an error says what was wrong."""

from typing import Any, Final


def _body(value: object) -> dict[str, Any]:
    return {"text": value} if isinstance(value, str) else {"text": "hello", "extra": value}


DRIVER: Final[dict[str, Any]] = {
    "name": "telegram",
    "path": "/telegram/echo",
    "body": _body,
    "reason": lambda body: str(body["problem"]),
}
