"""The text of a site agent's answers, and how it reads answers from people. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from sabir.card import Card, Skill
from sabir.events import Field
from sabir.message import Message
from sabir.search import Hit, Ignored, Parsed
from sabir.search.answers.facts import facts
from sabir.search.items.attributes import recalled

_GREETING: Final = re.compile(
    r"\W*(?:(?:hello|hi|hey|hallo|good\s+(?:morning|afternoon|evening|day)|greetings)(?:\s+there)?"
    r"|thanks?|thank\s+you(?:\s+(?:so|very)\s+much)?|help(?:\s+me)?|who\s+are\s+you|what\s+(?:are\s+you|is\s+this)"
    r"|what\s+can\s+(?:you\s+do|i\s+(?:ask|do\s+here))|how\s+does\s+(?:this|it)\s+work)\W*",
    re.IGNORECASE,
)


def is_greeting(text: str) -> bool:
    """Whether somebody only says hello, or asks what can be asked here."""
    return len(text) <= 80 and _GREETING.fullmatch(text) is not None


def site_card(site: str | None, name: str | None, description: str, examples: tuple[str, ...]) -> Card:
    """What a site agent says of itself."""
    title = name or re.sub(r"[^A-Za-z0-9_.-]+", "-", site or "sites").strip("-._") or "site"
    words = description or (f"Answers questions about {site}" if site else "Answers questions about the sites here")
    skill = Skill(
        id="ask",
        name=f"Ask {site or 'the sites'}",
        description="Finds items by words and meaning, with filters, follow-up questions and sources",
        tags=("search", "nlweb", *((site,) if site else ())),
        examples=examples,
    )
    return Card(title, words, skills=(skill,), says=("text", "structured"), site=site, repeatable=True)


def introduction(card: Card) -> str:
    """What can be asked here."""
    examples = [f'"{example}"' for skill in card.skills for example in skill.examples][:3]
    asked = f" Ask, for example: {', '.join(examples)}." if examples else ""
    return f"{card.description.rstrip('.')}.{asked}"


def listing(hits: Sequence[Hit], start: int, parsed: Parsed, note: str, coverage: float) -> str:
    """The results, each with the facts that were asked for."""
    lines = [
        f"{number}. {', '.join((hit.item.name, *facts(hit.item, parsed).values()))}{_short(hit.item.description)}"
        f" ({hit.item.page})"
        for number, hit in enumerate(hits, start + 1)
    ]
    return "\n".join((*lines, *notes(parsed, note, coverage)))


def notes(parsed: Parsed, note: str, coverage: float) -> Iterator[str]:
    """Notes on an answer."""
    if note:
        yield f"({note})"
    for item in parsed.ignored:
        yield f"(I did not go by {_said(item)}: {item.reason}.)"
    if coverage < 1:
        yield "(Part of the site was searched by its words alone: its vectors are still being computed.)"


def nothing(start: int, hint: str, examples: Sequence[str]) -> str:
    """A text that nothing was found, and what there is instead."""
    if start:
        return "No more results."
    return "I found nothing for that." + (
        hint or "".join(f' Ask, for example: "{example}".' for example in examples[:1])
    )


def coming_next(hits: Sequence[Hit], limit: int = 3) -> str:
    """The next events."""
    coming = [(when.start, hit.item.name) for hit in hits if (when := recalled(hit.item).dates.get("startdate"))]
    entries = [f"{name} ({datetime.fromtimestamp(start, UTC):%-d %B %Y})" for start, name in sorted(coming)[:limit]]
    return f" Next: {', '.join(entries)}." if entries else ""


def answers_in(answer: Message, field: Field) -> dict[str, Any]:
    """The answer to the question's field as JSON, by its id."""
    part = answer.labelled("ask")
    if part is not None and isinstance(part.value, dict) and isinstance(part.value.get("answers"), dict):
        return dict(part.value["answers"])
    for item in answer.parts:
        if item.format == "structured" and isinstance(item.value, dict):
            given = item.value.get("answers", item.value)
            if isinstance(given, dict) and field.id in given:
                return {field.id: given[field.id]}
    return {}


def _said(ignored: Ignored) -> str:
    if ignored.name == "text":
        return f'"{ignored.value}"'
    return f'{ignored.name} "{ignored.value}"' if isinstance(ignored.value, str | int | float) else ignored.name


def _short(description: str, limit: int = 140) -> str:
    if not description:
        return ""
    first = description if len(description) <= limit else description[:limit].rsplit(" ", 1)[0] + " …"
    return f": {first}"
