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

BODY = "x" * 1024
HOST = "localhost"
PINGS = 500
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
            await self.send(Message(to=str(message.sender), body=message.body))
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
    # By the median, on both sides: other work on the machine disturbs the mean.
    middle = statistics.median(times)
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
    say(one_way=count / took, ask=asked(sending.times))
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
    say(ask=asked(sending.times))
    await agent.stop()


if __name__ == "__main__":
    role, count, port = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    spade.run({"inprocess": inprocess, "receiver": receiver, "sender": sender}[role](count, port))
