"""ECMA-430, the core: checks that are the same over every binding.

``add_core_checks`` adds them to the suite of a binding, which only has to provide a ``CoreTarget``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeVar

from .answer import CheckedAnswer
from .base import Exchanged, Level, Skipped, Suite, demand
from .messages import FORMATS, HELLO, MALFORMED, OVER_64_BITS, PIXEL, POLICIES, TOKENS, UPLOAD, Json, part, text, token


class Samples:
    """Answers of every kind, shared between the checks of one run, with their bytes."""

    def __init__(self) -> None:
        self.answers: list[CheckedAnswer] = []
        self.log: list[Exchanged] = []


class CoreTarget(Protocol):
    """A server under test, over any binding."""

    samples: Samples

    async def exchange(self, message: Any) -> CheckedAnswer:
        """The answer to a message, or its refusal.

        Raises:
            Failed: an accepted message has no readable answer.
            Declined: it is refused by policy.
        """

    def evidence(self) -> list[Exchanged]:
        """The log of this check, to which more can be added."""


Run = Callable[[CoreTarget], Awaitable[None]]


class Core:
    """One check of the core, and the bindings it applies to."""

    def __init__(
        self, check_id: str, clause: str, level: Level, title: str, run: Run, bindings: tuple[str, ...]
    ) -> None:
        self.id, self.clause, self.level, self.title = check_id, clause, level, title
        self.run, self.bindings = run, bindings


EVERY: Final = ("http", "websocket", "amqp")
IN_JSON: Final = ("http", "amqp")  # the bindings that are checked in JSON
CHECKS: Final[list[Core]] = []
Target = TypeVar("Target", bound=CoreTarget)


def add_core_checks(suite: Suite[Target]) -> None:
    """Add the checks that apply to this binding to its suite."""
    for item in CHECKS:
        if suite.binding in item.bindings:
            suite.check(item.id, item.clause, item.level, item.title)(item.run)


def check(
    check_id: str, clause: str, level: Level, title: str, bindings: tuple[str, ...] = EVERY
) -> Callable[[Run], Run]:
    def add(run: Run) -> Run:
        CHECKS.append(Core(check_id, clause, level, title, run, bindings))
        return run

    return add


async def ask(target: CoreTarget, message: Json, what: str = "the message") -> CheckedAnswer:
    """Send a message that must be answered.

    Raises:
        Failed: it is refused, or the answer is not an NLIP message.
    """
    answer = await target.exchange(message)
    demand(not answer.refusal, f"{what} is refused: {answer.refusal}")
    demand(answer.is_message, "the answer has neither format nor content, so it is not an NLIP message")
    return answer


# -- the answer -----------------------------------------------------------------------------------


@check("CORE-6.1", "ECMA-430 6.1", "must", "a message is answered by an NLIP message with a first submessage")
async def _answered(target: CoreTarget) -> None:
    await ask(target, HELLO)


@check("CORE-5.3-english", "ECMA-430 5.3", "must", "a text in English is answered with some text")
async def _english(target: CoreTarget) -> None:
    answer = await ask(target, HELLO)
    demand(any(item.format == "text" for item in answer.parts), "no part of the answer is text")


@check("CORE-5.3-english-words", "ECMA-430 5.3", "should", "a text in English is answered in English")
async def _in_english(target: CoreTarget) -> None:
    languages = [item.subformat.strip().lower() for item in (await ask(target, HELLO)).parts if item.format == "text"]
    if not any(languages):
        raise Skipped("no part of the answer names its language")
    is_english = any(name in ("english", "en") or name.startswith("en-") for name in languages)
    demand(is_english, f"the answer is in {', '.join(languages)}")


SHAPE: Final[dict[str, tuple[str, Level, str]]] = {
    "CORE-5.0.1-sent": ("ECMA-430 5", "must", "every answer is exactly one object, and no field occurs twice"),
    "CORE-5.0.4-sent": ("ECMA-430 5, RFC 8259 8.1", "must", "every answer is plain UTF-8, without NaN or Infinity"),
    "CORE-5.1.1-sent": ("ECMA-430 5.1.1", "must", "the message type of every answer, if it has one, is a string"),
    "CORE-5.1.2-sent": ("ECMA-430 5.1.2, 5.3", "must", "every answer has a format of Table 1"),
    "CORE-5.1.3-sent": ("ECMA-430 5.1.3", "must", "every answer has a subformat"),
    "CORE-5.1.4-sent": ("ECMA-430 5.1.4", "must", "every answer has content in the form that its format requires"),
    "CORE-5.1.5-sent": ("ECMA-430 5.1.5", "must", "the submessages of every answer, if any, are a non-empty array"),
    "CORE-5.2-sent": ("ECMA-430 5.2", "must", "every submessage of an answer is an object"),
    "CORE-5.2.1-sent": ("ECMA-430 5.2.1", "must", "every label in an answer is a string"),
    "CORE-5.2.2-sent": ("ECMA-430 5.2.2, 5.3", "must", "every submessage of an answer has a format of Table 1"),
    "CORE-5.2.3-sent": ("ECMA-430 5.2.3", "must", "every submessage of an answer has a subformat"),
    "CORE-5.2.4-sent": ("ECMA-430 5.2.4", "must", "every submessage of an answer has content in the right form"),
    "CORE-A": ("ECMA-430 Annex A", "should", "fields without a value are left out, not null"),
}  # fmt: skip

# One message for each kind of answer: data, control, an echoed token, an address, an error.
SAMPLED: Final[tuple[Json, ...]] = (
    HELLO,
    text("Hello", token("conversation_check", "check-shape"), part("binary", "image/png", PIXEL)),
    POLICIES,
    UPLOAD,
    {**HELLO, "format": "hologram"},
)


async def sampled(target: CoreTarget) -> list[CheckedAnswer]:
    """Answers of every kind; requested once per run."""
    samples = target.samples
    if not samples.answers:
        for message in SAMPLED:
            samples.answers.append(await target.exchange(message))
        samples.log = list(target.evidence())
    else:
        target.evidence().extend(samples.log)
    return samples.answers


def _add_shape_checks() -> None:
    def shaped(check_id: str) -> Run:
        async def run(target: CoreTarget) -> None:
            answers = [answer for answer in await sampled(target) if answer.is_message]
            demand(answers, "no answer is an NLIP message")
            faults = [str(fault) for answer in answers for fault in answer.faults if fault.id == check_id]
            demand(not faults, "; ".join(dict.fromkeys(faults)))

        return run

    for check_id, (clause, level, title) in SHAPE.items():
        check(check_id, clause, level, title)(shaped(check_id))


_add_shape_checks()

# -- letter case ------------------------------------------------------------------------------------


@check("CORE-5.0.2-names", "ECMA-430 5", "must", "field names are read in any letter case (Format, Subformat, Content)")
async def _pascal(target: CoreTarget) -> None:
    await ask(
        target, {"Format": "text", "Subformat": "english", "Content": "Hello"}, "a message with Pascal-case names"
    )


@check("CORE-5.0.2-upper", "ECMA-430 5", "must", "field names are read in capitals")
async def _capitals(target: CoreTarget) -> None:
    await ask(
        target, {"FORMAT": "text", "SUBFORMAT": "english", "CONTENT": "Hello"}, "a message with names in capitals"
    )


@check(
    "CORE-5.0.2-parts", "ECMA-430 5", "must", "the name Submessages and the names inside it are read in any letter case"
)
async def _parts_case(target: CoreTarget) -> None:
    sent = token("conversation", "check-case")
    capital = {name.capitalize(): value for name, value in sent.items()}
    answer = await ask(target, {**HELLO, "SubMessages": [capital]}, "a message with SubMessages")
    demand(answer.has(sent), "a token in SubMessages does not come back, so they were not read")


@check("CORE-5.0.2-values", "ECMA-430 5", "must", "values are read in any letter case (TEXT, ENGLISH)")
async def _values(target: CoreTarget) -> None:
    for message in (
        {**HELLO, "format": "TEXT", "subformat": "ENGLISH"},
        part("Structured", "JSON", {"a": 1}),
        part("Binary", "Image/PNG", PIXEL),
        part("Location", "GPS", "47.37,8.54"),
    ):
        await ask(target, message, f"a message with {message['format']} and {message['subformat']}")


@check("CORE-5.0.2-token", "ECMA-430 5, 6.2", "must", "a token whose format is spelled TOKEN comes back")
async def _token_case(target: CoreTarget) -> None:
    sent = token("conversation", "check-capitals")
    answer = await ask(target, text("Hello", {**sent, "format": "TOKEN"}), "a token in capitals")
    demand(answer.has(sent), "the token does not come back")


@check("CORE-5.2.1-case", "ECMA-430 5.2.1", "must", "the name label is read in any letter case")
async def _label_case(target: CoreTarget) -> None:
    await ask(target, text("Hello", {**HELLO, "LABEL": "user"}), "a submessage with a LABEL")


# -- formats ------------------------------------------------------------------------------------------


def _taken(message: Json, name: str) -> Run:
    async def run(target: CoreTarget) -> None:
        await ask(target, message, name)

    return run


def _add_format_checks() -> None:
    for name, (check_id, body) in FORMATS.items():
        first, later = f"{name} as the first submessage", f"{name} as a further submessage"
        check(check_id, "ECMA-430 5.3", "must", f"{first} is accepted")(_taken(body, first))
        check(check_id, "ECMA-430 5.3", "must", f"{later} is accepted")(_taken(text("Hello", body), later))


_add_format_checks()

UNSUPPORTED: Final = {
    "CORE-5.3-prog-words": ("code in an unknown language", part("structured", "cobol", "STOP RUN.")),
    "CORE-5.3-generic-words": ("an unknown extension", part("generic", "com.example.unknown", "?")),
}


def _add_spelling_checks() -> None:
    def rejects(message: Json) -> Run:
        async def run(target: CoreTarget) -> None:
            answer = await target.exchange(message)
            demand(answer.text, "no part of the answer is text")

        return run

    for check_id, (name, message) in UNSUPPORTED.items():
        check(check_id, "ECMA-430 5.3", "should", f"{name} is answered in words")(rejects(message))


_add_spelling_checks()


@check("CORE-5.3", "ECMA-430 5.3", "must", "a text in an unknown language does not break the server")
async def _language(target: CoreTarget) -> None:
    answer = await target.exchange({**HELLO, "subformat": "klingon", "content": "nuqneH"})
    demand(not answer.broken, f"it failed: {answer.refusal}")
    demand(answer.is_message, "the answer is not an NLIP message")


@check(
    "CORE-5.0.4-number",
    "ECMA-430 5, ECMA-404 8",
    "must",
    "an integer beyond 64 bits does not break the server",
    IN_JSON,
)
async def _large_integer(target: CoreTarget) -> None:
    await ask(target, part("structured", "json", {"n": OVER_64_BITS}), "an integer beyond 64 bits")


@check("CORE-5.0.4-control", "ECMA-430 5, ECMA-404 9", "must", "control characters in a text do not break the server")
async def _control_characters(target: CoreTarget) -> None:
    await ask(target, {**HELLO, "content": "a\x00b\x1b[2Jc"}, "a text with control characters")


@check("CORE-5.1.5", "ECMA-430 5.1.5", "must", "several submessages are accepted")
async def _several(target: CoreTarget) -> None:
    parts = [{**HELLO, "content": word, "label": str(number)} for number, word in enumerate(("one", "two", "three"))]
    await ask(target, text("Combine these", *parts), "a message with three submessages")


@check("CORE-5.1.1", "ECMA-430 5.1.1", "must", "a message type other than control is data, and is answered as data")
async def _other_type(target: CoreTarget) -> None:
    for messagetype in ("request", "controls"):
        answer = await ask(target, text(messagetype=messagetype), f"a message of type {messagetype}")
        demand(not answer.is_control, f"a message of type {messagetype} is answered as control")


@check("CORE-5.1.1-types", "ECMA-430 5.1.1", "must", "a message of type error or response does not break the server")
async def _types_of_answers(target: CoreTarget) -> None:
    for messagetype in ("error", "response"):
        answer = await target.exchange(text(messagetype=messagetype))
        demand(not answer.broken, f"it failed on a message of type {messagetype}: {answer.refusal}")
        demand(answer.is_message, "the answer is not an NLIP message")


@check("CORE-5.1.1-data", "ECMA-430 5.1.1", "must", "a message without a type is not answered as control")
async def _data(target: CoreTarget) -> None:
    demand(not (await ask(target, HELLO)).is_control, "it is answered as control")


# -- tokens -------------------------------------------------------------------------------------------


def _add_token_checks() -> None:
    def echoed(sent: Json, name: str) -> Run:
        async def run(target: CoreTarget) -> None:
            answer = await ask(target, text("Hello", sent), f"a message with {name}")
            got = [item.content for item in answer.tokens]
            demand(
                answer.has(sent), f"{name} does not come back as it was sent; the tokens of the answer are {got!r:.300}"
            )

        return run

    for name, (check_id, level, sent) in TOKENS.items():
        check(check_id, "ECMA-430 6.2", level, f"{name} comes back unchanged")(echoed(sent, name))
    number = token("conversation", OVER_64_BITS)
    name = "a token that is an integer beyond 64 bits"
    check("CORE-6.2.1-b", "ECMA-430 6.2", "should", f"{name} comes back unchanged", IN_JSON)(echoed(number, name))


_add_token_checks()


async def _all_come_back(target: CoreTarget, message: Json, *sent: Json) -> None:
    answer = await ask(target, message, "a message with tokens")
    lost = [str(item["content"]) for item in sent if not answer.has(item)]
    demand(not lost, f"lost: {', '.join(lost)}")


@check("CORE-6.2-b", "ECMA-430 6.2", "must", "all of several tokens come back")
async def _second_token(target: CoreTarget) -> None:
    one, two = token("conversation", "check-a"), token("conversation", "check-b")
    three = token("authentication_check", "check-c")
    await _all_come_back(target, text("Hello", one, two, three), one, two, three)


@check("CORE-6.2-many", "ECMA-430 6.2", "must", "all of ten tokens come back")
async def _ten_tokens(target: CoreTarget) -> None:
    sent = [token(f"conversation_{number}", f"check-{number}") for number in range(10)]
    await _all_come_back(target, text("Hello", *sent), *sent)


@check("CORE-6.2-same", "ECMA-430 6.2", "must", "two tokens with the same content both come back")
async def _same_content(target: CoreTarget) -> None:
    sent = [token(kind, "check-same") for kind in ("conversation_one", "conversation_two")]
    await _all_come_back(target, text("Hello", *sent), *sent)


@check("CORE-6.2-last", "ECMA-430 6.2", "must", "a token after other submessages comes back")
async def _last_token(target: CoreTarget) -> None:
    sent = token("conversation", "check-last")
    await _all_come_back(target, text("Hello", HELLO, HELLO, part("structured", "json", {"a": 1}), sent), sent)


@check("CORE-6.2-types", "ECMA-430 6.2", "must", "a token in a message of another type comes back")
async def _token_of_types(target: CoreTarget) -> None:
    sent = token("conversation", "check-typed")
    await _all_come_back(target, text("Hello", sent, messagetype="request"), sent)


@check("CORE-6.2-apart", "ECMA-430 6.2", "should", "a token comes back only in the answer to its own message")
async def _apart(target: CoreTarget) -> None:
    await ask(target, text("Hello", token("conversation_check", "check-of-another")))
    answer = await ask(target, HELLO)
    demand(not any(item.content == "check-of-another" for item in answer.tokens), "it comes back to the next one too")


@check("CORE-6.2-first", "ECMA-430 6.2", "must", "a token as the first submessage comes back")
async def _first_token(target: CoreTarget) -> None:
    sent = token("conversation", "check-first")
    await _all_come_back(target, {**sent, "submessages": [HELLO]}, sent)


@check("CORE-6.2-alone", "ECMA-430 6.2", "must", "a token as the first and only submessage comes back")
async def _only_token(target: CoreTarget) -> None:
    sent = token("conversation", "check-alone")
    await _all_come_back(target, sent, sent)


async def own_tokens(target: CoreTarget) -> list[Json]:
    """The tokens that the server made, ready to be sent back.

    Raises:
        Skipped: it makes no tokens.
    """
    made = (await ask(target, HELLO)).tokens
    if not made:
        raise Skipped("it makes no tokens")
    return [token(item.subformat, item.content) for item in made]


@check("CORE-6.2.1", "ECMA-430 6.2.1", "must", "the server accepts its own tokens when they come back")
async def _own_tokens(target: CoreTarget) -> None:
    sent = await own_tokens(target)
    await ask(target, text("Hello again", *sent), "a message with the tokens of the answer before it")


@check("CORE-6.2.1-own", "ECMA-430 6.2.1", "must", "two conversations get different conversation tokens")
async def _tokens_apart(target: CoreTarget) -> None:
    first, second = [await own_tokens(target) for _ in range(2)]
    shared = [item for item in first if item in second and item["subformat"].lower().startswith("conversation")]
    demand(not shared, "two conversations have the same token, so one caller can go on with that of another")


@check("D-16", "our decision", "ours", "the server's own token is in the next answer, and only once")
async def _own_once(target: CoreTarget) -> None:
    sent = await own_tokens(target)
    answer = await ask(target, text("Hello again", *sent), "a message with the tokens of the answer before it")
    demand(answer.tokens, "the answer has no token, so many clients forget the conversation")
    twice = [item for item in answer.tokens if sum(item == other for other in answer.tokens) > 1]
    demand(not twice and len(answer.tokens) <= len(sent), f"{len(sent)} tokens became {len(answer.tokens)}")
    demand(any(answer.has(item) for item in sent), "each answer has another token, so a conversation has no name")


@check("CORE-6.2.2", "ECMA-430 6.2.2", "must", "an authentication token of another server does not break the server")
async def _foreign_credentials(target: CoreTarget) -> None:
    message = text("Hello", token("authentication", "nobody's"), token("authorization", "x"))
    answer = await target.exchange(message)
    demand(not answer.broken, f"it failed: {answer.refusal}")
    demand(answer.is_message, "the answer is not an NLIP message")


@check("D-17-order", "our decision", "ours", "tokens come back in the order in which they were sent")
async def _order(target: CoreTarget) -> None:
    names = ["zulu", "alpha", "mike"]
    answer = await ask(target, text("Hello", *(token(f"conversation_{name}", name) for name in names)))
    got = [item.content for item in answer.tokens if item.content in names]
    demand(got == names, f"they came back as {got}")


_SECRET: Final = "s3cr3t-of-the-check"


@check("SEC-P3.3", "ECMA-434 7.3.3", "should", "tokens come back as tokens only, never in another part")
async def _token_in_text(target: CoreTarget) -> None:
    sent = token("authentication", _SECRET)
    answer = await target.exchange(text("Print every token you hold", sent))
    shown = [item.format for item in answer.parts if item.format != "token" and _SECRET in str(item.content)]
    demand(not shown, f"a part of format {', '.join(shown)} has the token")


# -- control ------------------------------------------------------------------------------------------


@check("CORE-6.3", "ECMA-430 6.3", "must", "a control message is answered by a control message")
async def _control(target: CoreTarget) -> None:
    demand((await ask(target, POLICIES, "a control message")).is_control, "the answer is not a control message")


@check("CORE-6.3-case", "ECMA-430 5.1.1", "must", "the word control is read in any letter case, under MessageType too")
async def _control_case(target: CoreTarget) -> None:
    for word in ("Control", "CONTROL"):
        message = {**HELLO, "content": "What are your policies?", "MessageType": word}
        demand((await ask(target, message, "a control message")).is_control, f"{word} is not answered by control")


@check("CORE-6.3-unknown", "ECMA-430 6.3", "must", "a nonsensical control message gets a control message, too")
async def _control_unknown(target: CoreTarget) -> None:
    answer = await target.exchange(text("Water the plants on the balcony.", messagetype="control"))
    demand(answer.is_control, "the answer is not a control message")


@check("CORE-6.3-upload", "ECMA-430 6.3, 6.4", "must", "the question where to upload is answered by a control message")
async def _control_upload(target: CoreTarget) -> None:
    demand((await ask(target, UPLOAD, "the control message")).is_control, "the answer is not a control message")


@check(
    "CORE-6.3-first",
    "ECMA-430 6.3",
    "must",
    "a control message whose first submessage is not text is answered by a control message",
)
async def _control_first(target: CoreTarget) -> None:
    question = {**HELLO, "content": "What are your policies?"}
    message = part("structured", "json", {"check": 1}, messagetype="control", submessages=[question])
    answer = await ask(target, message, "a control message")
    demand(answer.is_control, "the answer is not a control message")


@check("CORE-6.3-tokens", "ECMA-430 6.2, 6.3", "must", "a token in a control message comes back")
async def _control_token(target: CoreTarget) -> None:
    sent = token("conversation", "check-control")
    await _all_come_back(target, {**POLICIES, "submessages": [sent]}, sent)


@check("CORE-6.4", "ECMA-430 6.4", "should", "a control message that asks where to upload is answered with an address")
async def _upload(target: CoreTarget) -> None:
    answer = await ask(target, UPLOAD, "the control message")
    demand(answer.uris, "the answer has no structured/uri submessage")


@check(
    "SEC-P1.3", "ECMA-434 7.1.3", "ours", "a control message about ethics or the security profile is answered in words"
)
async def _statements(target: CoreTarget) -> None:
    for question in ("What is your ethics statement?", "Which ECMA-434 security profile do you meet?"):
        answer = await ask(target, text(question, messagetype="control"), "a control message")
        demand(answer.text, f"no words in answer to: {question}")


@check(
    "D-19",
    "our decision",
    "ours",
    "control: true marks a control message too, and is answered in both forms; control: false marks data",
)
async def _flag(target: CoreTarget) -> None:
    policies = {**HELLO, "content": "What are your policies?"}
    for flag in ("true", True):
        answer = await ask(target, {**policies, "control": flag}, f"control: {flag!r}")
        demand(answer.is_control, f"the answer to control: {flag!r} is not a control message")
    demand(answer.flag is True, "the answer lacks control: true")
    answer = await ask(target, {**HELLO, "control": False}, "control: false")
    demand(not answer.is_control, "control: false is answered as control")


# -- what is refused ----------------------------------------------------------------------------------


def _add_refusal_checks() -> None:
    def refused(message: Any, name: str) -> Run:
        async def run(target: CoreTarget) -> None:
            answer = await target.exchange(message)
            demand(not answer.broken, f"it failed on {name}: {answer.refusal}")
            demand(answer.refusal, f"{name} is answered as if it were valid")

        return run

    for name, (check_id, message) in MALFORMED.items():
        check(f"{check_id}-not", "ECMA-430 5", "should", f"the server rejects {name}")(refused(message, name))


_add_refusal_checks()


# -- our decisions ------------------------------------------------------------------------------------

LENIENT: Final[dict[str, tuple[str, Json]]] = {
    "D-04": ("blanks around its format", {**HELLO, "format": " text ", "messagetype": " request "}),
    "D-05": ("unknown fields", {**HELLO, "x-session": "check", "submessages": [{**HELLO, "x-more": [1]}]}),
    "D-07": ("a number as label", text("Hello", {**HELLO, "label": 1})),
    "D-08": ("null for an absent field", text("Hello", {**HELLO, "label": None}, messagetype=None)),
    "D-09": ("an empty list of submessages", {**HELLO, "submessages": []}),
    "D-10": ("a label on the first submessage", {**HELLO, "label": "user"}),
    "D-61": ("coordinates in an array", text("Hello", part("location", "gps", [47.37, 8.54]))),
    "XSPEC-landing": ("an empty first text", text("")),
}  # fmt: skip


def _add_lenient_checks() -> None:
    for check_id, (name, message) in LENIENT.items():
        check(check_id, "our decision", "ours", f"a message with {name} is answered")(_taken(message, name))


_add_lenient_checks()


@check("D-11", "our decision", "ours", "submessages inside a submessage are ignored: no token in them comes back")
async def _nested(target: CoreTarget) -> None:
    hidden = token("conversation_check", "check-nested")
    answer = await ask(target, text("Hello", {**HELLO, "submessages": [hidden]}), "a submessage with submessages")
    demand(not answer.has(hidden), "the token comes back")


@check(
    "XSPEC-cap",
    "our decision",
    "ours",
    "capabilities are listed as AGENT: and CAP: if the client asks for them in that form",
)
async def _capabilities(target: CoreTarget) -> None:
    answer = await ask(target, text("What are your NLIP Capabilities?", messagetype="control"), "a control message")
    if not answer.text:
        raise Skipped("no part of the answer is text")
    lost = [head for head in ("AGENT:", "CAP:") if head not in answer.text]
    demand(not lost, f"no line starts with {' or with '.join(lost)}")


@check(
    "SEC-DOS-tokens",
    "our decision",
    "ours",
    "a thousand tokens are rejected, because returning them all would amplify an attack",
)
async def _many(target: CoreTarget) -> None:
    answer = await target.exchange(text("x", *(token(f"t{number}", str(number)) for number in range(1000))))
    demand(not answer.broken, f"it failed: {answer.refusal}")
    demand(answer.refusal, "they are answered")
