"""SPADE's side of ``bench/bus.py``; runs in an environment of its own, with SPADE's own XMPP server beside it.

    spade_bus.py inprocess COUNT PORT     two agents in one process (its container delivers without XMPP)
    spade_bus.py receiver COUNT PORT      the receiving agent, for a sender in another process
    spade_bus.py sender COUNT PORT

The result is one line of JSON on standard output.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time

import spade
from spade.agent import Agent
from spade.behaviour import CyclicBehaviour, OneShotBehaviour
from spade.message import Message
from spade.template import Template

BODY = "x" * 1024
HOST = "localhost"
PINGS = 1_000
BLOCK = 200
ASKERS = 16
# Other names in process and between processes: the server may still hold the session of a name that has just left.
WHERE = "inside" if sys.argv[1:2] == ["inprocess"] else "between"


def say(**result: object) -> None:
    print(json.dumps(result), flush=True)


class Receiving(CyclicBehaviour):
    """Counts what comes; answers what asks for it."""

    count = 0
    expected = 0
    done: asyncio.Event

    async def run(self) -> None:
        message = await self.receive(timeout=10)
        if message is None:
            return
        if message.get_metadata("ask") == "yes":
            back = {"asker": message.get_metadata("asker") or "0"}
            await self.send(Message(to=str(message.sender), body=message.body, metadata=back))
            return
        self.count += 1
        if self.count == self.expected:
            self.done.set()


class Sending(OneShotBehaviour):
    """Sends so many, then asks so many times."""

    count = 0
    to = ""
    sent: asyncio.Event
    go_on: asyncio.Event
    finished: asyncio.Event
    times: list[float]
    began = 0.0

    async def run(self) -> None:
        self.began = time.time()
        for _ in range(self.count):
            await self.send(Message(to=self.to, body=BODY))
        self.sent.set()
        await self.go_on.wait()
        self.times = []
        lost = 0  # now and then one is; the time of those does not count
        while len(self.times) < PINGS and lost < 5:
            begun = time.perf_counter()
            await self.send(Message(to=self.to, body=BODY, metadata={"ask": "yes"}))
            if await self.receive(timeout=5) is None:
                lost += 1
            else:
                self.times.append(time.perf_counter() - begun)
        self.finished.set()


class Asking(OneShotBehaviour):
    """One of several that ask at the same time; a number of its own brings it its answers."""

    def __init__(self, number: int, to: str, count: int) -> None:
        super().__init__()
        self.number = str(number)
        self.to = to
        self.count = count
        self.answered = 0
        self.finished = asyncio.Event()

    async def run(self) -> None:
        for _ in range(self.count):
            about = {"ask": "yes", "asker": self.number}
            await self.send(Message(to=self.to, body=BODY, metadata=about))
            if await self.receive(timeout=5) is None:
                break
            self.answered += 1
        self.finished.set()


async def asked_by_many(agent: Agent, to: str) -> dict[str, float]:
    askers = [Asking(n + 1, to, PINGS // ASKERS) for n in range(ASKERS)]
    begun = time.perf_counter()
    for asker in askers:
        agent.add_behaviour(asker, Template(metadata={"asker": asker.number}))
    for asker in askers:
        await asker.finished.wait()
    return {"per_second": sum(asker.answered for asker in askers) / (time.perf_counter() - begun)}


def receiver_of(count: int, port: int) -> tuple[Agent, Receiving]:
    agent = Agent(f"receiver-{WHERE}@{HOST}", "secret", port=port, verify_security=False)
    behaviour = Receiving()
    behaviour.expected, behaviour.done = count, asyncio.Event()
    agent.add_behaviour(behaviour)
    return agent, behaviour


def sender_of(count: int, port: int) -> tuple[Agent, Sending]:
    agent = Agent(f"sender-{WHERE}@{HOST}", "secret", port=port, verify_security=False)
    behaviour = Sending()
    behaviour.count, behaviour.to = count, f"receiver-{WHERE}@{HOST}"
    behaviour.sent, behaviour.go_on, behaviour.finished = asyncio.Event(), asyncio.Event(), asyncio.Event()
    agent.add_behaviour(behaviour)
    return agent, behaviour


def asked(times: list[float]) -> dict[str, float]:
    # By the median of the best block, on both sides: other work on the machine disturbs the mean.
    middle = min(statistics.median(times[n : n + BLOCK]) for n in range(0, len(times), BLOCK))
    return {"per_second": 1 / middle, "p50_ms": middle * 1000}


async def inprocess(count: int, port: int) -> None:
    receiver, receiving = receiver_of(count, port)
    await receiver.start(auto_register=True)
    sender, sending = sender_of(count, port)
    await sender.start(auto_register=True)
    await receiving.done.wait()
    took = time.time() - sending.began
    sending.go_on.set()
    await sending.finished.wait()
    many = await asked_by_many(sender, sending.to)
    say(one_way=count / took, ask=asked(sending.times), ask16=many)
    await sender.stop()
    await receiver.stop()


async def receiver(count: int, port: int) -> None:
    agent, receiving = receiver_of(count, port)
    await agent.start(auto_register=True)
    say(ready=True)
    await receiving.done.wait()
    say(received=receiving.count, at=time.time())
    await asyncio.to_thread(sys.stdin.readline)
    await agent.stop()


async def sender(count: int, port: int) -> None:
    agent, sending = sender_of(count, port)
    await agent.start(auto_register=True)
    await sending.sent.wait()
    say(began=sending.began)
    await asyncio.to_thread(sys.stdin.readline)
    sending.go_on.set()
    await sending.finished.wait()
    say(ask=asked(sending.times), ask16=await asked_by_many(agent, sending.to))
    await agent.stop()


if __name__ == "__main__":
    role, count, port = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    spade.run({"inprocess": inprocess, "receiver": receiver, "sender": sender}[role](count, port))
