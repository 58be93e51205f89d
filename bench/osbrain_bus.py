"""osBrain's side of ``bench/acl.py``: two agents in separate processes, over ZeroMQ; runs in its own environment.

It takes commands as lines on standard input (``send N``, ``ask N``), and answers each with a line of JSON. Its messages
are not stored.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time

os.environ["OSBRAIN_DEFAULT_TRANSPORT"] = "tcp"

from osbrain import run_agent, run_nameserver

BODY = os.environ["BODY"]


def count(agent: object, message: str) -> None:
    agent.received += 1  # type: ignore[attr-defined]
    agent.last = time.time()  # type: ignore[attr-defined]


def reply(agent: object, message: str) -> str:
    return message


def send_all(agent: object, number: int) -> float:
    began = time.time()
    for _ in range(number):
        agent.send("main", BODY)  # type: ignore[attr-defined]
    return began


def ask_all(agent: object, number: int) -> list[float]:
    times = []
    for _ in range(number):
        begun = time.perf_counter()
        agent.send("ask", BODY)  # type: ignore[attr-defined]
        agent.recv("ask")  # type: ignore[attr-defined]
        times.append(time.perf_counter() - begun)
    return times


def main() -> None:
    nameserver = run_nameserver()
    sender, receiver = run_agent("sender"), run_agent("receiver")
    receiver.set_attr(received=0, last=0.0)
    receiver.connect(sender.bind("PUSH", alias="main"), handler=count)
    sender.connect(receiver.bind("REP", alias="ask", handler=reply), alias="ask")
    sender.set_method(send_all=send_all, ask_all=ask_all)
    print(json.dumps({"ready": True}), flush=True)
    while words := sys.stdin.readline().split():
        if words[0] == "send":
            receiver.set_attr(received=0)
            began = sender.send_all(int(words[1]))
            while receiver.get_attr("received") < int(words[1]):
                time.sleep(0.01)
            print(json.dumps({"per_second": int(words[1]) / (receiver.get_attr("last") - began)}), flush=True)
        else:
            print(json.dumps({"p50": statistics.median(sender.ask_all(int(words[1])))}), flush=True)
    nameserver.shutdown()


if __name__ == "__main__":
    main()
