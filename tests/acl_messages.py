"""The JSON blocks of the draft, and messages to try things with."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_TEXT = (Path(__file__).parent / "protocols" / "acl" / "draft_blocks.md").read_text()
# act (or "envelope") and the block as it stands, comments and all.
BLOCKS: list[tuple[str, str]] = re.findall(r"## (\w+)\n\n```json\n(.*?)```", _TEXT, re.DOTALL)

# What the draft writes where a word is to be chosen, and one of those words (ACL-5).
TEMPLATE_WORDS = {
    '"PERFORMATIVE_TYPE"': '"TASK_REQUEST"',
    '"success | failure | partial_success"': '"success"',
    '"summary | specific | action_details"': '"summary"',
    '"ISO_8601_datetime_utc"': '"2026-11-16T18:00:00Z"',
}

# A payload for each act, also in the documentation.
PAYLOADS: dict[str, dict[str, Any]] = {
    "TASK_REQUEST": {"task_type": "ask", "task_description": "Say hello"},
    "TASK_ACCEPT": {"status": "accepted", "estimated_completion_time": 300},
    "INFORM_RESULT": {"task_status": "success", "result_summary": "Hello", "result_details": {}},
    "QUERY_IF": {"condition": {"agent_status": {"agent_id": "jules", "is_busy": False}}},
    "QUERY_REF": {"reference": "agent_capabilities"},
    "TASK_REJECT": {"status": "rejected", "reason_code": "busy"},
    "FAILURE": {"status": "failure", "error_code": "internal_error", "error_text": "The sandbox crashed"},
    "NOT_UNDERSTOOD": {"reason_code": "unknown_performative"},
    "QUERY_CAPABILITIES": {"query_type": "summary"},
    "INFORM_CAPABILITIES": {"status": "success", "capabilities": {"topics": ["python"], "actions": []}},
    "INFORM_IF": {"result": True},
    "INFORM_REF": {"reference": "latest_commit_hash", "value": "c9f3d74"},
    "INFORM_PROGRESS": {"fraction": 0.5, "note": "half way"},
    "REQUEST_INPUT": {"question": "Which file?", "schema": {"type": "object"}},
    "INFORM_INPUT": {"answer": "main.py"},
    "CANCEL": {"reason_text": "no longer needed"},
    "INFORM_DONE": {},
    "SUBSCRIBE": {"topic": "directory", "template": {"skills": ["python"]}, "lease_seconds": 60},
    "NOTIFY": {"topic": "directory", "event": {"kind": "registered"}},
    "RENEW": {"lease_seconds": 60},
    "CALL_FOR_PROPOSALS": {"task_type": "paint", "task_description": "Paint a heron"},
    "PROPOSE": {"proposal": {"days": 2}, "price": 10.0},
    "ACCEPT_PROPOSAL": {},
    "REJECT_PROPOSAL": {"reason_text": "too expensive"},
}


def message(act: str = "TASK_REQUEST", **more: Any) -> dict[str, Any]:
    """A message of this act from eddy to jules."""
    given = {
        "mcp_version": "0.1.0",
        "message_id": "msg_eddy_1",
        "performative": act,
        "sender": {"agent_id": "eddy"},
        "receiver": {"agent_id": "jules"},
        "language": "application/json",
        "ontology": "elizaos:ontology:code/python/debug_request",
        "timestamp": "2026-11-16T18:00:00Z",
        "payload": PAYLOADS[act],
    }
    return {**given, **more}
