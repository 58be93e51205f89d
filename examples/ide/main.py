"""An editor asks an agent about the selected lines over ACL, as ``sabir ide FILE --select 1:3 refactor`` does."""

import asyncio
import difflib
import re

from sabir import Message, Messenger, Turn, agent, json_part, text_part
from sabir.testing import served

SELECTED = "l = load()\nfor x in l:\n    print(x)\n"


@agent(description="Suggests better names")
async def reviewer(turn: Turn) -> Message:
    asked = next(part.content for part in turn.parts if part.format == "structured")
    code = asked["code_snippet"]
    better = re.sub(r"\bx\b", "row", re.sub(r"\bl\b", "rows", code))
    diff = "".join(
        difflib.unified_diff(code.splitlines(keepends=True), better.splitlines(keepends=True), "before", "after")
    )
    found = [{"description": "Use descriptive variable names.", "suggested_code_diff": diff}] if better != code else []
    return Message.of(text_part(f"{len(found)} suggestion"), json_part({"suggestions": found}))


async def main() -> None:
    payload = {
        "task_type": "refactor_code",
        "task_description": "Suggest a refactoring",
        "task_parameters": {"code_snippet": SELECTED, "programming_language": "python"},
    }
    with served(reviewer) as url:
        async with Messenger(url, "editor") as editor:
            async for message in await editor.open("TASK_REQUEST", "reviewer", payload):
                print(message.performative)
                if message.performative == "INFORM_RESULT":
                    suggestion = message.payload["result_details"]["suggestions"][0]
                    print(suggestion["description"])
                    print(suggestion["suggested_code_diff"].strip())


if __name__ == "__main__":
    asyncio.run(main())
