"""NLIP over HTTP: ECMA-430 and ECMA-431, seen from outside."""

from __future__ import annotations

import json
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from ..guard.limits import is_loopback
from .base import Declined, Failed, Skipped, Suite, demand
from .http_target import BY_POLICY, HELLO, HttpTarget, Response, has_token, joined, text, token

PIXEL: Final = "iVBORw0KGgo="
SUITE: Final[Suite[HttpTarget]] = Suite("http")
check = SUITE.check
JSON_TYPE: Final = {"content-type": "application/json"}


# -- the end-point ------------------------------------------------------------------------------


@check("HTTP-6.2", "ECMA-431 6", "must", "a message sent by POST is answered")
async def _post(target: HttpTarget) -> None:
    response = await target.post(HELLO)
    demand(response.status < 300, f"refused with HTTP {response.status}")


@check("CORE-6.1", "ECMA-430 6.1", "must", "the answer is an NLIP message with a first submessage")
async def _answer(target: HttpTarget) -> None:
    await target.ask(HELLO)


@check("HTTP-6.1", "ECMA-431 6", "must", "the end-point is at /nlip")
async def _place(target: HttpTarget) -> None:
    if urlsplit(target.url).path.rstrip("/") != "/nlip":
        raise Skipped("the address names another path")
    place = urljoin(target.url, "/nlip")
    response = await target.send("POST", place, json.dumps(HELLO).encode(), JSON_TYPE)
    demand(response.status < 400 or response.status in BY_POLICY, f"/nlip answers HTTP {response.status}")


@check("HTTP-6.2-type", "ECMA-431 6", "should", "application/json with a charset is taken")
async def _charset(target: HttpTarget) -> None:
    response = await target.post(HELLO, content_type="application/json; charset=utf-8")
    demand(response.status < 300, f"refused with HTTP {response.status}")


@check("HTTP-3.1", "RFC 7240 2", "must", "a preference that it does not know is ignored")
async def _preference(target: HttpTarget) -> None:
    response = await target.post(HELLO, prefer="x-sabir-check=1; y=2, handling=lenient")
    demand(response.status < 300, f"refused with HTTP {response.status}")
    response.message()


@check(
    "CORE-7.2",
    "ECMA-430 7.2",
    "must",
    "wrong credentials are passed over, or refused by saying how to come by right ones",
)
async def _credentials(target: HttpTarget) -> None:
    headers = {**JSON_TYPE, "authorization": "Bearer sabir-check-of-nobody"}
    response = await target.send("POST", target.url, json.dumps(HELLO).encode(), headers)
    demand(response.status < 500, f"HTTP {response.status}: it broke on them")
    if response.status == 401:
        demand("www-authenticate" in response.headers, "HTTP 401 without WWW-Authenticate (RFC 9110 15.5.2)")


@check("HTTP-P2", "overview paper", "should", "a refusal by policy is told in an NLIP message")
async def _told(target: HttpTarget) -> None:
    response = await target.send("POST", target.url, json.dumps(HELLO).encode(), JSON_TYPE)
    if response.status not in BY_POLICY:
        raise Skipped("it refuses nothing")
    demand(response.message().text, f"HTTP {response.status} says nothing in words")


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
    "binary/video": ("CORE-5.3-binary", part("binary", "video/mp4", PIXEL)),
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


@check("CORE-5.3", "ECMA-430 5.3", "must", "a text in a language that it does not know does not break it")
async def _language(target: HttpTarget) -> None:
    response = await target.post({**HELLO, "subformat": "klingon", "content": "nuqneH"})
    demand(response.status < 500, f"HTTP {response.status}")
    response.message()


@check("CORE-5.3-english", "ECMA-430 5.3", "should", "a text in English is answered with some text")
async def _english(target: HttpTarget) -> None:
    reply = await target.ask(HELLO)
    demand(any(part.format == "text" for part in reply.parts), "no part of the answer is text")


@check("XSPEC-landing", "extended specification", "ours", "an empty first text is answered")
async def _greeting(target: HttpTarget) -> None:
    await target.ask(text(""), "an empty text")


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
    "a token whose content has blanks around it": ("CORE-6.2.1-b", "must", token("conversation", "  check-5\n")),
    "the label of a token": ("D-17", "ours", token("conversation", "check-6", label="main")),
    "a token whose content is an object": ("CORE-6.2.1-b", "should", token("conversation", {"sid": 7, "z": [1]})),
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
    sent = token("conversation", "check-first")
    reply = await target.ask({**sent, "submessages": [HELLO]}, "a token as the first submessage")
    demand(has_token(reply, sent), "the token does not come back")


@check("CORE-6.2-alone", "ECMA-430 6.2", "must", "a token as the first and only submessage is taken and comes back")
async def _only_token(target: HttpTarget) -> None:
    sent = token("conversation", "check-alone")
    reply = await target.ask(sent, "a token as the first and only submessage")
    demand(has_token(reply, sent), "the token does not come back")


@check("CORE-6.2.1", "ECMA-430 6.2.1", "must", "tokens that it made are taken when they come back")
async def _own_tokens(target: HttpTarget) -> None:
    made = (await target.ask(HELLO)).tokens
    if not made:
        raise Skipped("it makes no tokens")
    if any(not isinstance(part.content, str) for part in made):
        raise Skipped("its tokens are not text")
    sent = [token(part.subformat, part.content) for part in made]
    await target.ask(text("Hello again", *sent), "a message with the tokens of the answer before it")


