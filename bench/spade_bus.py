"""SPADE's side of ``bench/bus.py``; runs in its own environment, with SPADE's own XMPP server.

    spade_bus.py inside PORT       two agents in one process (its container delivers without XMPP)
    spade_bus.py receiver PORT     the receiving agent, for a sender in another process
    spade_bus.py sender PORT

It takes commands as lines on standard input (``expect N``, ``send N``, ``ask ASKERS N``), and answers each with a line
of JSON; it ends with its input.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import time

import spade
from spade.agent import Agent
from spade.behaviour import CyclicBehaviour, OneShotBehaviour
from spade.message import Message
from spade.template import Template

BODY = os.environ.get("BODY") or "x" * 1024
HOST = "localhost"
SECONDS = 5  # for one answer
# Different names in process and between processes: the server may still hold the session of a name that has just left.
WHERE = "inside" if sys.argv[1:2] == ["inside"] else "between"
TO = f"receiver-{WHERE}@{HOST}"


def say(**result: object) -> None:
    print(json.dumps(result), flush=True)


class Receiving(CyclicBehaviour):
    """Counts messages; answers those that ask for it."""

    count = 0
    expected = 0
    last = 0.0
    done: asyncio.Event

    def expect(self, count: int) -> None:
        self.count, self.expected, self.done = 0, count, asyncio.Event()

    async def run(self) -> None:
        message = await self.receive(timeout=SECONDS)
        if message is None:
            if self.expected and self.count:  # one was lost; count what arrived until then
                self.done.set()
            return
        if message.get_metadata("ask") == "yes":
            asker = message.get_metadata("asker")
            back = {"asker": asker} if asker else {}
            await self.send(Message(to=str(message.sender), body=message.body, metadata=back))
            return
        self.count += 1
        self.last = time.time()
        if self.count == self.expected:
            self.done.set()


class Sending(OneShotBehaviour):
    """Sends a number of messages, one after the other."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count
        self.finished = asyncio.Event()

    async def run(self) -> None:
        for _ in range(self.count):
            await self.send(Message(to=TO, body=BODY))
        self.finished.set()


class Asking(OneShotBehaviour):
    """One asker; a unique name among several brings it its answers."""

    def __init__(self, name: str, count: int) -> None:
        super().__init__()
        self.about = {"asker": name} if name else {}
        self.count = count
        self.times: list[float] = []
        self.finished = asyncio.Event()

    async def run(self) -> None:
        for _ in range(self.count):
            begun = time.perf_counter()
            await self.send(Message(to=TO, body=BODY, metadata={"ask": "yes", **self.about}))
            # Occasionally an answer is lost; its time does not count.
            if await self.receive(timeout=SECONDS) is not None:
                self.times.append(time.perf_counter() - begun)
        self.finished.set()


class Sender:
    """The agent that sends and asks."""

    def __init__(self, port: int) -> None:
        self.agent = Agent(f"sender-{WHERE}@{HOST}", "secret", port=port, verify_security=False)

    async def send(self, count: int) -> dict[str, float]:
        sending = Sending(count)
        began = time.time()
        self.agent.add_behaviour(sending)
        await sending.finished.wait()
        return {"began": began}

    async def ask(self, askers: int, count: int) -> dict[str, float]:
        behaviours = [Asking(f"{n}" if askers > 1 else "", count // askers) for n in range(askers)]
        begun = time.perf_counter()
        for item in behaviours:
            self.agent.add_behaviour(item, Template(metadata=item.about) if item.about else None)
        for entry in behaviours:
            await entry.finished.wait()
        took = time.perf_counter() - begun
        times = [taken for behaviour in behaviours for taken in behaviour.times]
        # One asker by the median, on both sides: other work on the machine disturbs the mean.
        return {"per_second": 1 / statistics.median(times) if askers == 1 else len(times) / took}


async def main(role: str, port: int) -> None:
    # Create only the agents of this process: the container delivers to any that exists.
    receiving, agents = Receiving(), []
    if role != "sender":
        receiver = Agent(TO, "secret", port=port, verify_security=False)
        receiver.add_behaviour(receiving)
        await receiver.start(auto_register=True)
        agents.append(receiver)
    if role != "receiver":
        sender = Sender(port)
        await sender.agent.start(auto_register=True)
        agents.append(sender.agent)
    say(ready=True)
    while words := (await asyncio.to_thread(sys.stdin.readline)).split():
        match words:
            case ["expect", count]:
                receiving.expect(int(count))
                say(expecting=int(count))
                if role == "receiver":
                    await receiving.done.wait()
                    say(received=receiving.count, at=receiving.last)
            case ["send", count]:
                used = time.process_time()
                began = await sender.send(int(count))
                say(**began)
                if role == "inside":
                    await receiving.done.wait()
                    cpu = (time.process_time() - used) / int(count)
                    say(received=receiving.count, at=receiving.last, cpu=cpu)
            case ["ask", askers, count]:
                say(**await sender.ask(int(askers), int(count)))
    for agent in reversed(agents):
        await agent.stop()


if __name__ == "__main__":
    spade.run(main(sys.argv[1], int(sys.argv[2])))
