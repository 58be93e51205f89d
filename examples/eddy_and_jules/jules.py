"""Jules: debugs and refactors Python code. Any client can ask it, over ACL and every other protocol of the gateway.

It fixes off-by-one errors by itself. With ``JULES_MODEL=openai:MODEL`` in the environment (and ``JULES_MODEL_URL`` for
your own service) it asks that model about other bugs, and also runs the model's suggestions in the sandbox.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import re
from typing import Any

from refactor import suggestions
from repair import Repair, repair
from sandbox import run

from sabir import Card, Message, Skill, Turn, agent, json_part, text_part
from sabir.agents.llm import BackendSettings, model_agent
from sabir.errors import TurnFailed

CARD = Card(
    "Jules",
    "A coding assistant: debugs Python programs in a sandbox, and suggests refactorings",
    skills=(
        Skill(
            "EXECUTE_DELEGATED_CODING_TASK",
            "Execute a delegated coding task",
            "Runs the program, finds the bug, and returns the fixed code with a diff",
            tags=("python", "debugging"),
            input_schema={
                "type": "object",
                "properties": {
                    "code_to_debug": {"type": "string"},
                    "programming_language": {"type": "string"},
                    "error_log": {"type": "string"},
                    "desired_outcome": {"type": "string"},
                },
                "required": ["code_to_debug", "programming_language", "desired_outcome"],
            },
        ),
        Skill("refactor_code_snippet", "Suggest refactorings", "Renames and extracts, as diffs", tags=("refactoring",)),
    ),
)


INSTRUCTIONS = (
    "You fix Python programs. Answer with the whole fixed program in one code block, then one sentence that says what "
    "was wrong. Change as little as possible."
)


@agent(card=CARD)
async def jules(turn: Turn) -> Message:
    given = next((part.value for part in turn.parts if part.format == "structured"), None)
    parameters: dict[str, Any] = given if isinstance(given, dict) else {}
    if "code_snippet" in parameters:
        return refactored(str(parameters["code_snippet"]))
    code = parameters.get("code_to_debug")
    if not isinstance(code, str):
        raise TurnFailed("I need code: code_to_debug, or code_snippet for a refactoring")
    found = await asyncio.to_thread(repair, code)
    if found.fixed is None and not (found.outcome.ok or found.outcome.crashed):
        found = await with_model(turn, code, found)
    return debugged(code, found)


async def with_model(turn: Turn, code: str, found: Repair) -> Repair:
    """Ask the configured model, if there is one; its suggestion counts if it runs."""
    kind, _, model = os.environ.get("JULES_MODEL", "").partition(":")
    if not model:
        return found
    backend = BackendSettings(type=kind, model=model, base_url=os.environ.get("JULES_MODEL_URL"))
    coder = model_agent("coder", backend, system_message=INSTRUCTIONS)
    reply = await turn.call(coder, f"{found.outcome.error} in line {found.outcome.line}:\n```python\n{code}```")
    block = re.search(r"```(?:python)?\n(.*?)```", reply.text, re.DOTALL)
    if block is None or not (await asyncio.to_thread(run, block.group(1))).ok:
        return found
    return dataclasses.replace(found, fixed=block.group(1), explanation=reply.text[block.end() :].strip())


def debugged(code: str, found: Repair) -> Message:
    """The result of a debugging task. A bug that was not found is a result; a broken sandbox is a failure."""
    if found.outcome.crashed:
        raise TurnFailed(f"the sandbox ended the program: {found.outcome.error}")
    if found.outcome.ok:
        details = {"task_status": "success", "original_code": code, "fixed_code": code, "diff": ""}
        details["explanation"] = "The program runs without an error."
        return Message.of(text_part("The program runs; there is nothing to fix."), json_part(details))
    if found.fixed is None:
        details = {
            "task_status": "failure",
            "error_encountered": found.outcome.error,
            "analysis": f"The program stops in line {found.outcome.line} with {found.outcome.error}; "
            "no change of one expression makes it run.",
        }
        return Message.of(text_part("Analysis complete, bug identified but not fixed."), json_part(details))
    details = {
        "task_status": "success",
        "original_code": code,
        "fixed_code": found.fixed,
        "diff": found.diff(code),
        "explanation": f"{found.outcome.error} in line {found.outcome.line}. {found.explanation}",
        "tests_passed": True,  # only running code counts as fixed
        "tests": ["the fixed program runs to its end in the sandbox"],
    }
    return Message.of(text_part("Bug fixed and tested."), json_part(details))


def refactored(snippet: str) -> Message:
    found = suggestions(snippet)
    summary = "Refactoring suggestions provided." if found else "There is nothing to suggest."
    return Message.of(text_part(summary), json_part({"original_snippet": snippet, "suggestions": found}))