@check("CORE-6.2.2", "ECMA-430 6.2.2", "must", "an authentication token that it did not make does not break it")
async def _foreign_credentials(target: HttpTarget) -> None:
    response = await target.post(text("Hello", token("authentication", "nobody's"), token("authorization", "x")))
    demand(response.status < 500, f"HTTP {response.status}")
    response.message()


@check("D-17-order", "our decision", "ours", "tokens come back in the order in which they were sent")
async def _order(target: HttpTarget) -> None:
    sent = [token(f"conversation_{name}", name) for name in ("zulu", "alpha", "mike")]
    reply = await target.ask(text("Hello", *sent))
    got = [part.content for part in reply.tokens if part.content in ("zulu", "alpha", "mike")]
    demand(got == ["zulu", "alpha", "mike"], f"they came back as {got}")


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


@check("CORE-6.3-tokens", "ECMA-430 6.2, 6.3", "must", "a token in a control message comes back, too")
async def _control_token(target: HttpTarget) -> None:
    sent = token("conversation", "check-control")
    reply = await target.ask(text("What are your policies?", sent, messagetype="control"), "a control message")
    demand(has_token(reply, sent), "the token does not come back")


@check("HTTP-6.1.1", "ECMA-431 6.1", "should", "the upload place that it names is a full address, and takes an upload")
async def _upload_place(target: HttpTarget) -> None:
    reply = await target.ask(text("I have a large file; where can I upload it?", messagetype="control"))
    places = [part.content for part in reply.parts if part.format == "structured" and part.kind == "uri"]
    if not places:
        raise Skipped("it names none")
    place = urlsplit(joined(target.url, str(places[0])))
    demand(str(places[0]).startswith(("http://", "https://")), f"{places[0]!r:.200} is no full HTTP address")
    if place.hostname != urlsplit(target.url).hostname:
        raise Skipped("it is on another host, which was not given to be tested")
    data = b"an upload of sabir check"
    response = await target.send("POST", str(places[0]), data, {"content-type": "application/octet-stream"})
    demand(response.status < 300 or response.status in BY_POLICY, f"it answers HTTP {response.status}")


@check("SEC-P1.3", "ECMA-434 7.1.3", "ours", "asked by control for its ethics and its profile, it answers in words")
async def _statements(target: HttpTarget) -> None:
    for question in ("What is your ethics statement?", "Which ECMA-434 security profile do you meet?"):
        reply = await target.ask(text(question, messagetype="control"), "a control message")
        demand(reply.is_control and reply.text and not reply.is_error, f"no answer to: {question}")


# -- what is sent -----------------------------------------------------------------------------------


@check("CORE-A", "ECMA-430 Annex A", "should", "absent fields are absent, not null")
async def _nulls(target: HttpTarget) -> None:
    response = await target.post(HELLO)
    reply = response.plain()
    nulls = [name for name, value in reply.items() if value is None and name.lower() != "content"]
    parts = reply.get("submessages")
    for index, part in enumerate(parts if isinstance(parts, list) else ()):
        named = part.items() if isinstance(part, dict) else ()
        nulls += [f"submessages[{index}].{name}" for name, value in named if value is None and name != "content"]
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
    "a message without subformat": ("CORE-5.1.3", json.dumps({"format": "structured", "content": "{}"}).encode()),
    "a subformat that is no string": ("CORE-5.1.3", json.dumps({**HELLO, "subformat": 5}).encode()),
    "a submessage without subformat": (
        "CORE-5.2.3", json.dumps(text("x", {"format": "structured", "content": "{}"})).encode()),
    "a submessage without content": (
        "CORE-5.2.4", json.dumps(text("x", {"format": "text", "subformat": "english"})).encode()),
    "a label that is no string": ("CORE-5.2.1", json.dumps(text("x", {**HELLO, "label": {"a": 1}})).encode()),
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


@check("D-05", "our decision", "ours", "a field that it does not know does no harm")
async def _unknown_field(target: HttpTarget) -> None:
    await target.ask({**HELLO, "x-session": "check", "submessages": [{**HELLO, "x-more": [1]}]}, "it")


@check("D-07", "our decision", "ours", "a number as label is taken")
async def _number_label(target: HttpTarget) -> None:
    await target.ask(text("Hello", {**HELLO, "label": 1}), "a number as label")


@check("D-21", "our decision", "ours", "JSON is read whatever its content type says; what is not JSON gets 415")
async def _any_type(target: HttpTarget) -> None:
    read = await target.post(HELLO, content_type="text/plain")
    demand(read.status < 300, f"JSON as text/plain is refused with HTTP {read.status}")
    refused = await target.post(b"Hello", content_type="text/plain")
    demand(refused.status == 415, f"words as text/plain are answered with HTTP {refused.status}")


@check("D-26-minimal", "our decision", "ours", "Prefer: return=minimal gets a message all the same")
async def _minimal(target: HttpTarget) -> None:
    response = await target.post(HELLO, prefer="return=minimal")
    demand(response.status == 200, f"answered with HTTP {response.status}")
    response.message()


@check("D-34", "our decision", "ours", "Accept: text/event-stream gives events, and the last is the whole answer")
async def _events(target: HttpTarget) -> None:
    response = await target.post(HELLO, accept="text/event-stream")
    if not response.headers.get("content-type", "").startswith("text/event-stream"):
        raise Skipped("it does not stream")
    told = [line[5:].strip() for line in response.body.split(b"\n") if line.startswith(b"data:")]
    demand(told, "no event came")
    last = Response(200, response.headers, told[-1]).message()
    demand((last.messagetype or "").lower() != "partial", "the last event is a partial message")


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
    found = await target.send("GET", joined(target.url, place or ""), b"", {"prefer": "wait=5"})
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
