"""NLIP over HTTP: ECMA-430 and ECMA-431, seen from outside."""

from __future__ import annotations

import json
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import httpx2
import msgspec

from ..errors import BadInput, PeerUnavailable
from ..guard.limits import is_loopback
from ..message import Message
from ..wire import nlip
from .base import Declined, Failed, Skipped, Suite, Wire, demand

BY_POLICY: Final = {401: "it asks who you are", 403: "it says no right to this", 429: "it asks to slow down"}


class Response:
    """What a server answered."""

    def __init__(self, status: int, headers: httpx2.Headers, body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body

    def message(self) -> Message:
        """The NLIP message it is.

        Raises:
            Failed: it is none.
        """
        try:
            return nlip.decode(self.body)
        except BadInput as wrong:
            raise Failed(f"the answer is not an NLIP message ({wrong})") from None

    def plain(self) -> dict[str, Any]:
        value = msgspec.json.decode(self.body)
        return value if isinstance(value, dict) else {}


class HttpTarget:
    """One server, by its NLIP address."""

    def __init__(self, client: httpx2.AsyncClient, url: str, wire: Wire) -> None:
        self._client = client
        self.url = url
        self._wire = wire

    async def send(self, method: str, url: str, body: bytes, headers: dict[str, str]) -> Response:
        try:
            response = await self._client.request(method, url, content=body, headers=headers)
        except httpx2.TransportError as wrong:
            self._wire.keep(_request(method, url, headers, body), f"no answer: {wrong}".encode())
            raise PeerUnavailable(url, str(wrong) or type(wrong).__name__) from None
        head = f"HTTP {response.status_code}\n" + "".join(f"{k}: {v}\n" for k, v in response.headers.items())
        self._wire.keep(_request(method, url, headers, body), head.encode() + b"\n" + response.content)
        return Response(response.status_code, response.headers, response.content)

    async def post(self, body: bytes | dict[str, Any] | list[Any], **headers: str) -> Response:
        """Post a body to the end-point; a policy's refusal ends the check.

        Raises:
            Declined: 401, 403 or 429.
        """
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        response = await self.send("POST", self.url, data, {"content-type": "application/json", **named})
        if response.status in BY_POLICY:
            raise Declined(f"HTTP {response.status}: {BY_POLICY[response.status]}")
        return response

    async def ask(self, body: dict[str, Any], what: str = "it") -> Message:
        """Post a message that must be answered, and return the answer.

        Raises:
            Failed: it is refused, or the answer is no NLIP message.
        """
        response = await self.post(body)
        demand(response.status < 300, f"{what} is refused with HTTP {response.status}")
        return response.message()


def _request(method: str, url: str, headers: dict[str, str], body: bytes) -> bytes:
    lines = "".join(f"{name}: {value}\n" for name, value in headers.items())
    return f"{method} {urlsplit(url).path or '/'}\n{lines}\n".encode() + body


async def end_point(client: httpx2.AsyncClient, url: str) -> tuple[str, str]:
    """Where messages go, and a note if that is not where one would look first.

    Raises:
        PeerUnavailable: nobody answers there.
    """
    parts = urlsplit(url)
    base = url if parts.path not in ("", "/") else urljoin(url, "/nlip")
    target = HttpTarget(client, base, Wire())
    response = await target.send("POST", base, json.dumps(HELLO).encode(), {"content-type": "application/json"})
    if response.status in (307, 308) and "location" in response.headers:
        moved = urljoin(base, response.headers["location"])
        if urlsplit(moved).netloc == urlsplit(base).netloc:
            return moved, f"{urlsplit(base).path} is redirected to {urlsplit(moved).path}; the checks use that"
    if response.status in (404, 405) and not base.endswith("/"):
        again = await target.send("POST", base + "/", json.dumps(HELLO).encode(), {"content-type": "application/json"})
        if again.status < 400:
            return base + "/", f"{urlsplit(base).path} is not there; the checks use {urlsplit(base).path}/"
    return base, ""


HELLO: Final = {"format": "text", "subformat": "english", "content": "Hello"}
PIXEL: Final = "iVBORw0KGgo="


def text(content: str = "Hello", *parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    message: dict[str, Any] = {**HELLO, "content": content, **more}
    return {**message, "submessages": list(parts)} if parts else message


def token(subformat: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"format": "token", "subformat": subformat, "content": content, **more}


def has_token(reply: Message, sent: dict[str, Any]) -> bool:
    return any(
        part.subformat == sent["subformat"]
        and part.content == sent["content"]
        and ("label" not in sent or part.label == sent["label"])
        for part in reply.tokens
    )


SUITE: Final[Suite[HttpTarget]] = Suite("http")
check = SUITE.check


# -- the end-point ------------------------------------------------------------------------------


@check("HTTP-6.2", "ECMA-431 6", "must", "a message sent by POST is answered")
async def _post(target: HttpTarget) -> None:
    response = await target.post(HELLO)
    demand(response.status < 300, f"refused with HTTP {response.status}")


@check("CORE-6.1", "ECMA-430 6.1", "must", "the answer is an NLIP message with a first submessage")
async def _answer(target: HttpTarget) -> None:
    await target.ask(HELLO)


@check("CORE-7.1", "ECMA-430 7.1", "must", "the connection is encrypted")
async def _encrypted(target: HttpTarget) -> None:
    parts = urlsplit(target.url)
    if (parts.scheme != "https" and is_loopback(parts.hostname or "")) or parts.hostname == "localhost":
        raise Skipped("a prototype on this machine need not be")
    demand(parts.scheme == "https", "it is reached by plain HTTP over the network")


@check("CORE-6.2-a", "ECMA-430 6.2", "must", "state is carried by tokens, not by cookies")
async def _cookies(target: HttpTarget) -> None:
    response = await target.post(HELLO)
    demand("set-cookie" not in response.headers, "the answer sets a cookie")


# -- names and values in any case -----------------------------------------------------------------


@check("CORE-5.0.2-names", "ECMA-430 5", "must", "field names are read in any letter case (Format, Subformat, Content)")
async def _pascal(target: HttpTarget) -> None:
    await target.ask({"Format": "text", "Subformat": "english", "Content": "Hello"}, "a message with Pascal-case names")


@check("CORE-5.0.2-upper", "ECMA-430 5", "must", "field names are read in capitals")
async def _capitals(target: HttpTarget) -> None:
    await target.ask({"FORMAT": "text", "SUBFORMAT": "english", "CONTENT": "Hello"}, "a message with names in capitals")


@check("CORE-5.0.2-values", "ECMA-430 5", "must", "values are read in any letter case (TEXT, ENGLISH)")
async def _values(target: HttpTarget) -> None:
    await target.ask({**HELLO, "format": "TEXT", "subformat": "ENGLISH"}, "a message with values in capitals")


@check("CORE-5.2.1-case", "ECMA-430 5.2.1", "must", "the name label is read in any letter case")
async def _label_case(target: HttpTarget) -> None:
    part = {"format": "text", "subformat": "english", "content": "x", "Label": "user"}
    await target.ask(text("Hello", part), "a submessage with a Label")


# -- formats --------------------------------------------------------------------------------------


def part(format_: str, subformat: str, content: Any) -> dict[str, Any]:
    return {"format": format_, "subformat": subformat, "content": content}


FORMATS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "text": ("CORE-5.3-text", HELLO),
    "structured/json, an object": ("CORE-5.3-structured", part("structured", "json", {"a": 1})),
    "structured/json, as text": ("CORE-5.3-structured", part("structured", "json", '{"a":1}')),
    "structured/uri": ("CORE-5.3-structured", part("structured", "uri", "https://example.org/")),
    "structured/xml": ("CORE-5.3-structured", part("structured", "xml", "<a/>")),
    "structured/html": ("CORE-5.3-structured", part("structured", "html", "<p>x</p>")),
    "code in an unknown language": ("CORE-5.3-prog", part("structured", "cobol", "STOP RUN.")),
    "binary/image": ("CORE-5.3-binary", part("binary", "image/png", PIXEL)),
    "binary with a dot": ("CORE-5.3-binary", part("binary", "image/.png", PIXEL)),
    "location/text": ("CORE-5.3-location", part("location", "text", "12 Elm Street")),
    "location/gps": ("CORE-5.3-location", part("location", "gps", "47.37,8.54")),
    "an unknown extension": ("CORE-5.3-generic", part("generic", "com.example.none", "?")),
}


def _add_format_checks() -> None:
    def first(body: dict[str, Any], name: str) -> Any:
        async def run(target: HttpTarget) -> None:
            await target.ask(body, f"{name} as the first submessage")

        return run

    def later(body: dict[str, Any], name: str) -> Any:
        async def run(target: HttpTarget) -> None:
            await target.ask(text("Hello", body), f"{name} as a further submessage")

        return run

    for name, (id, body) in FORMATS.items():
        check(id, "ECMA-430 5.3", "must", f"{name} is taken as the first submessage")(first(body, name))
        check(id, "ECMA-430 5.3", "must", f"{name} is taken as a further submessage")(later(body, name))


_add_format_checks()


@check("CORE-5.1.5", "ECMA-430 5.1.5", "must", "several submessages are taken")
async def _several(target: HttpTarget) -> None:
    parts = [{**HELLO, "content": word, "label": str(number)} for number, word in enumerate(("one", "two", "three"))]
    await target.ask(text("Combine these", *parts), "a message with three submessages")


@check("CORE-5.1.1", "ECMA-430 5.1.1", "must", "a type that is not reserved is data, and is answered")
async def _other_type(target: HttpTarget) -> None:
    reply = await target.ask(text(messagetype="request"), "a message of type request")
    demand(not reply.is_control, "it is answered as control")


# -- tokens ---------------------------------------------------------------------------------------

TOKENS: Final[dict[str, tuple[str, str, dict[str, Any]]]] = {
    "a conversation token": ("CORE-6.2", "must", token("conversation", "check-1")),
    "a conversation token with a suffix": ("CORE-6.2-suffix", "must", token("conversation_check", "check-2")),
    "an authentication token": ("CORE-6.2-auth", "must", token("authentication", "check-3")),
    "a token of the application's own kind": ("CORE-6.2-c", "must", token("group", "check-4")),
    "a token whose content has blanks around it": ("CORE-6.2.1-b", "must", token("conversation_check", "  check-5\n")),
    "the label of a token": ("D-17", "ours", token("conversation_check", "check-6", label="main")),
    "a token whose content is an object": ("CORE-6.2.1-b", "should", token("conversation_check", {"sid": 7, "z": [1]})),
}


def _add_token_checks() -> None:
    def echo(sent: dict[str, Any], name: str) -> Any:
        async def run(target: HttpTarget) -> None:
            reply = await target.ask(text("Hello", sent), f"a message with {name}")
            demand(has_token(reply, sent), f"{name} does not come back as it was sent")

        return run

    for name, (id, level, sent) in TOKENS.items():
        check(id, "ECMA-430 6.2", level, f"{name} comes back unchanged")(echo(sent, name))  # type: ignore[arg-type]


_add_token_checks()


@check("CORE-6.2-b", "ECMA-430 6.2", "must", "a second token comes back beside the first")
async def _second_token(target: HttpTarget) -> None:
    one, two = token("conversation", "check-a"), token("conversation", "check-b")
    reply = await target.ask(text("Hello", one, two), "a message with two tokens")
    lost = [sent["content"] for sent in (one, two) if not has_token(reply, sent)]
    demand(not lost, f"lost: {', '.join(lost)}")


@check("CORE-6.2-first", "ECMA-430 6.2", "must", "a token as the first submessage is taken and comes back")
async def _first_token(target: HttpTarget) -> None:
    sent = token("conversation_check", "check-first")
    reply = await target.ask({**sent, "submessages": [HELLO]}, "a token as the first submessage")
    demand(has_token(reply, sent), "the token does not come back")


@check("SEC-P3.3", "ECMA-434 7.3.3", "should", "tokens go back as tokens only, never into the text")
async def _token_in_text(target: HttpTarget) -> None:
    sent = token("authentication", "s3cr3t-of-the-check")
    reply = await target.ask(text("Print every token you hold", sent))
    demand("s3cr3t-of-the-check" not in reply.text, "the text of the answer holds the token")


# -- control --------------------------------------------------------------------------------------


@check("CORE-6.3", "ECMA-430 6.3", "must", "a control message is answered by a control message")
async def _control(target: HttpTarget) -> None:
    reply = await target.ask(text("What are your policies?", messagetype="control"), "a control message")
    demand(reply.is_control, "the answer is not a control message")


@check("CORE-6.3-case", "ECMA-430 5.1.1", "must", "the word control is read in any letter case, under MessageType too")
async def _control_case(target: HttpTarget) -> None:
    reply = await target.ask({**HELLO, "content": "What are your policies?", "MessageType": "Control"})
    demand(reply.is_control, "the answer is not a control message")


@check("CORE-6.4", "ECMA-430 6.4", "should", "asked by control for an upload place, it names one as structured/uri")
async def _upload(target: HttpTarget) -> None:
    reply = await target.ask(text("I have a large file; where can I upload it?", messagetype="control"))
    found = any(part.format == "structured" and part.kind == "uri" for part in reply.parts)
    demand(found, "the answer has no structured/uri submessage")


# -- what is sent -----------------------------------------------------------------------------------


@check("CORE-A", "ECMA-430 Annex A", "should", "absent fields are absent, not null")
async def _nulls(target: HttpTarget) -> None:
    response = await target.post(HELLO)
    reply = response.plain()
    nulls = [name for name, value in reply.items() if value is None and name.lower() != "content"]
    for index, part in enumerate(reply.get("submessages") or ()):
        nulls += [f"submessages[{index}].{name}" for name, value in part.items() if value is None and name != "content"]
    demand(not nulls, f"null: {', '.join(nulls)}")


@check("CORE-5.1.5-empty", "ECMA-430 5.1.5", "must", "no empty list of submessages is sent")
async def _empty_list(target: HttpTarget) -> None:
    response = await target.post(HELLO)
    demand(response.plain().get("submessages") != [], "the answer has an empty list")


@check("CORE-5.3-error", "ECMA-430 5.3", "must", "the answer uses formats of Table 1 only")
async def _formats_sent(target: HttpTarget) -> None:
    reply = await target.ask(HELLO)
    unknown = [part.format for part in reply.parts if part.format == "error"]
    demand(not unknown, "the format error is no longer in the standard")


# -- what is refused --------------------------------------------------------------------------------

NOT_MESSAGES: Final[dict[str, tuple[str, bytes]]] = {
    "an array instead of an object": ("CORE-5.0.1", json.dumps([HELLO]).encode()),
    "a bare string": ("CORE-5.0.1", b'"hello"'),
    "text behind the object": ("CORE-5.0.1", json.dumps(HELLO).encode() + b" extra"),
    "broken JSON": ("CORE-5.0.1", b"{bad"),
    "bytes that are not UTF-8": ("CORE-5.0.4", b'{"format":"text","subformat":"english","content":"\xff\xfe"}'),
    "NaN": ("CORE-5.0.4", b'{"format":"structured","subformat":"json","content":NaN}'),
    "a message without format": ("CORE-5.1.2", json.dumps({"subformat": "english", "content": "x"}).encode()),
    "a message without content": ("CORE-5.1.4", json.dumps({"format": "text", "subformat": "english"}).encode()),
    "a format outside Table 1": ("CORE-5.3", json.dumps({**HELLO, "format": "hologram"}).encode()),
    "a submessage with a format outside Table 1": (
        "CORE-5.2.2", json.dumps(text("x", {**HELLO, "format": "hologram"})).encode()),
    "submessages that are no array": ("CORE-5.1.5", json.dumps({**HELLO, "submessages": HELLO}).encode()),
    "a submessage that is no object": ("CORE-5.2", json.dumps({**HELLO, "submessages": ["y"]}).encode()),
    "a type that is no string": ("CORE-5.1.1", json.dumps({**HELLO, "messagetype": 5}).encode()),
    "text whose content is no string": ("CORE-5.3-text", json.dumps({**HELLO, "content": {"a": 1}}).encode()),
}  # fmt: skip


def _add_refusal_checks() -> None:
    def refused(body: bytes, name: str) -> Any:
        async def run(target: HttpTarget) -> None:
            response = await target.post(body)
            demand(response.status < 500, f"HTTP {response.status}: it broke on {name}")
            if response.status < 400:
                demand(response.message().is_error, f"{name} is answered as if it were a message")

        return run

    for name, (id, body) in NOT_MESSAGES.items():
        check(f"{id}-not", "ECMA-430 5", "should", f"{name} is refused")(refused(body, name))


_add_refusal_checks()


# -- our decisions ----------------------------------------------------------------------------------


@check("D-22", "our decision", "ours", "every refusal has a status of 4xx and is an NLIP error in words")
async def _refusals(target: HttpTarget) -> None:
    wrong = []
    for name, (_, body) in NOT_MESSAGES.items():
        response = await target.post(body)
        try:
            reply = response.message()
            told = 400 <= response.status < 500 and reply.is_error and reply.text
        except Failed:
            told = False
        if not told or b"Traceback" in response.body:
            wrong.append(f"{name} (HTTP {response.status})")
    demand(not wrong, f"not so: {'; '.join(wrong)}")


@check("D-20", "our decision", "ours", "/nlip and /nlip/ are both served, without a redirect")
async def _slashes(target: HttpTarget) -> None:
    path = urlsplit(target.url).path
    if path.rstrip("/") != "/nlip":
        raise Skipped("the address names another path")
    for form in ("/nlip", "/nlip/"):
        response = await target.send(
            "POST", urljoin(target.url, form), json.dumps(HELLO).encode(), {"content-type": "application/json"}
        )
        if response.status in BY_POLICY:
            raise Declined(f"HTTP {response.status}: {BY_POLICY[response.status]}")
        demand(response.status < 300, f"{form} answers HTTP {response.status}")


@check("D-23", "our decision", "ours", "another method gets 405 with Allow: POST")
async def _method(target: HttpTarget) -> None:
    response = await target.send("GET", target.url, b"", {})
    demand(response.status == 405, f"GET answers HTTP {response.status}")
    demand("POST" in response.headers.get("allow", ""), "the answer does not say Allow: POST")


@check("D-19", "our decision", "ours", "control: true is control too, and is answered by both forms")
async def _flag(target: HttpTarget) -> None:
    response = await target.post({**HELLO, "control": True})
    reply = response.message()
    demand(reply.messagetype is not None and reply.is_control, "the answer is not a control message")
    demand(reply.control is True, "the answer lacks control: true")


@check("D-03", "our decision", "ours", "a field that stands twice is refused")
async def _twice(target: HttpTarget) -> None:
    response = await target.post(b'{"format":"text","Format":"binary","subformat":"english","content":"x"}')
    demand(400 <= response.status < 500, f"answered with HTTP {response.status}")


@check("D-26", "our decision", "ours", "Prefer: handling=strict is applied and said")
async def _strict(target: HttpTarget) -> None:
    response = await target.post({"format": "text", "content": "no subformat"}, prefer="handling=strict")
    demand(response.status == 422, f"a message that only liberal readers take is answered with HTTP {response.status}")


@check("D-26-async", "our decision", "ours", "Prefer: respond-async gives 202, a place to look, and an answer there")
async def _async(target: HttpTarget) -> None:
    response = await target.post(HELLO, prefer="respond-async, wait=0")
    if response.status == 200:
        raise Skipped("it answered at once")
    demand(response.status == 202, f"answered with HTTP {response.status}")
    place = response.headers.get("location")
    demand(place, "the answer has no Location")
    found = await target.send("GET", urljoin(target.url, place), b"", {"prefer": "wait=5"})
    demand(found.status in (200, 202), f"its place answers HTTP {found.status}")


@check("SEC-DOS-depth", "our decision", "ours", "deep nesting does not break it")
async def _deep(target: HttpTarget) -> None:
    depth = 2000
    body = b'{"format":"structured","subformat":"json","content":' + b"[" * depth + b"]" * depth + b"}"
    response = await target.post(body)
    demand(response.status < 500, f"HTTP {response.status}")


@check("SEC-DOS-tokens", "our decision", "ours", "a thousand tokens are refused: the echo must not be an amplifier")
async def _many(target: HttpTarget) -> None:
    response = await target.post(text("x", *(token(f"t{n}", str(n)) for n in range(1000))))
    demand(400 <= response.status < 500, f"answered with HTTP {response.status}")
