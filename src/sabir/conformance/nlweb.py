"""NLWeb 0.54 and 0.55, tested from outside. ``must`` is the protocol's text; ``ours`` are the decisions W-1 to W-13."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import httpx2
import msgspec

from sabir.errors import PeerUnavailable
from sabir.http.connect_errors import why_no_connection
from sabir.misfits import NOT_JSON

from .base import CheckFailed, CheckOutcome, Declined, Level, Skipped, Suite, Wire, choose, demand, run_checks

BY_POLICY: Final = {401: "authentication required", 403: "access denied"}
MEMBERS: Final = {"answer": ("results", "content"), "elicitation": ("elicitation",), "promise": ("promise",),
                  "failure": ("error",)}  # fmt: skip
TEXT: Final = "pumpkin breakfast"
POLLS: Final = 40  # polls before a promise counts as never ending
CANCELS: Final = 20  # promises that may be kept before one can be cancelled
Json = dict[str, Any]


class NlwebAnswer:
    """A server's response."""

    def __init__(self, status: int, headers: httpx2.Headers, body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body

    @property
    def kind(self) -> str:
        return str(self.headers.get("content-type", "")).partition(";")[0].strip().lower()

    def json(self) -> Json:
        """The NLWeb body.

        Raises:
            Failed: it is not an NLWeb body.
        """
        try:
            value = msgspec.json.decode(self.body)
        except NOT_JSON:
            raise CheckFailed(f"HTTP {self.status} with a body that is not JSON ({self.kind or 'no type'})") from None
        demand(isinstance(value, dict) and isinstance(value.get("_meta"), dict), "the body has no _meta object")
        return dict(value)

    def events(self) -> list[tuple[str, Json]]:
        """Names and data of the events.

        Raises:
            Failed: it is not a stream, or an event is not JSON.
        """
        demand(self.kind == "text/event-stream", f"HTTP {self.status}: expected text/event-stream, not {self.kind}")
        found: list[tuple[str, Json]] = []
        for block in self.body.decode("utf-8", "replace").replace("\r\n", "\n").split("\n\n"):
            lines = [line for line in block.split("\n") if line and not line.startswith(":")]
            data = "\n".join(line[5:].removeprefix(" ") for line in lines if line.startswith("data:"))
            name = next((line[6:].strip() for line in lines if line.startswith("event:")), "")
            if data:
                try:
                    found.append((name, msgspec.json.decode(data)))
                except NOT_JSON:
                    raise CheckFailed(f"the data of an event is not JSON: {data[:80]!r}") from None
        demand(found, "the stream has no event")
        return found


class Target:
    """One server, by the address of its ``/ask``."""

    def __init__(self, client: httpx2.AsyncClient, url: str, wire: Wire) -> None:
        self._client, self.url, self._wire = client, url, wire

    async def send(self, method: str, path: str, body: bytes = b"", **headers: str) -> NlwebAnswer:
        """One request, repeated after a while if the server asks to slow down; a refusal by policy ends the check.

        Raises:
            Declined: 401, 403, or 429 for too long.
        """
        while (answer := await self._once(method, path, body, headers)).status == 429:
            await self._wire.slow_down(answer.headers.get("retry-after"))
        if answer.status in BY_POLICY:
            raise Declined(f"HTTP {answer.status}: {BY_POLICY[answer.status]}")
        return answer

    async def _once(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> NlwebAnswer:
        url = beside(self.url, path) if path else self.url
        named = {"content-type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}}
        shown = f"{method} {urlsplit(url).path}?{urlsplit(url).query}\n".encode() + body
        try:
            response = await self._client.request(method, url, content=body or None, headers=named)
        except httpx2.RequestError as exc:
            self._wire.keep(shown, f"no answer: {exc}".encode())
            raise PeerUnavailable(url, why_no_connection(exc, str(exc) or type(exc).__name__)) from None
        head = f"HTTP {response.status_code} {response.headers.get('content-type', '')}\n\n".encode()
        self._wire.keep(shown, head + response.content)
        return NlwebAnswer(response.status_code, response.headers, response.content)

    async def post(self, body: Json | bytes, path: str = "", **headers: str) -> NlwebAnswer:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.send("POST", path, raw, **headers)

    async def ask(self, **sections: Any) -> Json:
        """A request that must be answered, in one JSON body.

        Raises:
            Failed: it is refused, or the answer is not NLWeb.
        """
        answer = await self.post(request(**sections), accept="application/json")
        demand(answer.status < 300, f"a good request is refused with HTTP {answer.status}: {answer.body[:200]!r}")
        return answer.json()


def beside(url: str, path: str) -> str:
    """Another path of the same server: ``await`` beside ``ask``."""
    parts = urlsplit(url)
    path, _, query = path.partition("?")
    return urlunsplit(parts._replace(path=f"{parts.path.partition('/ask')[0]}/{path}", query=query))


def request(**sections: Any) -> Json:
    prefer = {"streaming": False, **sections.pop("prefer", {})}
    query = {"text": TEXT, **sections.pop("query", {})}
    return {"query": query, "prefer": prefer, **sections}


def kind_of(body: Json) -> str:
    return str(body["_meta"].get("response_type", "")).lower()


def items_of(body: Json) -> list[Json]:
    """Raises Skipped if the answer has no results to check."""
    items = body.get("results") or body.get("structuredData") or []
    found = [item for item in items if isinstance(item, dict) and "summary" not in str(item.get("@type", "")).lower()]
    if not found:
        raise Skipped(f"it has no result for {TEXT!r} to look at")
    return found


def failure(answer: NlwebAnswer, status: int, *codes: str) -> None:
    """Check that the answer is a Failure with this status and one of these codes."""
    body = answer.json()
    demand(kind_of(body) == "failure", f"expected a Failure, got {body['_meta'].get('response_type')!r}")
    error = body.get("error")
    demand(isinstance(error, dict) and error.get("code") and error.get("message"), "error needs a code and a message")
    demand(answer.status == status, f"expected HTTP {status}, got {answer.status}")
    code = body["error"]["code"]
    demand(not codes or code in codes, f"expected the code {' or '.join(codes)}, got {code!r}")


SUITE: Final[Suite[Target]] = Suite("nlweb")
check = SUITE.check

# -- answers --------------------------------------------------------------------------------------


@check("NLWEB-1", "Response", "must", "A question is answered with a body of one of the four kinds")
async def answered(target: Target) -> None:
    body = await target.ask()
    kind = kind_of(body)
    demand(kind in MEMBERS, f"_meta.response_type is {body['_meta'].get('response_type')!r}")
    demand(any(member in body for member in MEMBERS[kind]), f"a {kind} has none of {', '.join(MEMBERS[kind])}")


@check("NLWEB-2", "Response", "must", "_meta has a response type and a version")
async def meta(target: Target) -> None:
    said = (await target.ask())["_meta"]
    demand(isinstance(said.get("version"), str), "_meta.version is missing")
    demand(isinstance(said.get("response_type"), str), "_meta.response_type is missing")


@check("NLWEB-3", "prefer.streaming", "must", "streaming: false gives one JSON body")
async def one_body(target: Target) -> None:
    answer = await target.post(request())
    demand(answer.kind == "application/json", f"the body is {answer.kind}")


@check("NLWEB-4", "prefer.streaming", "must", "streaming: true gives server-sent events with the results")
async def streamed(target: Target) -> None:
    answer = await target.post(request(prefer={"streaming": True, "response_format": "conv_search"}))
    events = answer.events()
    demand(any("_meta" in data for _, data in events), "no event carries _meta")


@check("NLWEB-5", "W-3", "ours", "The default is a stream, unless only JSON is accepted")
async def default_stream(target: Target) -> None:
    body = {"query": {"text": TEXT}}
    demand((await target.post(body, accept="*/*")).kind == "text/event-stream", "by default it does not stream")
    answer = await target.post(body, accept="application/json")
    demand(answer.kind == "application/json", "Accept: application/json is ignored")


@check("NLWEB-6", "W-2", "ours", "Events are named, and each can be read without its name")
async def named_events(target: Target) -> None:
    answer = await target.post(request(prefer={"streaming": True, "response_format": "conv_search"}))
    events = answer.events()
    demand(events[0][0] == "start" and "_meta" in events[0][1], "the first event is not start with _meta")
    demand(events[-1][0] in ("complete", "error"), f"the last event is {events[-1][0]!r}, not complete")
    for name, data in events:
        demand(name != "result" or data.get("results") == [data.get("item")], "a result event lacks item or results")


@check("NLWEB-7", "response_format", "must", "conv_search gives results")
async def conv_search(target: Target) -> None:
    body = await target.ask(prefer={"response_format": "conv_search"})
    demand(kind_of(body) != "answer" or isinstance(body.get("results"), list), "the answer has no results list")


@check("NLWEB-8", "response_format", "must", "chatgpt_app gives content and structuredData")
async def chatgpt_app(target: Target) -> None:
    body = await target.ask(prefer={"response_format": "chatgpt_app"})
    if kind_of(body) == "answer":
        demand(isinstance(body.get("content"), list), "the answer has no content list")
        demand(isinstance(body.get("structuredData"), list), "the answer has no structuredData list")
        demand(all(b.get("type") == "text" and "text" in b for b in body["content"]), "content is not text blocks")


@check("NLWEB-9", "W-4", "ours", "The default format is chatgpt_app, and _meta names the requested format")
async def default_format(target: Target) -> None:
    demand("structuredData" in await target.ask(), "by default the format is not chatgpt_app")
    body = await target.ask(prefer={"response_format": "conversational_search"})
    named = body["_meta"].get("response_format")
    demand(kind_of(body) != "answer" or named == "conversational_search", f"_meta.response_format is {named!r}")


@check("NLWEB-10", "Result", "must", "Each result has a type and a name")
async def typed(target: Target) -> None:
    for item in items_of(await target.ask(prefer={"response_format": "conv_search"})):
        demand(item.get("@type"), "a result has no @type")
        demand(item.get("name") or item.get("headline"), "a result has no name")


@check(
    "NLWEB-11",
    "Result",
    "should",
    "Each result has an @id, a site and a score from 0 to 100 (clients drop other results)",
)
async def kept_by_clients(target: Target) -> None:
    for item in items_of(await target.ask(prefer={"response_format": "conv_search"})):
        score = item.get("score")
        demand(isinstance(item.get("@id"), str) and isinstance(item.get("site"), str), "a result has no @id or site")
        demand(isinstance(score, int | float) and 0 <= score <= 100, f"a score is {score!r}")


@check("NLWEB-12", "Grounding", "should", "Each result says where it comes from")
async def grounded(target: Target) -> None:
    for item in items_of(await target.ask(prefer={"response_format": "conv_search"})):
        grounding = item.get("grounding")
        demand(isinstance(grounding, dict) and grounding.get("source_urls"), f"{item.get('name')!r} has no source")


@check("NLWEB-13", "prefer.mode", "should", "The answer to mode 'list, summarize' has a summary at its end")
async def summary(target: Target) -> None:
    body = await target.ask(prefer={"response_format": "conv_search", "mode": "list, summarize"})
    items_of(body)
    last = body["results"][-1]
    demand(last.get("@type") in ("Summary", "SearchSummary") and last.get("text"), "the last result is no summary")


# -- requests -------------------------------------------------------------------------------------


@check("NLWEB-14", "Query", "must", "Any further attribute of query is a filter, and none is rejected")
async def filters(target: Target) -> None:
    await target.ask(query={"itemType": "Recipe", "location": "Idaho", "price": "less than $20", "x-own": "5"})


@check("NLWEB-15", "W-5", "ours", "A filter that cannot be applied is reported")
async def ignored(target: Target) -> None:
    body = await target.ask(query={"wavelengthOfNothing": "over 500 nm"})
    demand("wavelengthOfNothing" in str(body["_meta"].get("ignored_filters")), "_meta.ignored_filters does not name it")


@check("NLWEB-16", "Context", "must", "Context with prev, text and memory is read; memory may be one string")
async def context(target: Target) -> None:
    await target.ask(context={"@type": "ConversationalContext", "prev": ["muffins"], "text": "…", "memory": ["vegan"]})
    await target.ask(context={"memory": "vegetarian"})


@check("NLWEB-17", "session_context", "must", "The session context comes back unchanged")
async def session(target: Target) -> None:
    sent = {"conversation_id": "conv_98765", "state_token": "encrypted_blob_xyz"}
    said = (await target.ask(meta={"session_context": sent}))["_meta"].get("session_context")
    demand(isinstance(said, dict), "_meta has no session_context")
    demand(said is not None and sent.items() <= said.items(), f"it came back as {said!r}")


@check("NLWEB-18", "Failure", "must", "Broken JSON is a Failure, not a server error")
async def broken_json(target: Target) -> None:
    failure(await target.post(b'{"query": ', accept="application/json"), 400, "INVALID_REQUEST")


@check("NLWEB-19", "Failure", "must", "A request without query.text is a Failure")
async def no_text(target: Target) -> None:
    bodies: tuple[Json, ...] = ({}, {"query": {}})
    for body in bodies:
        failure(await target.post({**body, "prefer": {"streaming": False}}), 400, "MISSING_FIELD", "INVALID_REQUEST")


@check("NLWEB-20", "Failure", "must", "A Failure in a stream has _meta and error")
async def failure_in_stream(target: Target) -> None:
    body = {"query": {}, "prefer": {"streaming": True}}
    events = (await target.post(body, accept="text/event-stream")).events()
    demand(any("error" in data for _, data in events), "no event carries the error")
    demand(any("error" in d and "_meta" in d for _, d in events), "_meta and error come in different events")


@check("NLWEB-21", "W-7", "ours", "A flat request, as before 0.54, is rejected, and the error shows its nested form")
async def flat(target: Target) -> None:
    answer = await target.post({"query": "muffins", "site": "a.example", "streaming": False}, accept="application/json")
    failure(answer, 400, "INVALID_REQUEST")
    message = answer.json()["error"]["message"]
    demand('"text"' in message and "a.example" in message, "the message does not show the nested form")


@check("NLWEB-22", "W-6", "ours", "An unknown version, format or mode is rejected with a code of its own")
async def unsupported(target: Target) -> None:
    failure(await target.post(request(meta={"api_version": "9.9"})), 400, "UNSUPPORTED_VERSION")
    failure(await target.post(request(prefer={"response_format": "xml"})), 400, "UNSUPPORTED_FORMAT")
    failure(await target.post(request(prefer={"mode": "sing"})), 400, "UNSUPPORTED_MODE")


@check("NLWEB-23", "W-1", "ours", "Version 0.55 is answered with response types in lower case")
async def version_0_55(target: Target) -> None:
    body = await target.ask(meta={"version": "0.55"})
    said = body["_meta"]
    demand(said.get("version") == "0.55", f"it answers in version {said.get('version')!r}")
    demand(said.get("response_type") in MEMBERS, f"response_type is {said.get('response_type')!r}")


@check("NLWEB-24", "W-8", "ours", "GET accepts words, dotted keys, and JSON")
async def by_get(target: Target) -> None:
    for query in ("query=soup", "query.text=soup", "query=%7B%22text%22%3A%22soup%22%7D"):
        answer = await target.send("GET", f"ask?{query}&prefer.streaming=false", accept="application/json")
        demand(answer.status == 200, f"?{query} is refused with HTTP {answer.status}")
        answer.json()


@check("NLWEB-25", "W-13", "ours", "A site that a caller names is not fetched")
async def not_fetched(target: Target) -> None:
    if urlsplit(target.url).hostname not in ("127.0.0.1", "localhost", "::1"):
        raise Skipped("it can only be seen from the same machine")
    called = asyncio.Event()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        called.set()
        writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        for site in (f"http://{host}:{port}/", f"{host}:{port}"):
            await target.post(request(query={"site": site}), accept="application/json")
    demand(not called.is_set(), "it connected to the site that was named")


# -- promises -------------------------------------------------------------------------------------


@check("NLWEB-26", "Await", "must", "/await without a token, or with an unknown action, is a Failure")
async def bad_await(target: Target) -> None:
    failure(await target.post({"action": "checkin"}, "await"), 400, "MISSING_FIELD")
    failure(await target.post({"promise_token": "t", "action": "eat"}, "await"), 400, "INVALID_ACTION")


@check("NLWEB-27", "Await", "must", "An unknown promise is not answered with a promise")
async def unknown_promise(target: Target) -> None:
    answer = await target.post({"promise_token": "never-given", "action": "checkin"}, "await")
    demand(kind_of(answer.json()) == "failure", "an invented token gets another promise")
    failure(answer, 404, "UNKNOWN_PROMISE")


async def promised(target: Target) -> str:
    answer = await target.post(request(), prefer="respond-async")
    if answer.status != 202:
        raise Skipped("it does not promise on Prefer: respond-async")
    token = answer.json().get("promise", {}).get("token")
    demand(isinstance(token, str) and len(token) >= 22, "the promise has no token that cannot be guessed")
    return str(token)


@check("NLWEB-28", "W-9", "ours", "A promise leads to its answer")
async def kept(target: Target) -> None:
    token = await promised(target)
    for _ in range(POLLS):
        body = (await target.post({"promise_token": token, "action": "checkin"}, "await")).json()
        if kind_of(body) != "promise":
            demand(kind_of(body) in ("answer", "elicitation"), f"it ends as a {kind_of(body)}")
            return
        await asyncio.sleep(0.1)
    raise CheckFailed(f"after {POLLS} polls it is still a promise")


@check("NLWEB-29", "W-9", "ours", "A promise can be cancelled")
async def cancelled(target: Target) -> None:
    for _ in range(CANCELS):
        token = await promised(target)
        body = (await target.post({"promise_token": token, "action": "cancel"}, "await")).json()
        if kind_of(body) not in ("answer", "elicitation"):
            demand(body.get("error", {}).get("code") == "CANCELLED", f"cancelling gives {body}")
            return
    raise Skipped(f"{CANCELS} promises were kept before they could be cancelled")


# -- discovery ------------------------------------------------------------------------------------


@check("NLWEB-30", "Agent finder", "should", "/who lists the agents that suit a query, and /sites lists the sites")
async def discovery(target: Target) -> None:
    answer = await target.post({"query": {"text": TEXT}}, "who")
    demand(answer.status == 200, f"/who gives HTTP {answer.status}")
    for row in answer.json().get("results", []):
        demand({"protocol", "endpoint", "score", "definition"} <= row.keys(), f"a row of /who has only {list(row)}")
    sites = await target.send("GET", "sites")
    demand(sites.status == 200 and b'"sites"' in sites.body, f"/sites gives HTTP {sites.status}")


# -- running --------------------------------------------------------------------------------------


def end_point(url: str) -> str:
    """The address of ``/ask``."""
    parts = urlsplit(url)
    return url if parts.path.strip("/") else urlunsplit(parts._replace(path="/ask"))


async def run_suite(
    client: httpx2.AsyncClient, url: str, *, level: Level, pause: float, seconds: float, on_outcome: Any
) -> list[CheckOutcome]:
    """All checks against one server.

    Raises:
        PeerUnavailable: no connection.
    """
    try:
        await client.get(end_point(url))
    except httpx2.ConnectError as exc:
        raise PeerUnavailable(url, why_no_connection(exc)) from None
    except httpx2.HTTPError:  # the checks report what is wrong
        pass

    async def connect(wire: Wire) -> Target:
        return Target(client, end_point(url), wire)

    return await run_checks(choose(SUITE.checks, level), connect, pause=pause, seconds=seconds, on_outcome=on_outcome)
