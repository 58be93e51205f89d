"""What each protocol loses of each row, as sentences of its wire's ``LOSSES``; and the page that shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sabir.protocols.a2a.wire import content as a2a
from sabir.protocols.acl.wire import content as acl
from sabir.protocols.mcp.wire import content as mcp
from sabir.protocols.nlip.wire import json as nlip
from sabir.protocols.nlweb import wire as nlweb

LOSSES: Mapping[str, Sequence[str]] = {
    "nlip": nlip.LOSSES,
    "nlweb": nlweb.LOSSES,
    "mcp": mcp.LOSSES,
    "a2a": a2a.LOSSES,
    "acl": acl.LOSSES,
}
TITLES = {"nlip": "NLIP", "nlweb": "NLWeb", "mcp": "MCP", "a2a": "A2A", "acl": "ACL"}

# How each protocol says the row, for people: NLIP, NLWeb, MCP, A2A, ACL.
_WAYS = {
    "text": (
        "message",
        "`query.text`, `content`",
        "`tools/call`, text block",
        "message, text part",
        "`TASK_REQUEST`, `INFORM_RESULT`",
    ),
    "image": ("`binary/image/png`", "–", "image block", "`raw` part", "`artifacts`"),
    "structured data": (
        "`structured/json`",
        "JSON in `content`",
        "`structuredContent`",
        "`data` part",
        "`result_details`",
    ),
    "conversation over 3 turns": ("token", "`session_context`", "`conversation`", "`contextId`", "`conversation_id`"),
    "stream": ("SSE, partial messages", "SSE, `content`", "progress", "SSE, artifact updates", "`INFORM_PROGRESS`"),
    "long task": ("`respond-async`, 202", "Promise, `/await`", "task", "task", "`TASK_ACCEPT`, `INFORM_RESULT`"),
    "question to the caller": (
        "part `question`",
        "Elicitation",
        "elicitation",
        "`input-required`",
        "`REQUEST_INPUT`",
    ),
    "failure": ("`messagetype: error`", "Failure", "`isError` or error", "failed task", "`FAILURE`"),
    "cancel": ("`DELETE` of the task", "`/await` cancel", "cancelled", "`CancelTask`", "`CANCEL`"),
    "self-description": ("control", "`/who`", "`tools/list`", "agent card", "`QUERY_CAPABILITIES`"),
}
WAYS: Mapping[str, Mapping[str, str]] = {row: dict(zip(TITLES, said, strict=True)) for row, said in _WAYS.items()}

# (protocol, row): what is lost where the client speaks it, and where the gateway knows the agent by it.
TO_CLIENTS: Mapping[tuple[str, str], str] = {
    ("nlweb", "image"): "the bytes of binary parts: the reply names their kind and size",
}
FROM_AGENTS: Mapping[tuple[str, str], str] = {
    ("nlweb", "image"): "the bytes of binary parts: the reply names their kind and size",
    ("mcp", "stream"): "streamed pieces of text, which arrive as progress notes",
}
RELAYED = frozenset({("mcp", "mcp")})  # passed on as it is, so nothing is lost between


def lost(client: str, agent: str, row: str) -> str | None:
    """The sentence that says what does not cross; None if all of it does."""
    if (client, agent) in RELAYED:
        return None
    return FROM_AGENTS.get((agent, row)) or TO_CLIENTS.get((client, row))


def page(outcomes: Mapping[tuple[str, str, str], bool]) -> str:
    """``docs/bridge.md``: made of what the tests saw."""
    names = list(TITLES)
    notes: dict[str, int] = {}
    lines = [
        "# The bridge",
        "",
        "A client of one protocol can talk to an agent that the gateway reaches over another. This page shows what is",
        "lost on the way, for people who choose protocols. `tests/suites/bridge/test_bridge.py` runs every pair over",
        "real sockets and writes this page: do not edit it.",
        "",
        "## The same thing in each protocol",
        "",
        "| | " + " | ".join(TITLES.values()) + " |",
        "|---|" + "---|" * len(names),
        *("| " + " | ".join([row, *(ways[name] for name in names)]) + " |" for row, ways in WAYS.items()),
        "",
        "## What crosses",
        "",
        "Each table is for the clients of one protocol; its columns are the protocols of the agent. ✓ means that",
        "nothing is lost that a client of this protocol can receive. A number refers to the list of losses below the",
        "tables.",
        "",
    ]
    for client in names:
        lines += [
            f"### {TITLES[client]} clients",
            "",
            "| | " + " | ".join(f"→ {TITLES[agent]}" for agent in names) + " |",
            "|---|" + "---|" * len(names),
        ]
        for row in WAYS:
            cells = []
            for agent in names:
                if outcomes[client, agent, row]:
                    cells.append("✓")
                else:
                    sentence = lost(client, agent, row) or "?"
                    cells.append(str(notes.setdefault(sentence, len(notes) + 1)))
            lines.append(f"| {row} | " + " | ".join(cells) + " |")
        lines.append("")
    lines += ["Losses:", "", *(f"{number}. {sentence}" for sentence, number in notes.items()), ""]
    lines += ["## What each protocol cannot carry", ""]
    for name in names:
        lost_parts = [f"- {sentence}" for sentence in LOSSES[name]] or ["Nothing is lost."]
        lines += [f"### {TITLES[name]}", "", *lost_parts, ""]
    return "\n".join(lines).rstrip() + "\n"
