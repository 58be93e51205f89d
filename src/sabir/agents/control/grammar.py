"""What a sentence of tags asks for: acts, which are read strictly, and topics, which are read loosely. Pure.

An act changes something. It is read only from a sentence in which *every* word is known and which as a whole has the
form of a request ("erase this conversation"), of a polite request ("could you erase …?") or of a statement about
oneself ("I want to erase …"). Negations, conditions, reports, modals and questions contain words that fit no such form,
so they never act. A topic only returns information, so one known phrase is enough.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from .lexicon import Sentence

_CHARS: Final[dict[str, str]] = {}  # one private-use character per tag
_NAME: Final = re.compile(r"[a-z_]+")

Values = Callable[[Sentence], Mapping[str, Any]]


def _char(name: str) -> str:
    return _CHARS.setdefault(name, chr(0xE000 + len(_CHARS)))


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """A pattern over tag names: ``REQUEST? erase (talk|data)+``. Compiled when it is first needed."""
    pattern = pattern.replace("REQUEST", "(request|request_if_asked|request_if_polite|permit)")
    return re.compile(_NAME.sub(lambda match: _char(match.group()), pattern).replace(" ", ""))


def row(sentence: Sentence) -> str:
    """The sentence as one character per tag, for the patterns."""
    return "".join([_CHARS.get(tag.name) or _char(tag.name) for tag in sentence.tags])


@dataclass(frozen=True, slots=True)
class ControlAct:
    """A sentence form that acts. ``name`` is the act; at least one of the tags in ``needs`` must be present."""

    topic: str
    name: str
    pattern: str
    values: Values
    needs: tuple[str, ...] = ()
    needs_please: bool = False  # without it, it may be a statement: "you keep the context"

    def matches(self, sentence: Sentence, line: str) -> bool:
        if self.needs_please and not sentence.is_polite:
            return False
        return compiled(self.pattern).fullmatch(line) is not None and (not self.needs or sentence.has(*self.needs))


@dataclass(frozen=True, slots=True)
class Topic:
    """Phrases that name a topic."""

    topic: str
    pattern: str
    is_loose: bool = False  # may be for an agent as well: never read without the label


# -- values ---------------------------------------------------------------------------------------


def _said(**values: Any) -> Values:
    return lambda sentence: values


def _accepted(sentence: Sentence) -> Mapping[str, Any]:
    return {"accept": sorted(set(sentence.values("kind"))) or ["*"]}


def _window(sentence: Sentence) -> Mapping[str, Any]:
    return {"window": int(sentence.number())}


def _size(sentence: Sentence) -> Mapping[str, Any]:
    bounds_replies = sentence.has(
        "replies", "reply_size", "reply_verb", "send", "use", "can_only", "only_takes", "below_sent"
    ) and not _only_messages(sentence)
    size = int(sentence.number() * int(sentence.values("unit")[0]))
    return {"propose": {"reply" if bounds_replies else "body": size}}


def _only_messages(sentence: Sentence) -> bool:
    return sentence.has("messages") and not sentence.has("replies", "can_only", "only_takes", "send", "below_sent")


def _rate(sentence: Sentence) -> Mapping[str, Any]:
    return {"propose": {"rate_per_minute": sentence.number() * float(sentence.values("per")[0])}}


def _proposed(name: str) -> Values:
    return lambda sentence: {"propose": {name: int(sentence.number())}}


ALL_FORMATS: Final = (
    "text", "structured/json", "structured/uri", "structured/html", "structured/xml", "binary/image", "binary/audio",
    "binary/video", "binary/sensor", "binary/generic", "location", "generic",
)  # fmt: skip


def _reads(sentence: Sentence) -> Mapping[str, Any]:
    terms: dict[str, Any] = {}
    if formats := sorted(set(sentence.values("format"))):
        terms["formats"] = formats
    if languages := sorted(set(sentence.values("lang"))):
        terms["languages"] = languages
    return terms


def _does_not_read(sentence: Sentence) -> Mapping[str, Any]:
    unread = set(sentence.values("format"))
    kept = [item for item in ALL_FORMATS if item not in unread and item.partition("/")[0] not in unread]
    return {"formats": kept}


# -- acts -----------------------------------------------------------------------------------------

_ASK: Final = "(REQUEST|want|propose|ensure)?"
_TALK: Final = "(talk|session|history|data|everything|said|messages|context|replies)+"
_KEPT: Final = "(context|history|talk)+"
_POLICY: Final = "(policy|kind)((and)?(policy|kind))*"
_TURNS: Final = "(turns|messages|replies|requests)"
_LAST: Final = f"(last number {_TURNS}|number last {_TURNS}|number {_TURNS} last?)"
_BOUND: Final = "(below|below_sent|to|to below)"
_TELL: Final = "(tell|use|show|send|share|look|keep)"
_CAN_ONLY: Final = "(can_only|device only_takes)"
_READS_ONLY: Final = "(i_read_only|device (only_reads|only_takes))"
_WAIT: Final = "(wait_whole|wait_until is_ready)"
_AFTER_UNIT: Final = "(messages|replies|per_message|size|below|at_once_whole)* (receive|stay|send)?"
_SIZED: Final = "(limit|keep|send|make|stay|make_me|use|messages|per_message|replies|size|only|below)*"
_FORMATS: Final = "(format|lang)((and)(format|lang)|(format|lang))*"
_HIDE_PLACE: Final = "(use|look|tell|share|send|move)"
# What may stand before a request and asks for nothing.
REMARK: Final = (
    f"done|(i_cannot_read|device cannot_read) {_FORMATS} read_rest?|have_read (policy|kind)* have_read_rest?"
)


def _act(topic: str, name: str, values: Values, *patterns: str, needs: tuple[str, ...] = ()) -> list[ControlAct]:
    return [ControlAct(topic, name, pattern, values, needs) for pattern in patterns]


ACTS: Final[tuple[ControlAct, ...]] = (
    *_act(
        "context",
        "window",
        _window,
        f"{_ASK} (use|remember|keep) only? {_LAST} only? as_context?",
        f"{_ASK} (remember|use|keep|make)? as_context? only? {_LAST} as_context",
        f"{_ASK} only (use|remember|keep|look_back) {_LAST} as_context?",
        f"{_ASK} look_back only {_LAST}",
        f"{_ASK} (erase|erase_it|ignore|neg use) everything? (but|before) to? {_LAST}",
        f"{_ASK} everything (but|before) {_LAST} REQUEST? (ignore|erase_last)",
        f"{_ASK} (use|make|limit|keep)? window (to|security)? number {_TURNS}?",
        f"{_ASK} limit (context|history) to? {_LAST}",
        f"{_ASK} use only (to|in|security) {_LAST}",
        f"{_ASK} (use|look|remember|keep) (only {_LAST}|{_LAST} only)",
    ),
    *_act(
        "sessions",
        "erase",
        _said(erase=True),
        f"(REQUEST|want|let_us)? (erase|erase_it) (for_me|self)? {_TALK} ((from|in|and|off) {_TALK})* for_me?",
        "everything erase",
        f"REQUEST? erase {_TALK} have_read_rest",
        f"{_TALK} REQUEST? erase_it",
        f"(want|REQUEST) erasure {_TALK}",
        f"ensure {_TALK} (erased_passive|erased|vanish)",
        f"ensure (erased_passive|erased|vanish|erase) {_TALK}",
        "(REQUEST|let_us|want)? clean_slate",
        f"(REQUEST|want|let_us)? {_TALK} erase_last",
        f"(want|REQUEST) {_TALK} (erased|vanish)",
        f"(want|REQUEST) (vanish|erased) {_TALK}",
        f"{_ASK} make_vanish {_TALK}",
        f"{_ASK} {_TALK} make_vanish",
        f"(away_with|erase_us) {_TALK}",
        f"REQUEST? erase_me ({_TALK})?",
        "REQUEST everything? erase_last said",
        f"{_ASK} everything erase_last said",
        f"would_mind erase_ing {_TALK}",
    ),
    *_act(
        "sessions",
        "end",
        _said(end=True),
        "(REQUEST|want|let_us)? end (session|talk)+",
        "end_us (session|talk)+",
        "(REQUEST|want|let_us)? (session|talk) end_last",
        "REQUEST? log_out",
        "would_mind end_ing (session|talk)+",
        "bye+ (done|and)?",
        "done? bye+",
        "REQUEST? log_out bye+",
        "REQUEST? log_out (session|talk)",
        "(let_us? end_all)? and? (end|end_all) (session|talk)+",
        "(end_all|end (session|talk)+)? and bye+",
        "(REQUEST|let_us)? end_all bye*",
        "(REQUEST|want|let_us)? leave (session|talk)",
    ),
    *_act("sessions", "mark", _said(headless=True), "this_is? headless session?"),
    *_act("sessions", "mark", _said(background=True), "this_is? background session?"),
    *_act(
        "context",
        "resume",
        _said(resume=True),
        "(REQUEST|want|let_us)? resume last? (talk|session)",
        "(REQUEST|want) last? (talk|session) resume",
    ),
    *_act(
        "policy",
        "accept",
        _accepted,
        f"i_accept {_POLICY}",
        "i_accept everything?",
        f"have_read {_POLICY} have_read_rest? i_accept",
        f"have_read i_accept {_POLICY}",
        f"i_accept {_POLICY} (i_accept|below {_POLICY})",
        f"have_read {_POLICY} i_accept have_read_rest",
        f"(have_read {_POLICY} have_read_rest? and?)? accept_after",
        f"in? {_POLICY} accept_after",
        f"want accept_verb {_POLICY}",
        f"want {_POLICY} accept_verb",
        f"half_accept {_POLICY} (accept_rest|prefix|i_accept)",
        f"have_read {_POLICY} half_accept accept_rest",
    ),
    *_act(
        "policy",
        "withhold",
        _said(attributes={"withhold": ["location"]}),
        f"REQUEST? neg+ {_HIDE_PLACE} neg? location to_anyone?",
        f"REQUEST? {_HIDE_PLACE} location neg to_anyone?",
        f"REQUEST? neg location {_HIDE_PLACE} to_anyone?",
        f"REQUEST? {_HIDE_PLACE} location to_nobody",
        f"REQUEST? {_HIDE_PLACE} to_nobody location",
        f"(want_not|stop) {_HIDE_PLACE} neg? location to_anyone?",
        f"want_not location to_anyone? {_HIDE_PLACE}",
        f"{_ASK} hide location to_anyone?",
        f"{_ASK} location (hide|hidden) to_anyone?",
    ),
    *_act(
        "anonymous",
        "anonymous off",
        _said(propose=False),
        "(REQUEST|want|let_us)? (leave|end|stop|off) anonymous",
        f"{_ASK} anonymous (leave|end_last|off)",
        f"{_ASK} (turn_verb|turns) anonymous off",
        "no_longer stay? anonymous stay? (turn_verb off|leave)?",
        "no_need stay? anonymous any_more (turn_verb off|leave)?",
        "name_me",
        "REQUEST? use name",
        f"permit? back_to {_TELL}? name",
        "name_me_all",
    ),
    *_act(
        "anonymous",
        "anonymous on",
        _said(propose=True),
        # "Could you stay anonymous?" is about us; the request is to make the caller anonymous.
        "(want|let_us|will) (stay|make_me)? (talk|session)? anonymous (stay|make_me)?",
        "REQUEST? make_me (talk|session)? anonymous",
        "REQUEST (talk|session)? anonymous make_me",
        "stay (talk|session)? anonymous",
        "anonymous stay",
        "(REQUEST|want) (use|keep) anonymous",
        "(want|let_us|will) (use|look) (capable|gateway) anonymous",
        "REQUEST? (make|make_me) (talk|session)? to? anonymous (talk|session)?",
        "REQUEST? (turn_verb|turns) anonymous (on|prefix)",
        f"{_ASK} go_anonymous to_anyone?",
        f"{_ASK} hide (for_me|to_anyone)? name (to_anyone|everything)?",
        f"{_ASK} name (hide|hidden)",
        f"REQUEST? neg {_TELL} to_anyone? name to_anyone?",
        "want_not (to_anyone|capable) (know|happens) name",
        f"REQUEST? {_TELL} name (neg to_anyone?|to_anyone neg)",
        f"REQUEST? neg? {_TELL} (to_nobody name|name to_nobody)",
        "nobody_knows name",
        "(want|REQUEST) unnamed",
        "want (to_nobody|nobody_knows) name",
    ),
    ControlAct("anonymous", "anonymous off", "no_anonymous", _said(propose=False), needs_please=True),
    ControlAct("anonymous", "anonymous on", "anonymous", _said(propose=True), needs_please=True),
    *_act(
        "context",
        "keeper client",
        _said(keeper="client"),
        f"(will|want) keep {_KEPT} self*",
        f"(will|want) self? {_KEPT} self* keep_last",
        f"{_KEPT} kept_by_me",
        f"keep_inverted {_KEPT}",
        f"self? i_keep {_KEPT} self*",
        f"want keep self {_KEPT}",
        f"{_ASK} (move|turn_verb|turns) {_KEPT} to_me",
        f"self keep {_KEPT}",
        f"REQUEST? leave_to_me keep_noun? {_KEPT} (to_me|self)? (keep|keep_last)?",
        f"(will|want) {_KEPT} keep_last? self+",
        f"{_KEPT} (i_keep|keep_inverted) self*",
        f"(i_keep|keep_inverted) {_KEPT} self* (need_not|you_need_not)",
        f"about? {_KEPT} (keep_inverted|i_do) self*",
        f"keep_inverted {_KEPT} self+",
        f"(need_not|REQUEST? neg) (keep|remember) {_KEPT} (i_do|will keep|i_keep) self*",
    ),
    *_act(
        "context",
        "keeper both",
        _said(keeper="both"),
        f"(let_us|request|want)? both keep {_KEPT}",
        f"we_keep both {_KEPT}",
        f"(request|want)? both we_keep {_KEPT}",
        f"want we_keep both {_KEPT}",
        f"let_us keep both {_KEPT}",
        f"we_keep {_KEPT} both",
        f"(let_us|want) {_KEPT} both keep_last",
    ),
    *_act(
        "context",
        "keeper server",
        _said(keeper="server"),
        f"REQUEST? (keep|remember) you? {_KEPT} (for_me|you)* to?",
        f"jussive keep {_KEPT}",
        f"REQUEST? take_over you? {_KEPT} for_me*",
        "REQUEST? (keep|remember) everything? said (for_me|for_later)+",
        f"REQUEST? (keep|remember) {_KEPT} (for_me|for_later)+",
        "REQUEST? everything? said (for_me|for_later)+ (keep_last|remember)",
        f"REQUEST? {_KEPT} for_me* (keep_last|remember)",
        f"REQUEST? (move|turn_verb|turns) {_KEPT} to_you",
    ),
    ControlAct("context", "keeper server", (f"you keep {_KEPT} for_me*"), _said(keeper="server"), needs_please=True),
    ControlAct(
        "context",
        "keeper server",
        ("REQUEST? (remember everything? said|everything? said (remember|keep_last))"),
        _said(keeper="server"),
        needs_please=True,
    ),
    *_act(
        "limits",
        "limits",
        _size,
        f"{_ASK} reply_verb in? below number unit",
        f"{_ASK} {_SIZED} {_BOUND}? number unit {_AFTER_UNIT}",
        f"(messages|replies|size)+ {_BOUND} number unit limit",
        f"(want|propose|REQUEST) agree? (limits|limit)? {_BOUND}? number unit {_AFTER_UNIT} agree?",
        f"{_CAN_ONLY} messages? below? number unit (per_message|messages|replies|at_once_whole|receive)*",
        needs=("limit", "limits", "below", "below_sent", "can_only", "only_takes"),
    ),
    *_act(
        "limits",
        "limits",
        _size,
        f"{_ASK} (make|limit) limits? (size|reply_size|limits) (messages|replies)* {_BOUND} number unit",
    ),
    *_act(
        "limits",
        "limits",
        _rate,
        f"{_ASK} (limit|send|make|only|replies|messages|requests)* {_BOUND}? number (requests|messages) per",
        f"{_ASK} (send|make)? only number (requests|messages) per",
        f"(want|propose|REQUEST) agree? (limits|limit)? {_BOUND}? number (requests|messages) per agree?",
        needs=("limit", "limits", "below", "only"),
    ),
    *_act(
        "limits",
        "limits",
        _proposed("depth"),
        f"{_ASK} (limit|make|keep)? depth {_BOUND}? number level?",
        f"{_ASK} limit? {_BOUND} number level",
        needs=("limit", "below"),
    ),
    *_act(
        "limits",
        "limits",
        _proposed("submessages"),
        f"{_ASK} (limit|send|make|only|messages)* {_BOUND} number submessages",
        f"{_ASK} limit submessages {_BOUND} number",
        needs=("limit", "below"),
    ),
    *_act(
        "accept",
        "formats",
        _reads,
        f"{_READS_ONLY} {_FORMATS} read_rest?",
        "i_read (lang and?)+ read_rest?",
        "i_read format (and? format)+ read_rest?",
        f"i_read only {_FORMATS}",
        f"i_read {_FORMATS} only",
        f"can_only in? {_FORMATS} (read_rest|receive)?",
        f"(REQUEST|want)? reply_verb only? (in|to)? only? {_FORMATS} only?",
        f"REQUEST? only reply_verb (in|to)? {_FORMATS}",
        f"(REQUEST|want)? send only {_FORMATS} only?",
        f"(REQUEST|want)? send {_FORMATS} only",
        f"{_ASK} (use|stay|make_me|turn_verb) (to|in)* {_FORMATS} only?",
        f"(want) only? {_FORMATS} only",
        f"(want) only {_FORMATS}",
        "want in? lang",
        f"{_ASK} (only use|use only) (in|to)? {_FORMATS} ((in|to) replies)?",
        f"{_ASK} use ((in|to)? replies only? {_FORMATS}|{_FORMATS} only? (in|to) replies)",
        f"(want|REQUEST? send) (replies|everything)+ only? (in|to) only? {_FORMATS} only?",
        "my_language lang",
        f"would_mind reply_ing (in|to)? {_FORMATS}",
        f"(REQUEST|want|let_us)? reply_verb (in|to)? {_FORMATS} (in|self)*",
        "(REQUEST|want|let_us) (to|in)* lang (use|stay|reply_verb|read_rest)",
        "let_us (use|stay|make_me|turn_verb|move|reply_verb|talk|send) (to|in)* lang",
        "speak_us (to|in)* lang",
        f"{_ASK} send only {_FORMATS} only?",
        f"(REQUEST|want)? send (everything|replies)? (in|to) {_FORMATS} only?",
    ),
    ControlAct("accept", "formats", ("(in|to)? lang (reply_verb|replies)?"), _reads, needs_please=True),
    ControlAct("accept", "formats", (f"only {_FORMATS}|{_FORMATS} only"), _reads, needs_please=True),
    *_act(
        "accept",
        "formats",
        _does_not_read,
        "(i_cannot_read|device cannot_read) format ((and)? format)* read_rest?",
        "REQUEST? neg send format ((and)? format)*",
    ),
    *_act(
        "stream",
        "stream off",
        _said(on=False),
        "REQUEST? neg (stream replies?|send neg? partial|partial)",
        "REQUEST? end_all partial send",
        "(want|REQUEST? send) whole_answers per_message",
        "REQUEST? neg (stream|send) neg (partial|replies)?",
        "REQUEST? neg replies stream",
        "REQUEST? (stop|leave|off|end) (stream|partial|send partial) replies?",
        "REQUEST? stop replies (stream|partial send?)",
        "REQUEST? stop (stream|send|reply_verb) (replies|partial)? as_they_come+",
        "REQUEST? neg+ (stream|send|reply_verb) neg? (replies|partial)? as_they_come+ neg?",
        "REQUEST? (turn_verb|turns) (stream|partial) off",
        "(REQUEST|want|send)* only whole_answers",
        "(REQUEST|want|send)+ whole_answers only",
        "(stream|partial) off",
        "REQUEST? (turn_verb|turns) off (stream|partial)",
        "REQUEST? (turn_verb|turns) (off (stream|partial)|(stream|partial) off) want whole_answers",
        "REQUEST? stream (leave|stop|neg)",
        "send only whole_answers",
        "(REQUEST|want)? send? only? whole_answers and? (neg|stop) (partial|stream|as_they_come)",
        "REQUEST? send only? whole_answers neg (stream|partial)",
        "(REQUEST|want)? (send|reply_verb|show)? (replies|whole_answers)? only? at_once_whole",
        "(want receive?|would_like) (replies|whole_answers) receive? at_once_whole receive?",
        f"REQUEST? {_WAIT} before_sent?",
        f"(REQUEST? (neg send neg?|neg) (partial|replies stream)|REQUEST? stop (partial|stream|send partial)) {_WAIT}",
        "(want|REQUEST) (receive|send)? whole_answers receive? at_once_whole? receive?",
    ),
    *_act(
        "stream",
        "stream on",
        _said(on=True),
        "(REQUEST|want)? (stream|send stream) replies? to_me? as_they_come?",
        "(REQUEST|want)? (stream|send) to_me? replies stream",
        "(REQUEST|want)? send partial as_they_come?",
        "want partial as_they_come?",
        "want replies (in|to)? (stream|streamed)",
        "REQUEST? make_me partial",
        "(REQUEST|want)? (send|reply_verb|show) to_me? replies? as_they_come+",
        "(want receive?|would_like) replies receive? as_they_come+ receive?",
        "partial as_they_come",
        "REQUEST? start_send replies? to_me? as_they_come*",
        "(REQUEST|want)? (send|reply_verb|show|receive) replies? as_they_come+ (send|receive|show)?",
        "(REQUEST|want)? (stay|make_me|on) (stream|partial)",
        "(REQUEST|want)? (turn_verb|turns) (stream|partial) (on|prefix)",
        "(REQUEST|want)? (turn_verb|turns) on (stream|partial)",
        "REQUEST replies stream",
        "REQUEST partial send",
        "(stream|partial) on",
    ),
)

# -- topics ---------------------------------------------------------------------------------------

_GAP: Final = ".{0,3}"
_FORMAT_WORD: Final = "(formats|format|lang)"
_MINE: Final = "(data|messages|talk|talks|history|said|everything)"


def _topics(rows: Iterable[tuple[str, str]]) -> tuple[Topic, ...]:
    return tuple(Topic(topic, pattern) for topic, pattern in rows)


# Tried in order; the first match counts.
TOPIC_PHRASES: Final = _topics(
    (
        ("upload", f"thing {_GAP} big|upload|big (thing|format)|number unit {_GAP} (thing|format)|send {_GAP} big"),
        ("context", f"window|who {_GAP} (keep|keep_last|store_verb) {_GAP} context"),
        ("context", f"(how_many|limits) {_GAP} (history|last) {_GAP} (look|receive|show|happens)"),
        ("authentication", "login"),
        ("limits", f"how_many {_GAP} (requests|messages) {_GAP} per|limits|how_many {_GAP} send"),
        ("limits", f"(size|big) {_GAP} messages|messages {_GAP} (size|big)"),
        ("anonymous", "anonymous|go_anonymous|unnamed|hide .{0,3}name|nobody_knows"),
        (
            "policy",
            f"how_long {_GAP} ((erase|erase_last) {_GAP} {_MINE}|{_MINE} {_GAP} (erased|erase_last|store_verb|keep))",
        ),
        ("policy", f"how_long {_GAP} (keep|keep_last|store_verb|i_keep|remember|use|we_keep) {_GAP} {_MINE}"),
        ("policy", f"who {_GAP} (messages|data|talk|history|said)"),
        ("history", f"(look|look_back) {_GAP} last {_GAP} {_TURNS}"),
        ("policy", f"(store_verb|share|happens|use|look|keep) {_GAP} (data|messages|third_parties)"),
        ("policy", f"(happens|share) {_GAP} data|(data|messages|talk) {_GAP} store_verb|data {_GAP} share"),
        ("policy", f"how_long {_GAP} ({_MINE} {_GAP} (store_verb|keep)|data|messages|said)"),
        ("policy", f"happens {_GAP} {_MINE}|private"),
        ("ethics", "ethics"),
        ("policy", "policy|kind|law|third_parties|location|i_accept|half_accept"),
        ("stream", "stream|partial|whole_answers|as_they_come"),
        ("history", f"(show|send|so_far|reply_verb|move) {_GAP} (history|last|talk|said)|talk {_GAP} show"),
        ("history", f"so_far|history|(show|send|which) {_GAP} (last|number last) {_GAP} {_TURNS}"),
        ("history", f"first {_GAP} ({_TURNS}|said|so_far)"),
        ("history", "last number (messages|turns)|number last (messages|turns)"),
        ("context", f"(who|how_many|remember) {_GAP} (context|turns|remember)|context|window|as_context"),
        ("sessions", "sessions|talks|new (talk|session)|session|headless|background|resume"),
        ("security", "security"),
        ("accept", f"{_FORMAT_WORD} {_GAP} will_send|i_cannot_read|i_read|i_read_only"),
        (
            "capabilities",
            f"swarm|capable|which {_GAP} {_FORMAT_WORD}|support {_GAP} {_FORMAT_WORD}|{_FORMAT_WORD} {_GAP} support",
        ),
        ("limits", "limit|below|below_sent|can_only|depth|submessages"),
        ("sessions", "erase|erase_last|erased|end|end_last|talk|bye"),
        ("policy", "data|happens"),
        ("authentication", "name"),
    )
) + tuple(
    Topic(topic, pattern, is_loose=True)
    for topic, pattern in (
        ("context", f"remember {_GAP} (said|so_far|talk|turns)|(talk|turns) {_GAP} remember"),
        ("authentication", "identity"),
        ("limits", "how_many .{0,2} (requests|messages)"),
        ("capabilities", f"(asking|request_if_polite|you) .?(stay|reply_verb|support|speak) .{{0,2}} {_FORMAT_WORD}"),
        ("upload", f"(thing|format) {_GAP} (send|share|receive)|send {_GAP} thing"),
        ("history", "said|so_far"),
    )
)
