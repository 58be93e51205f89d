"""A middle agent: a server to its clients, a client to another agent, with its own logic in between (DEP-MID).

It removes what the other agent need not know, asks it, and adds a sentence. The client's identity, tokens and
credentials stay here; the question is sent under this agent's own name.
"""

import re
import sys

from sabir import Agent, Gateway, Message, Turn, agent, connect, reply_of

NUMBERS = re.compile(r"\b\d{4,}\b")


def discreet(expert: Agent):
    @agent(name="discreet", description="Asks an expert without saying who you are")
    async def middle(turn: Turn) -> str:
        question = Message.text(NUMBERS.sub("[number]", turn.text))
        answer = await reply_of(expert(turn.sub(question, expert)))
        return f"The expert says: {answer.text}"

    return middle


def gateway(expert_url: str, home: str = ".sabir") -> Gateway:
    expert = connect(expert_url, name="expert")
    return Gateway(discreet(expert), home=home, beside=[expert])


if __name__ == "__main__":
    expert_url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"  # what `make run` serves
    gateway(expert_url, ".sabir-middle").run(port=8081)
