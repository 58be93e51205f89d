"""NLIP over HTTP: ECMA-430 and ECMA-431, tested from outside."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import urljoin, urlsplit

from sabir.errors import PeerUnavailable
from sabir.guard.quotas.rates import is_loopback

from .answer import CheckedAnswer, from_json
from .base import CheckFailed, Declined, Skipped, Suite, demand
from .core import add_core_checks, ask
from .http_target import BY_POLICY, HttpTarget, Response, joined
from .messages import BROKEN_JSON, DUPLICATES, HELLO, MALFORMED, POLICIES, UPLOAD, Json, part, text, token

SUITE: Final[Suite[HttpTarget]] = Suite("http")
check = SUITE.check
JSON_TYPE: Final = {"content-type": "application/json"}
EVENTS: Final = "text/event-stream"
LARGE: Final = 1536 * 1024  # bytes of a message that a server may find too large
Run = Callable[[HttpTarget], Awaitable[None]]


def answered(response: Response, what: str = "the message") -> CheckedAnswer:
    """The answer to a message that must be accepted.

    Raises:
        Failed: it is refused, or the answer is not an NLIP message.
    """
    demand(response.status < 300, f"{what} is refused with HTTP {response.status}")
    answer = response.answer()
    demand(answer.is_message, "the answer is not an NLIP message")
    return answer


# -- the end-point ------------------------------------------------------------------------------


@check("HTTP-6.2", "ECMA-431 6", "must", "a message sent by POST is answered")
async def _post(target: HttpTarget) -> None:
    answered(await target.post(HELLO))


@check("HTTP-6.1", "ECMA-431 6", "must", "the endpoint is at /nlip")
async def _place(target: HttpTarget) -> None:
    if urlsplit(target.url).path.rstrip("/") != "/nlip":
        raise Skipped("the address names another path")
    place = urljoin(target.url, "/nlip")
    response = await target.send("POST", place, json.dumps(HELLO).encode(), JSON_TYPE)
    demand(response.status < 400 or response.status in BY_POLICY, f"/nlip answers HTTP {response.status}")


@check("HTTP-6.2-query", "ECMA-431 6", "should", "a query in the URL does not change the meaning of a message")
async def _query(target: HttpTarget) -> None:
    body = json.dumps(HELLO).encode()
    response = await target.send("POST", target.url + "?x-sabir-check=1", body, JSON_TYPE)
    if response.status in BY_POLICY:
        raise Declined(f"HTTP {response.status}: {BY_POLICY[response.status]}")
    answered(response, "a message sent to the address with a query")


@check("HTTP-6.2-charset", "ECMA-431 6", "should", "application/json with a charset is accepted")
async def _charset(target: HttpTarget) -> None:
    for kind in ("application/json; charset=utf-8", "application/json;charset=UTF-8"):
        answered(await target.post(HELLO, content_type=kind), f"a message as {kind}")


@check("HTTP-6.2-case", "RFC 9110 8.3.1", "must", "a content type is read in any letter case")
async def _type_case(target: HttpTarget) -> None:
    answered(await target.post(HELLO, content_type="Application/JSON"), "a message as Application/JSON")


@check("HTTP-6.3-chunked", "RFC 9112 7.1", "must", "a message in chunks, without Content-Length, is read")
async def _chunked(target: HttpTarget) -> None:
    answered(await target.post(HELLO, transfer_encoding="chunked"), "a message in chunks")


@check("HTTP-6.2-type", "RFC 9110 8.3", "should", "the answer says that it is application/json")
async def _answer_type(target: HttpTarget) -> None:
    response = await target.post(HELLO)
    kind = response.kind
    demand(kind == "application/json" or kind.endswith("+json"), f"its content type is {kind or 'missing'}")
    demand(response.charset in ("", "utf-8"), f"its content type has the charset {response.charset}, and JSON is UTF-8")


@check("HTTP-6.2-type-not", "RFC 9110 8.3", "should", "a rejection in JSON says that it is application/json")
async def _rejection_type(target: HttpTarget) -> None:
    response = await target.post({**HELLO, "format": "hologram"})
    if response.status < 400 or not response.answer().is_message:
        raise Skipped("it is not rejected by an NLIP message")
    is_json = response.kind == "application/json" or response.kind.endswith("+json")
    demand(is_json, f"its content type is {response.kind or 'missing'}")


@check("CORE-5.0.4-raw", "ECMA-430 5, RFC 8259 8.1", "must", "letters beyond ASCII are read as plain UTF-8")
async def _plain_utf8(target: HttpTarget) -> None:
    body = json.dumps({**HELLO, "content": "naïve 東京 \U0001f600"}, ensure_ascii=False).encode()
    answered(await target.post(body), "a message in plain UTF-8")


@check("CORE-5.0.4-blanks", "ECMA-430 5, ECMA-404 4", "must", "blanks and line breaks around the object are read")
async def _blanks(target: HttpTarget) -> None:
    answered(await target.post(b" \r\n\t" + json.dumps(HELLO, indent=1).encode() + b" \n"), "a message with blanks")


@check("HTTP-6.2-accept", "ECMA-431 6", "should", "the answer is an NLIP message whatever Accept says")
async def _any_accept(target: HttpTarget) -> None:
    for accept in ("text/html", "*/*", "application/json"):
        answered(await target.post(HELLO, accept=accept), f"a message with Accept: {accept}")


@check("HTTP-6.3", "ECMA-431 6", "should", "the server speaks HTTP/1.1 or later")
async def _version(target: HttpTarget) -> None:
    version = (await target.post(HELLO)).version
    demand(version in ("HTTP/1.1", "HTTP/2", "HTTP/3"), f"it answers in {version}")


@check("HTTP-3.1", "RFC 7240 2", "must", "an unknown preference is ignored")
async def _preference(target: HttpTarget) -> None:
    response = await target.post(HELLO, prefer="x-sabir-check=1; y=2, handling=lenient")
    answered(response, "a message with an unknown preference")
    demand(not any("x-sabir-check" in item for item in response.applied()), "it says that it applied it")


@check("HTTP-3.1-case", "RFC 7240 2", "must", "the name of a preference is read in any letter case")
async def _preference_case(target: HttpTarget) -> None:
    lower, mixed = [
        await target.post(HELLO, prefer=name) for name in ("respond-async, wait=0", "Respond-Async, Wait=0")
    ]
    if lower.status != 202:
        raise Skipped("it answered at once")
    demand(mixed.status == 202, f"respond-async is answered with HTTP 202, and Respond-Async with HTTP {mixed.status}")


@check(
    "CORE-7.2",
    "ECMA-430 7.2",
    "must",
    "invalid credentials are ignored, or rejected with a hint about what is accepted",
)
async def _credentials(target: HttpTarget) -> None:
    for shown in ("Bearer sabir-check-of-nobody", "Basic c2FiaXI6Y2hlY2s=", "sabir-check-of-nobody"):
        headers = {**JSON_TYPE, "authorization": shown}
        response = await target.send("POST", target.url, json.dumps(HELLO).encode(), headers)
        demand(response.status < 500, f"HTTP {response.status}: it failed on Authorization: {shown}")
        if response.status == 401:
            demand("www-authenticate" in response.headers, "HTTP 401 without WWW-Authenticate (RFC 9110 15.5.2)")


@check("HTTP-P2", "overview paper", "should", "a rejection by policy is explained in an NLIP message")
async def _explained(target: HttpTarget) -> None:
    response = await target.send("POST", target.url, json.dumps(HELLO).encode(), JSON_TYPE)
    if response.status not in BY_POLICY:
        raise Skipped("it refuses nothing")
    demand(response.answer().text, f"HTTP {response.status} has no words in an NLIP message")


@check("CORE-7.1", "ECMA-430 7.1", "must", "the connection is encrypted, except on a loopback address")
async def _encrypted(target: HttpTarget) -> None:
    parts = urlsplit(target.url)
    if parts.scheme != "https" and (parts.hostname == "localhost" or is_loopback(parts.hostname or "")):
        raise Skipped("a prototype on this machine need not be")
    demand(parts.scheme == "https", "it is reached by plain HTTP over the network")


@check("CORE-6.2-a", "ECMA-430 6.2", "must", "state is carried by tokens, not by cookies")
async def _cookies(target: HttpTarget) -> None:
    response = await target.post(HELLO)
    demand("set-cookie" not in response.headers, "the answer sets a cookie")


add_core_checks(SUITE)


# -- uploads ----------------------------------------------------------------------------------------


async def _upload_place(target: HttpTarget) -> str:
    """The upload address that it names, if it may be tried.

    Raises:
        Skipped: it names none, or one that is not on the server under test.
    """
    answer = await ask(target, UPLOAD, "the control message")
    if not answer.uris:
        raise Skipped("it names none")
    place = answer.uris[0]
    if urlsplit(joined(target.url, place)).hostname != urlsplit(target.url).hostname:
        raise Skipped("it is on another host, which is not under test")
    return place


async def _put(target: HttpTarget, place: str) -> Response:
    return await target.send("POST", place, b"an upload of sabir check", {"content-type": "application/octet-stream"})


@check("HTTP-6.1.1", "ECMA-431 6.1", "should", "the upload address is an HTTP address, and accepts an upload")
async def _takes_upload(target: HttpTarget) -> None:
    place = await _upload_place(target)
    demand(place.startswith(("http://", "https://")), f"{place!r:.200} is not a full HTTP address")
    response = await _put(target, place)
    demand(response.status < 300 or response.status in BY_POLICY, f"it answers HTTP {response.status}")


@check("D-25", "our decision", "ours", "uploads are accepted at /nlip/upload/, where nlip.js and nlip-server send them")
async def _bare_upload(target: HttpTarget) -> None:
    response = await _put(target, urljoin(target.url, "/nlip/upload/"))
    demand(response.status < 300 or response.status in BY_POLICY, f"it answers HTTP {response.status}")


@check("CORE-6.4-own", "our decision", "ours", "each caller gets an upload address of its own")
async def _own_place(target: HttpTarget) -> None:
    places = [await _upload_place(target) for _ in range(2)]
    demand(places[0] != places[1], "two callers get the same place")


@check("CORE-6.4-sealed", "our decision", "ours", "an upload address that the server did not issue is rejected")
async def _sealed(target: HttpTarget) -> None:
    place = await _upload_place(target)
    demand(place.startswith(("http://", "https://")), f"{place!r:.200} is not a full HTTP address")
    last = "a" if place[-1] != "a" else "b"
    for made_up in (place[:-1] + last, place + "x", urljoin(place, "made-up-by-sabir-check")):
        response = await _put(target, made_up)
        demand(400 <= response.status < 500, f"{urlsplit(made_up).path} answers HTTP {response.status}")


# -- what is refused --------------------------------------------------------------------------------


def _add_refusal_checks() -> None:
    def refused(body: bytes, name: str) -> Run:
        async def run(target: HttpTarget) -> None:
            response = await target.post(body)
            demand(response.status < 500, f"HTTP {response.status}: it failed on {name}")
            demand(response.answer().refusal, f"{name} is answered as if it were valid")

        return run

    for name, (check_id, body) in BROKEN_JSON.items():
        check(f"{check_id}-not", "ECMA-430 5", "should", f"the server rejects {name}")(refused(body, name))
    for name, body in DUPLICATES.items():
        check("D-03", "our decision", "ours", f"the server rejects a message with {name}")(refused(body, name))


_add_refusal_checks()


@check("D-22", "our decision", "ours", "every rejection has a 4xx status and is an NLIP error in words")
async def _refusals(target: HttpTarget) -> None:
    bodies = {name: json.dumps(message).encode() for name, (_, message) in MALFORMED.items()}
    faults = []
    for name, body in (bodies | {name: body for name, (_, body) in BROKEN_JSON.items()}).items():
        response = await target.post(body)
        answer = response.answer()
        if not answer.refusal:
            continue  # which another check reports
        explained = answer.is_error and answer.text and "Traceback" not in answer.text
        if not (400 <= response.status < 500 and explained):
            faults.append(f"{name} (HTTP {response.status})")
    demand(not faults, f"not so: {'; '.join(faults)}")


# -- our decisions ----------------------------------------------------------------------------------


@check("D-20", "our decision", "ours", "/nlip and /nlip/ are both served, without a redirect")
async def _slashes(target: HttpTarget) -> None:
    path = urlsplit(target.url).path
    if path.rstrip("/") != "/nlip":
        raise Skipped("the address names another path")
    for form in ("/nlip", "/nlip/"):
        response = await target.send("POST", urljoin(target.url, form), json.dumps(HELLO).encode(), JSON_TYPE)
        if response.status in BY_POLICY:
            raise Declined(f"HTTP {response.status}: {BY_POLICY[response.status]}")
        demand(response.status < 300, f"{form} answers HTTP {response.status}")


@check("D-23", "our decision", "ours", "another method gets 405 with Allow: POST")
async def _method(target: HttpTarget) -> None:
    body = json.dumps(HELLO).encode()
    for method in ("GET", "PUT", "PATCH", "DELETE"):
        response = await target.send(method, target.url, b"" if method == "GET" else body, JSON_TYPE)
        demand(response.status == 405, f"{method} answers HTTP {response.status}")
        demand("POST" in response.headers.get("allow", ""), f"the answer to {method} does not say Allow: POST")


@check("D-21", "our decision", "ours", "JSON is read whatever its content type says; other content gets 415")
async def _any_type(target: HttpTarget) -> None:
    read = await target.post(HELLO, content_type="text/plain")
    demand(read.status < 300, f"JSON as text/plain is refused with HTTP {read.status}")
    refused = await target.post(b"Hello", content_type="text/plain")
    demand(refused.status == 415, f"words as text/plain are answered with HTTP {refused.status}")


@check("SEC-DOS-depth", "our decision", "ours", "deep nesting does not break the server")
async def _deep(target: HttpTarget) -> None:
    depth = 2000
    body = b'{"format":"structured","subformat":"json","content":' + b"[" * depth + b"]" * depth + b"}"
    response = await target.post(body)
    demand(response.status < 500, f"HTTP {response.status}")


@check(
    "SEC-DOS-size", "our decision", "ours", "a message of several megabytes is answered, or rejected with an NLIP error"
)
async def _size(target: HttpTarget) -> None:
    try:
        response = await target.post(text("x" * LARGE))
    except PeerUnavailable:  # it closed the connection while we were sending, as RFC 9110 allows
        answered(await target.post(HELLO), "the message after it")
        raise Skipped("it closes the connection before its answer can be read") from None
    demand(response.status < 500, f"HTTP {response.status}")
    is_explained = response.status < 300 or response.answer().text
    demand(is_explained, f"HTTP {response.status} has no words in an NLIP message")


# -- preferences ------------------------------------------------------------------------------------


@check("D-26-minimal", "our decision", "ours", "Prefer: return=minimal still gets a message")
async def _minimal(target: HttpTarget) -> None:
    response = await target.post(HELLO, prefer="return=minimal")
    demand(response.status == 200, f"answered with HTTP {response.status}")
    answered(response)
    demand("return=minimal" not in response.applied(), "it says that it applied it")


@check("D-26", "our decision", "ours", "Prefer: handling=strict rejects what only lenient readers accept")
async def _strict(target: HttpTarget) -> None:
    response = await target.post({"format": "text", "content": "no subformat"}, prefer="handling=strict")
    demand(response.status == 422, f"a message without subformat is answered with HTTP {response.status}")


@check(
    "D-26-applied", "RFC 7240 3", "ours", "Preference-Applied confirms handling=strict, in an answer and in an error"
)
async def _applied(target: HttpTarget) -> None:
    for body in (HELLO, {"format": "text", "content": "no subformat"}):
        response = await target.post(body, prefer="handling=strict")
        said = ", ".join(response.applied()) or "missing"
        demand("handling=strict" in response.applied(), f"with HTTP {response.status} Preference-Applied is {said}")


async def _accepted(target: HttpTarget, message: Json) -> Response:
    """The 202 to a message that need not be answered at once.

    Raises:
        Skipped: it is answered at once.
    """
    response = await target.post(message, prefer="respond-async, wait=0")
    if response.status == 200:
        raise Skipped("it answered at once")
    return response


async def _later(target: HttpTarget, accepted: Response) -> Response:
    """The answer at the URL of a 202.

    Raises:
        Failed: there is no answer, or not in time.
    """
    place = accepted.headers.get("location")
    demand(place, "HTTP 202 has no Location")
    full = joined(target.url, place or "")
    demand(urlsplit(full).netloc == urlsplit(target.url).netloc, f"Location is on another server: {place}")
    end = time.monotonic() + target.patience
    pause = 0.02
    while True:
        found = await target.send("GET", full, b"", {"prefer": "wait=1"})
        if found.status != 202:
            return found
        demand(time.monotonic() < end, f"its place still answers HTTP 202 after {target.patience:g} seconds")
        await asyncio.sleep(pause)
        pause = min(2 * pause, 0.5)


async def _later_if_named(target: HttpTarget, accepted: Response) -> Response:
    """The answer at its place. Without one, the check is skipped: other checks report that."""
    if "location" not in accepted.headers:
        raise Skipped("no place is named for the answer")
    try:
        return await _later(target, accepted)
    except CheckFailed as exc:
        raise Skipped(f"the answer does not come: {exc}") from None


@check(
    "D-26-async",
    "our decision",
    "ours",
    "Prefer: respond-async gives 202 and the address at which the answer soon appears",
)
async def _async(target: HttpTarget) -> None:
    accepted = await _accepted(target, HELLO)
    demand(accepted.status == 202, f"answered with HTTP {accepted.status}")
    demand("respond-async" in accepted.applied(), "HTTP 202 lacks Preference-Applied: respond-async")
    found = await _later(target, accepted)
    demand(found.status == 200, f"its place answers HTTP {found.status}")
    demand(found.answer().is_message, "the answer at its place is not an NLIP message")


@check("CORE-6.1-async", "ECMA-430 6.1", "must", "a 202 is an NLIP message that names the address of the answer")
async def _async_body(target: HttpTarget) -> None:
    accepted = await _accepted(target, HELLO)
    answer = answered(accepted)
    demand(answer.uris, "HTTP 202 has no structured/uri submessage")


@check("CORE-6.2-async", "ECMA-430 6.2", "must", "a token comes back in the 202 and in the answer that follows it")
async def _async_tokens(target: HttpTarget) -> None:
    sent = token("conversation_async", "check-async")
    accepted = await _accepted(target, text("Hello", sent))
    demand(answered(accepted).has(sent), "the token is not in the 202")
    found = await _later_if_named(target, accepted)
    if found.status == 200:
        demand(found.answer().has(sent), "the token is not in the answer that follows")


@check(
    "CORE-6.3-async",
    "ECMA-430 6.3",
    "must",
    "the answer to a control message is a control message, even if it comes later",
)
async def _async_control(target: HttpTarget) -> None:
    accepted = await _accepted(target, POLICIES)
    if accepted.status != 202:
        raise Skipped("no place is named for the answer")
    found = await _later_if_named(target, accepted)
    if found.status == 200:
        demand(found.answer().is_control, "the answer that follows is not a control message")


# -- streams ----------------------------------------------------------------------------------------


async def _streamed(target: HttpTarget, message: Json) -> list[bytes]:
    """The data of the events that answer a message. An event ends with a blank line; clients drop an incomplete one.

    Raises:
        Skipped: it does not stream.
    """
    response = await target.post(message, accept=EVENTS)
    if response.kind != EVENTS:
        raise Skipped("it does not stream")
    blocks = response.body.replace(b"\r\n", b"\n").split(b"\n\n")[:-1]
    lines = [[line[5:].removeprefix(b" ") for line in block.split(b"\n") if line[:5] == b"data:"] for block in blocks]
    data = [b"\n".join(item) for item in lines if item]
    demand(data, "no event has data")
    return data


@check("D-34", "our decision", "ours", "Accept: text/event-stream gives events, and the last is the whole answer")
async def _events(target: HttpTarget) -> None:
    answers = [from_json(data) for data in await _streamed(target, HELLO)]
    demand(all(answer.is_message for answer in answers), "an event is not an NLIP message")
    demand(answers[-1].messagetype != "partial", "the last event is a partial message")
    early = [answer for answer in answers[:-1] if answer.messagetype != "partial"]
    demand(not early, "an event before the last is not a partial message")


@check("CORE-6.2-events", "ECMA-430 6.2", "must", "a token comes back in the last event of a stream")
async def _events_tokens(target: HttpTarget) -> None:
    sent = token("conversation_stream", "check-stream")
    last = from_json((await _streamed(target, text("Hello", sent)))[-1])
    demand(last.has(sent), "the token is not in the last event")


@check(
    "CORE-6.3-events",
    "ECMA-430 6.3",
    "must",
    "the answer to a control message is a control message, even if it is a stream",
)
async def _events_control(target: HttpTarget) -> None:
    last = from_json((await _streamed(target, text("What are your policies?", messagetype="control")))[-1])
    demand(last.is_control, "the last event is not a control message")


@check("HTTP-6.2-q0", "RFC 9110 12.4.2", "must", "Accept: text/event-stream;q=0 gives no stream")
async def _no_stream(target: HttpTarget) -> None:
    for weight in ("q=0", "q=0.000"):
        response = await target.post(HELLO, accept=f"application/json, {EVENTS};{weight}")
        demand(response.kind != EVENTS, f"it streams, although {weight} rules that out")
        answered(response)


# -- agreements -------------------------------------------------------------------------------------


@check(
    "TR-7.3.2", "overview report 7.3.2", "ours", "an agreed limit on replies holds for the whole reply, tokens included"
)
async def _reply_limit(target: HttpTarget) -> None:
    limit = 2048
    wish = part("structured", "json", {"propose": {"reply": limit}}, label="limits")
    proposal = text(f"Please limit replies to {limit} bytes", wish, messagetype="control")
    agreed = await target.exchange(proposal)
    terms = agreed.labelled("limits")
    confirmed = terms.get("agreed") if isinstance(terms, dict) else None
    if not isinstance(confirmed, dict) or confirmed.get("reply") != limit:
        raise Skipped("it does not agree to limits")
    tokens: list[Json] = [token(item.subformat, item.content) for item in agreed.tokens]
    tokens.append(token("conversation_limit", "0123456789" * 60))
    response = await target.post(text("long words " * 1000, *tokens))
    demand(response.status < 300, f"the next message is refused with HTTP {response.status}")
    size = len(response.body)
    demand(size <= limit, f"{limit} bytes were agreed, and the reply has {size}")
