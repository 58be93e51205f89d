"""Topics of control messages: what a question is about, read loosely, because an answer changes nothing. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Topic:
    """Phrases that name a topic."""

    topic: str
    pattern: str
    is_loose: bool = False  # may be for an agent as well: never read without the label


_TURNS: Final = "(turns|messages|replies|requests)"
_GAP: Final = ".{0,3}"
_STORED: Final = "store_verb|kept"
_FORMAT_WORD: Final = "(formats|format|lang)"
_MINE: Final = "(data|messages|talk|talks|history|said|everything)"


def _topics(rows: Iterable[tuple[str, str]]) -> tuple[Topic, ...]:
    return tuple(Topic(topic, pattern) for topic, pattern in rows)


# Tried in order; the first match counts.
TOPIC_PHRASES: Final = _topics(
    (
        ("upload", f"thing {_GAP} big|upload|big (thing|format)|number unit {_GAP} (thing|format)|send {_GAP} big"),
        ("context", f"window|who {_GAP} (keep|keep_last|(store_verb|kept)) {_GAP} context"),
        ("context", f"(how_many|limits) {_GAP} (history|last) {_GAP} (look|receive|show|happens)"),
        ("authentication", "login"),
        ("limits", f"how_many {_GAP} (requests|messages) {_GAP} per|limits|how_many {_GAP} send"),
        ("limits", f"(size|big) {_GAP} messages|messages {_GAP} (size|big)"),
        ("anonymous", "anonymous|go_anonymous|unnamed|hide .{0,3}name|nobody_knows"),
        (
            "policy",
            f"how_long {_GAP} ((erase|erase_last) {_GAP} {_MINE}|{_MINE} {_GAP} (erased|erase_last|{_STORED}|keep))",
        ),
        ("policy", f"how_long {_GAP} (keep|keep_last|(store_verb|kept)|i_keep|remember|use|we_keep) {_GAP} {_MINE}"),
        ("policy", f"who {_GAP} (messages|data|talk|history|said)"),
        ("history", f"(look|look_back) {_GAP} last {_GAP} {_TURNS}"),
        ("policy", f"((store_verb|kept)|share|happens|use|look|keep) {_GAP} (data|messages|third_parties)"),
        ("policy", f"(happens|share) {_GAP} data|(data|messages|talk) {_GAP} (store_verb|kept)|data {_GAP} share"),
        ("policy", f"how_long {_GAP} ({_MINE} {_GAP} ((store_verb|kept)|keep)|data|messages|said)"),
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
        ("limits", "limit|below|below_sent|can_only|depth|submessages|size|reply_size"),
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
