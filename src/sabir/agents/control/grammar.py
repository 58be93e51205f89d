"""What a sentence of tags asks for: acts, which are read strictly; for topics see ``topics``. Pure.

An act changes something. It is read only from a sentence in which *every* word is known and which as a whole has the
form of a request ("erase this conversation"), of a polite request ("could you erase …?") or of a statement about
oneself ("I want to erase …"). Negations, conditions, reports, modals and questions contain words that fit no such form,
so they never act. A topic only returns information, so one known phrase is enough.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Final

from .lexicon import Sentence
from .topics import TOPIC_PHRASES as TOPIC_PHRASES
from .values import Values, accepted, does_not_read, proposed, rate, reads, said, size, window

_CHARS: Final[dict[str, str]] = {}  # one private-use character per tag
_NAME: Final = re.compile(r"[a-z_]+")


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


# -- acts -----------------------------------------------------------------------------------------

_ASK: Final = "(REQUEST|want|propose|ensure)?"
_TALK: Final = "(talk|session|history|data|everything|said|messages|context|replies)+"
_KEPT: Final = "(context|history|talk)+"
_POLICY: Final = "(policy|kind)((and)?(policy|kind))*"
_TURNS: Final = "(turns|messages|replies|requests)"
_LAST: Final = f"(last number {_TURNS}|number last {_TURNS}|number {_TURNS} last?|number history)"
_KEEP_DONE: Final = "(kept|store_verb)"
_BOUND: Final = "(below|below_sent|to|to below)"
_TELL: Final = "(tell|use|show|send|share|look|keep)"
_CAN_ONLY: Final = "(can_only|device only_takes)"
_READS_ONLY: Final = "(i_read_only|device (only_reads|only_takes))"
_WAIT: Final = "(wait_whole|wait_until is_ready)"
_AFTER_UNIT: Final = "(messages|replies|per_message|size|below|at_once_whole)* (receive|stay|send)?"
_SIZED: Final = (
    "(limit|keep|send|make|stay|make_me|use|messages|per_message|replies|size|only|below|be_sized|reply_size)*"
)
_RATED: Final = "(limit|make|keep|stay|use|requests|messages|only|send|agree|propose)*"
_NAMED_LIMIT: Final = "(limits|limit|size|reply_size)"
_FORMATS: Final = "(format|lang)((and)(format|lang)|(format|lang))*"
_HIDE_PLACE: Final = "(use|look|tell|share|send|move)"
# What may stand before a request and asks for nothing.
REMARK: Final = (
    f"done|reconsidered|(i_cannot_read|device cannot_read) {_FORMATS} read_rest?|"
    "have_read (policy|kind)* have_read_rest?"
)


def _act(topic: str, name: str, values: Values, *patterns: str, needs: tuple[str, ...] = ()) -> list[ControlAct]:
    return [ControlAct(topic, name, pattern, values, needs) for pattern in patterns]


def _polite(topic: str, name: str, values: Values, pattern: str) -> ControlAct:
    """An act that needs a "please": without it, the sentence may be a statement."""
    return ControlAct(topic, name, pattern, values, needs_please=True)


ACTS: Final[tuple[ControlAct, ...]] = (
    *_act(
        "context",
        "window",
        window,
        f"{_ASK} (use|remember|keep) only? {_LAST} only? as_context?",
        f"{_ASK} (remember|use|keep|make)? as_context? only? {_LAST} as_context",
        f"{_ASK} only (use|remember|keep|look_back) {_LAST} as_context?",
        f"{_ASK} look_back only {_LAST}",
        f"{_ASK} (erase|erase_it|ignore|neg use) everything? (but|before) to? {_LAST}",
        f"{_ASK} everything (but|before) {_LAST} REQUEST? (ignore|erase_last)",
        f"{_ASK} (use|make|limit|keep|turn_verb)? window (to|security|in)? number {_TURNS}?",
        f"{_ASK} (use|remember|keep|look_back) below {_LAST}",
        f"{_ASK} limit (context|history) to? {_LAST}",
        f"{_ASK} use only (to|in|security) {_LAST}",
        f"{_ASK} use (to|in) {_LAST} only?",
        f"{_ASK} limit (to|in)* {_LAST}",
        f"{_ASK} (use|look|remember|keep) (only {_LAST}|{_LAST} only)",
    ),
    *_act(
        "sessions",
        "erase",
        said(erase=True),
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
        f"(REQUEST|want|let_us)? erase everything {_TALK}",
        f"(REQUEST|want|let_us)? (erase|erase_it|move|send|make)? {_TALK} gone_from",
        f"ensure neg {_TALK} (stay|kept|store_verb|shared|belongs)+",
    ),
    _polite(
        "sessions",
        "erase",
        said(erase=True),
        f"{_TALK} (should|shall) (erased|vanish|erase_last|be_erased)",
    ),
    _polite(
        "sessions",
        "erase",
        said(erase=True),
        f"could {_TALK} erased|{_TALK} could stay? erased|REQUEST be_erased {_TALK}",
    ),
    *_act(
        "sessions",
        "end",
        said(end=True),
        "(REQUEST|want|let_us)? end (session|talk)+",
        "end_us (session|talk)+",
        "(REQUEST|want|let_us)? (session|talk) end_last",
        "(REQUEST|want|let_us)? log_out",
        "would_mind end_ing (session|talk)+",
        "bye+ (done|and)?",
        "done? bye+",
        "REQUEST? log_out bye+",
        "REQUEST? log_out (session|talk)",
        "(let_us? end_all)? and? (end|end_all) (session|talk)+",
        "(end_all|end (session|talk)+)? and bye+",
        "(REQUEST|let_us)? end_all bye*",
        "(REQUEST|want|let_us)? leave (session|talk)",
        "REQUEST? (end (session|talk)+ for_me+|(session|talk)+ for_me+ end_last)",
        "want (session|talk) ended",
    ),
    ControlAct("sessions", "end", "(session|talk) (should|shall) ended", said(end=True), needs_please=True),
    *_act("sessions", "mark", said(headless=True), "this_is? headless session?"),
    *_act("sessions", "mark", said(background=True), "this_is? background session?"),
    *_act(
        "context",
        "resume",
        said(resume=True),
        "(REQUEST|want|let_us)? resume last? (talk|session)",
        "(REQUEST|want) last? (talk|session) resume",
    ),
    *_act(
        "policy",
        "accept",
        accepted,
        f"i_accept {_POLICY}",
        "i_accept everything?",
        f"have_read {_POLICY} have_read_rest? i_accept",
        f"have_read i_accept {_POLICY}",
        f"i_accept {_POLICY} (i_accept|below {_POLICY})",
        f"have_read {_POLICY} have_read_rest? (and? i_accept have_read_rest?|half_accept ({_POLICY})? accept_rest)",
        f"{_POLICY} accept_after (and? i_accept|half_accept accept_rest|accept_after)?",
        f"accept_after {_POLICY}",
        f"(likes {_POLICY}|{_POLICY} likes) and? (i_accept|accept_after|half_accept accept_rest)",
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
        said(attributes={"withhold": ["location"]}),
        f"REQUEST? neg+ {_HIDE_PLACE} neg? location to_anyone?",
        f"REQUEST? {_HIDE_PLACE} location neg to_anyone?",
        f"REQUEST? neg location {_HIDE_PLACE} to_anyone?",
        f"REQUEST? {_HIDE_PLACE} location to_nobody",
        f"REQUEST? {_HIDE_PLACE} to_nobody location",
        f"(want_not|stop) {_HIDE_PLACE} neg? location to_anyone?",
        f"want_not location to_anyone? {_HIDE_PLACE}",
        f"{_ASK} hide location to_anyone?",
        f"{_ASK} location (hide|hidden) to_anyone?",
        f"(want_not|neg want) location {_HIDE_PLACE} to_anyone?",
        "(want|ensure) location (hidden|neg shared) to_anyone?",
        "location neg shared to_anyone?",
        "(want|REQUEST) (location not_shared|not_shared location) to_anyone?",
        f"REQUEST? {_HIDE_PLACE} neg location to_anyone?",
        f"REQUEST? {_HIDE_PLACE} location (neg|stop)",
        f"REQUEST? neg+ {_HIDE_PLACE} to_anyone location",
        "(location|neg location) shared? (stay|keep)? (hidden|private)",
        "want_not location shared to_anyone?",
        "want_not location to_anyone? shared",
        f"REQUEST? (stop {_HIDE_PLACE}?|no_use|ignore|hide) location to_anyone?",
        "REQUEST? location (ignore|hide)",
        "REQUEST? (keep|stay) location (hidden|private)",
    ),
    *_act(
        "anonymous",
        "anonymous off",
        said(propose=False),
        "(REQUEST|want|let_us)? (leave|end|stop|off|erase|make_vanish) anonymous",
        f"{_ASK} anonymous (leave|end_last|off)",
        f"{_ASK} (turn_verb|turns) anonymous off",
        "no_longer stay? anonymous stay? (turn_verb off|leave)?",
        "no_need stay? anonymous any_more (turn_verb off|leave)?",
        "name_me",
        "REQUEST? use name",
        f"permit? back_to {_TELL}? name",
        "name_me_all",
        "REQUEST (name_me|back_to name)",
        "REQUEST? stop (hide|hidden) name",
        "(want|REQUEST) identified",
        "permit_tell (to_anyone|to_them)* name (to_anyone|to_them)*",
        "permit (to_anyone|to_them)* (tell_last name|name (to_anyone|to_them)* tell_last)",
        "anonymous (off|leave)",
        "no_longer (stay|hide|hidden)* (anonymous|name) (stay|hide|hidden)*",
        "no_need (stay|hide|hidden)* (anonymous|name) (stay|hide|hidden)* any_more",
        "anonymous (no_need|no_longer)",
        "(no_need|no_longer) anonymous",
    ),
    *_act(
        "anonymous",
        "anonymous on",
        said(propose=True),
        # "Could you stay anonymous?" is about us; the request is to make the caller anonymous.
        "(want|let_us|will) (stay|make_me)? (talk|session)? anonymous (stay|make_me)?",
        "REQUEST? make_me (talk|session)? anonymous",
        "REQUEST (talk|session)? anonymous make_me",
        "stay (talk|session)? anonymous",
        "anonymous (on|prefix|accept_rest)",
        "anonymous stay",
        "(REQUEST|want) (use|keep) anonymous",
        "(want|let_us|will) (use|look) (capable|gateway) anonymous",
        "REQUEST? (make|make_me) (talk|session)? (to|in)* anonymous (talk|session)?",
        "REQUEST? (turn_verb|turns) anonymous (on|prefix)",
        f"{_ASK} go_anonymous to_anyone?",
        f"{_ASK} hide (for_me|to_anyone)? name (to_anyone|everything)?",
        f"{_ASK} name (hide|hidden)",
        f"REQUEST? neg {_TELL} to_anyone? name to_anyone?",
        "want_not (to_anyone|capable) (know|happens) name",
        f"REQUEST? {_TELL} name (neg to_anyone?|to_anyone neg)",
        f"REQUEST? neg? {_TELL} (to_nobody name|name to_nobody)",
        "nobody_knows name known?",
        "(want|REQUEST) (nobody_knew|nobody_knows) name",
        "want to_nobody name known",
        "name should_not (shared|known) to_anyone?",
        "(want|REQUEST) name (stay|belongs)? (hidden|private|anonymous)",
        "(want|REQUEST) name not_shared to_anyone?",
        "(want|REQUEST) not_shared name to_anyone?",
        f"REQUEST? neg to_them? {_TELL} to_anyone? name to_anyone?",
        "name should (hidden|hide|neg shared|neg known)",
        "name (hidden|neg shared) to_anyone?",
        f"{_ASK} name to_anyone (hide|hidden)",
        f"{_ASK} to_anyone name (hide|hidden)",
        f"{_ASK} (keep|stay|leave|make_me) name (hidden|private|anonymous)",
        "(want|REQUEST) unnamed",
        "want (to_nobody|nobody_knows) name",
    ),
    ControlAct("anonymous", "anonymous off", "no_anonymous", said(propose=False), needs_please=True),
    ControlAct("anonymous", "anonymous on", "anonymous", said(propose=True), needs_please=True),
    *_act(
        "context",
        "keeper client",
        said(keeper="client"),
        f"(will|want) keep {_KEPT} self*",
        f"(will|want) self? {_KEPT} self* keep_last",
        f"{_KEPT} kept_by_me",
        f"keep_inverted {_KEPT}",
        f"self? i_keep {_KEPT} self*",
        f"want keep self {_KEPT}",
        f"{_ASK} (move|turn_verb|turns|leave|send) {_KEPT} to_me+",
        f"self keep {_KEPT}",
        f"REQUEST? leave_to_me keep_noun? {_KEPT} (to_me|self)? (keep|keep_last)?",
        f"(will|want) {_KEPT} keep_last? self+",
        f"{_KEPT} (i_keep|keep_inverted) self*",
        f"(i_keep|keep_inverted) {_KEPT} self* (need_not|you_need_not)",
        f"about? {_KEPT} (keep_inverted|i_do) self*",
        f"keep_inverted {_KEPT} self+",
        f"(need_not|REQUEST? neg) (keep|remember) {_KEPT} (i_do|will keep|i_keep) self*",
        f"{_KEPT} (will|shall|becomes)? ({_KEEP_DONE} (self|to_me|by_me)|(self|to_me|by_me) {_KEEP_DONE})",
        f"{_KEPT} (i_keep|by_me_keep) self*",
        f"by_me_keep {_KEPT} self*",
        f"(want|REQUEST) {_KEPT} (self|to_me|by_me)? {_KEEP_DONE} (self|to_me|by_me)?",
        f"{_KEPT} (stay|belongs) (self|to_me)",
        f"{_KEPT} (i_keep|keep_inverted|by_me_keep|kept_by_me) self* (need_not|you_need_not)",
        f"will {_KEPT} (self|to_me)*",
        f"REQUEST (will keep|i_keep) {_KEPT} self*",
        f"REQUEST leave_to_me keep? {_KEPT} to_me*",
        f"REQUEST {_KEPT} leave_to_me",
        f"need_not {_KEPT} neg (keep_last|remember) (i_do|i_keep|will keep|i_have) self*",
        f"about {_KEPT} by_me_keep",
    ),
    *_act(
        "context",
        "keeper both",
        said(keeper="both"),
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
        said(keeper="server"),
        f"REQUEST? (keep|remember) (you|for_me)? {_KEPT} (for_me|you)* to?",
        f"jussive keep {_KEPT}",
        f"REQUEST? take_over you? {_KEPT} for_me*",
        "REQUEST? (keep|remember) everything? said (for_me|for_later)+",
        f"REQUEST? (keep|remember) {_KEPT} (for_me|for_later)+",
        "REQUEST? (keep|remember) everything for_me+",
        "REQUEST? everything for_me+ (keep_last|remember)",
        "REQUEST? everything? said (for_me|for_later)+ (keep_last|remember)",
        f"REQUEST? about? {_KEPT} for_me* (keep_last|remember)",
        f"REQUEST? (move|turn_verb|turns) {_KEPT} to_you",
        f"want {_KEPT} (for_me* {_KEEP_DONE} for_me*)",
        f"REQUEST? leave {_KEPT} for_me+",
        f"(REQUEST|want) {_KEPT} you_keep for_me*",
    ),
    _polite("policy", "withhold", said(attributes={"withhold": ["location"]}), "location should_not shared to_anyone?"),
    _polite("context", "keeper server", said(keeper="server"), f"{_KEPT} (should|shall) for_me* {_KEEP_DONE} for_me*"),
    _polite("context", "keeper server", said(keeper="server"), f"you keep {_KEPT} for_me*"),
    _polite(
        "context",
        "keeper server",
        said(keeper="server"),
        ("REQUEST? (remember everything? said|everything? said (remember|keep_last))"),
    ),
    *_act(
        "limits",
        "limits",
        size,
        f"{_ASK} reply_verb in? below number unit",
        f"(want|propose|REQUEST)? (make|agree)? {_NAMED_LIMIT} messages? in? {_BOUND}? number unit agree?",
        f"(messages|replies|size|reply_size)+ {_BOUND} number unit (per_message|limit|receive)*",
        f"{_BOUND} number unit {_AFTER_UNIT} should?",
        f"{_ASK} keep (messages|replies|size|reply_size|per_message)+ to number unit {_AFTER_UNIT}",
        f"{_ASK} {_SIZED} {_BOUND}? number unit {_AFTER_UNIT}",
        f"(messages|replies|size)+ {_BOUND} number unit limit",
        f"(want|propose|REQUEST) agree? (limits|limit)? {_BOUND}? number unit {_AFTER_UNIT} agree?",
        f"{_CAN_ONLY} messages? below? number unit (per_message|messages|replies|at_once_whole|receive)*",
        needs=("limit", "limits", "below", "below_sent", "can_only", "only_takes", "size", "reply_size", "keep"),
    ),
    *_act(
        "limits",
        "limits",
        size,
        f"{_ASK} (make|limit) limits? (size|reply_size|limits) (messages|replies)* {_BOUND} number unit",
    ),
    *_act(
        "limits",
        "limits",
        rate,
        f"{_ASK} (limit|send|make|only|replies|messages|requests)* {_BOUND}? number (requests|messages) per",
        f"{_ASK} (send|make)? only number (requests|messages) per",
        f"{_CAN_ONLY} number (requests|messages) per receive?",
        f"{_ASK} {_RATED} {_BOUND}? number (requests|messages) per below?",
        f"(want|propose|REQUEST) agree? (limits|limit)? {_BOUND}? number (requests|messages) per agree?",
        needs=("limit", "limits", "below", "only", "can_only", "only_takes"),
    ),
    *_act(
        "limits",
        "limits",
        proposed("depth"),
        f"{_ASK} (limit|make|keep)? depth {_BOUND}? number level?",
        f"{_ASK} limit? {_BOUND} number level",
        needs=("limit", "below"),
    ),
    *_act(
        "limits",
        "limits",
        proposed("submessages"),
        f"{_ASK} (limit|send|make|only|messages)* {_BOUND} number submessages",
        f"{_ASK} limit submessages {_BOUND} number",
        needs=("limit", "below"),
    ),
    *_act(
        "accept",
        "formats",
        reads,
        f"{_READS_ONLY} {_FORMATS} read_rest?",
        "i_read (lang and?)+ read_rest?",
        "i_read format (and? format)+ read_rest?",
        f"i_read only {_FORMATS}",
        f"i_read {_FORMATS} only",
        f"can_only in? {_FORMATS} (read_rest|receive)?",
        f"(REQUEST|want)? reply_verb only? (in|to)? only? {_FORMATS} only?",
        f"REQUEST? only (reply_verb|send) (in|to)? {_FORMATS}",
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
        f"device only_takes {_FORMATS}",
        f"replies? (want|would_like) replies? only? (in|to)? {_FORMATS} only?",
        f"(want|REQUEST) replies (should|stay|be_sized)? only? (in|to)? {_FORMATS} only?",
        f"replies only (in|to)? {_FORMATS}|replies (in|to) {_FORMATS} only",
        "(in|to)? lang instead",
        "(REQUEST|let_us)? stay (in|to)* lang (in|self)*",
        "(REQUEST|want|let_us) talk (in|to)* lang",
    ),
    ControlAct("accept", "formats", ("(in|to)? lang (reply_verb|replies)?"), reads, needs_please=True),
    ControlAct("accept", "formats", (f"only (in|to)? {_FORMATS}|(in|to)? {_FORMATS} only|{_FORMATS} else"), reads),
    _polite(
        "accept",
        "formats",
        reads,
        f"replies (should|shall)? only? (in|to)? only? {_FORMATS} only?|(in|to)? {_FORMATS} (should|shall) replies",
    ),
    *_act(
        "accept",
        "formats",
        does_not_read,
        "(i_cannot_read|device cannot_read) format ((and)? format)* read_rest?",
        "REQUEST? (neg send neg?|send neg) format ((and)? format)*",
    ),
    *_act(
        "stream",
        "stream off",
        said(on=False),
        "REQUEST? neg (stream replies?|send neg? partial|partial)",
        "REQUEST? end_all partial send",
        "REQUEST? send (neg|stop) partial",
        "(want|REQUEST? send) whole_answers per_message",
        "REQUEST? neg (stream|send) neg (partial|replies)?",
        "REQUEST? neg replies stream",
        "(REQUEST|want|let_us)? (stop|leave|off|end) (stream|partial|send partial) replies?",
        "REQUEST? stop replies (stream|partial send?)",
        "REQUEST? stop (stream|send|reply_verb) (replies|partial)? as_they_come+",
        "REQUEST? neg+ (stream|send|reply_verb) neg? (replies|partial)? as_they_come+ neg?",
        "(REQUEST|want|let_us)? (turn_verb|turns) (stream|partial) off",
        "(REQUEST|want|send)* only whole_answers",
        "(REQUEST|want|send)+ whole_answers only",
        "(stream|partial) off",
        "(REQUEST|want|let_us)? (turn_verb|turns) off (stream|partial)",
        "REQUEST? (turn_verb|turns) (off (stream|partial)|(stream|partial) off) want whole_answers",
        "REQUEST? stream (leave|stop|neg)",
        "send only whole_answers",
        "REQUEST? back_to send? whole_answers",
        "REQUEST? only (send|show) to_me? replies at_once_whole",
        "REQUEST? (send|show) to_me? replies only at_once_whole",
        "(REQUEST|want)? send? only? whole_answers and? (neg|stop) (partial|stream|as_they_come)",
        "REQUEST? send only? whole_answers neg (stream|partial)",
        "(REQUEST|want)? (send|reply_verb|show)? (replies|whole_answers)? only? at_once_whole",
        "(want receive?|would_like) (replies|whole_answers) receive? at_once_whole receive?",
        f"REQUEST? {_WAIT} before_sent?",
        f"(REQUEST? (neg send neg?|neg) (partial|replies stream)|REQUEST? stop (partial|stream|send partial)) {_WAIT}",
        "(want|REQUEST) (receive|send)? whole_answers receive? at_once_whole? receive?",
        "REQUEST? (stop|leave|end) (send|make_me)? (stream|partial)+ send?",
        "whole_answers only|only whole_answers",
        "whole_answers at_once_whole",
        "send to_me? whole_answers at_once_whole?",
        "replies only? at_once_whole only?",
        "neg replies as_they_come",
        "(want|REQUEST)? neg (receive|send)? (replies|partial) as_they_come",
        "(want_not|no_longer) (receive|send)? (stream|partial|streamed|replies as_they_come)+ (receive|send)?",
    ),
    ControlAct("stream", "stream off", "replies (should|shall) at_once_whole", said(on=False), needs_please=True),
    ControlAct(
        "stream", "stream on", "replies (should|shall) (streamed|as_they_come)", said(on=True), needs_please=True
    ),
    *_act(
        "stream",
        "stream on",
        said(on=True),
        "(REQUEST|want)? (stream|send stream) replies? to_me? as_they_come?",
        "(REQUEST|want)? (stream|send) to_me? replies stream",
        "(REQUEST|want)? send partial as_they_come?",
        "want partial as_they_come?",
        "want replies (in|to)? (stream|streamed)",
        "REQUEST? make_me partial",
        "(REQUEST|want)? (send|reply_verb|show) to_me? replies? as_they_come+",
        "(want (receive|look|show|happens)?|would_like) replies receive? as_they_come+ receive?",
        "want (receive|send)? streamed replies",
        "want (receive|send)? replies (receive|send)? streamed",
        "partial as_they_come",
        "REQUEST? start_send replies? to_me? as_they_come*",
        "(REQUEST|want)? (send|reply_verb|show|receive) replies? as_they_come+ (send|receive|show)?",
        "(REQUEST|want)? (stay|make_me|on) (stream|partial)",
        "(REQUEST|want)? (turn_verb|turns) (stream|partial) (on|prefix)",
        "(REQUEST|want)? (turn_verb|turns) on (stream|partial)",
        "REQUEST replies stream",
        "REQUEST partial send",
        "(stream|partial) on",
        "replies (in|to)? (stream|as_they_come)",
        "(REQUEST|want)? (show|send) to_me? replies as_they_come",
        "show partial",
        "REQUEST partial send as_they_come",
        "REQUEST? back_to stream",
        "will (show|receive|look|happens)? replies (show|receive|look)? as_they_come",
        "want (receive|see)? (replies|partial) (streamed|as_they_come)+ (receive|see)?",
        "(REQUEST|want)? (make_me|use|turn_verb on) (stream|partial)",
        "no_wait is_ready? (start_send|send|show) (replies|partial)*",
    ),
)
