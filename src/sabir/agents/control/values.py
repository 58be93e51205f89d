"""What the words of an act agree on: a size, a rate, formats, a number of turns. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from .lexicon import Sentence

Values = Callable[[Sentence], Mapping[str, Any]]


def said(**values: Any) -> Values:
    return lambda sentence: values


def accepted(sentence: Sentence) -> Mapping[str, Any]:
    return {"accept": sorted(set(sentence.values("kind"))) or ["*"]}


def window(sentence: Sentence) -> Mapping[str, Any]:
    return {"window": int(sentence.number())}


def size(sentence: Sentence) -> Mapping[str, Any]:
    bounds_replies = sentence.has(
        "replies", "reply_size", "reply_verb", "send", "use", "can_only", "only_takes", "below_sent"
    ) and not only_messages(sentence)
    size = int(sentence.number() * int(sentence.values("unit")[0]))
    return {"propose": {"reply" if bounds_replies else "body": size}}


def only_messages(sentence: Sentence) -> bool:
    return sentence.has("messages") and not sentence.has("replies", "can_only", "only_takes", "send", "below_sent")


def rate(sentence: Sentence) -> Mapping[str, Any]:
    return {"propose": {"rate_per_minute": sentence.number() * float(sentence.values("per")[0])}}


def proposed(name: str) -> Values:
    return lambda sentence: {"propose": {name: int(sentence.number())}}


ALL_FORMATS: Final = (
    "text", "structured/json", "structured/uri", "structured/html", "structured/xml", "binary/image", "binary/audio",
    "binary/video", "binary/sensor", "binary/generic", "location", "generic",
)  # fmt: skip


def reads(sentence: Sentence) -> Mapping[str, Any]:
    terms: dict[str, Any] = {}
    if formats := sorted(set(sentence.values("format"))):
        terms["formats"] = formats
    if languages := sorted(set(sentence.values("lang"))):
        terms["languages"] = languages
    return terms


def does_not_read(sentence: Sentence) -> Mapping[str, Any]:
    unread = set(sentence.values("format"))
    kept = [item for item in ALL_FORMATS if item not in unread and item.partition("/")[0] not in unread]
    return {"formats": kept}
