"""The reference server over AMQP 1.0, behind a real broker, by proton's reactor in one thread for all agents."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import cbor2
from proton import Delivery, Message
from proton.handlers import MessagingHandler
from proton.reactor import ApplicationEvent, Container, EventInjector

from deadline import DEADLINE

from . import rules
from .agent import Agent, Letter, Reply, encode, error
from .rules import Rejected

JSON, CBOR = "application/json", "application/cbor"


class Broker(MessagingHandler):
    """One connection, on which every agent has an address."""

    def __init__(self, url: str, agents: Mapping[str, Agent], stop: EventInjector) -> None:
        super().__init__(auto_accept=False)
        self._url, self._agents, self._stop = url, agents, stop
        self._senders: dict[str, Any] = {}
        self._waiting = set(agents)
        self.ready = threading.Event()

    def on_start(self, event: Any) -> None:
        event.container.selectable(self._stop)
        self._connection = event.container.connect(self._url, allow_insecure_mechs=True, reconnect=False)
        for address in self._agents:
            event.container.create_receiver(self._connection, f"/queue/{address}", name=address)

    def on_link_opened(self, event: Any) -> None:
        self._waiting.discard(event.link.name)
        if not self._waiting:
            self.ready.set()

    def on_stop(self, event: Any) -> None:
        self._connection.close()
        self._stop.close()

    def on_message(self, event: Any) -> None:
        agent = self._agents[event.receiver.name]
        asked = event.message
        for letter in letters(agent, asked):
            changed = agent.faults.letter(asked, letter)
            if changed is not None:
                self._send(event.container, changed)
        event.delivery.update(Delivery.ACCEPTED)
        event.delivery.settle()

    def _send(self, container: Any, letter: Letter) -> None:
        sender = self._senders.get(letter.address)
        if sender is None:
            sender = container.create_sender(self._connection, f"/queue/{letter.address}")
            self._senders[letter.address] = sender
        message = Message(address=letter.to, body=letter.body, inferred=True)
        if letter.content_type is not None:
            message.content_type = letter.content_type
        if letter.correlation_id is not None:
            message.correlation_id = letter.correlation_id
        sender.send(message)


def letters(agent: Agent, asked: Message) -> Iterator[Letter]:
    """The answers to a letter, one for each place it asks for."""
    if asked.user_id and bytes(asked.user_id) != b"guest" and "any user-id" not in agent.faults.quirks:
        return
    body = asked.body.encode() if isinstance(asked.body, str) else bytes(asked.body)
    if isinstance(asked.body, str) and "no strings" in agent.faults.quirks:
        return
    kind = str(asked.content_type).partition(";")[0]
    kind = kind if kind == "None" else kind.lower()
    if kind == "None":  # proton's way to say that there is no value
        kind = JSON if body.lstrip()[:1] == b"{" or "only json" in agent.faults.quirks else CBOR
    reply = _reply(agent, body, kind)
    places = _places(asked, kind)
    correlation = asked.correlation_id
    if isinstance(correlation, memoryview):
        correlation = bytes(correlation)
    if "no wishes" in agent.faults.quirks:
        places = [(asked.reply_to, kind)] if asked.reply_to else []
    if "remembers reply-to" in agent.faults.quirks:
        places = places or [(place, kind) for place in agent.places if place.startswith("nlip-reply")]
        agent.places = {place for place, _ in places}
    if "answers at reply-to too" in agent.faults.quirks and asked.reply_to not in [place for place, _ in places]:
        places = [*places, (asked.reply_to, kind)]
    if "answers twice" in agent.faults.quirks:
        places = [*places, *places]
    for place, wanted in places:
        data = cbor2.dumps(reply) if wanted == CBOR else encode(reply)
        yield Letter(place, data, wanted, correlation, place)


def _places(asked: Message, kind: str) -> list[tuple[str, str]]:
    wishes = {str(key): str(value) for key, value in (asked.properties or {}).items()}
    found = [(value, key.removeprefix("nlip-reply-")) for key, value in wishes.items() if key.startswith("nlip-reply-")]
    places = [(place, wanted if "/" in wanted else kind) for place, wanted in found]
    return places or ([(asked.reply_to, kind)] if asked.reply_to else [])


def _reply(agent: Agent, body: bytes, kind: str) -> Reply:
    ignore = agent.faults.ignore
    try:
        if "sniff" in ignore:
            kind = JSON if body.lstrip()[:1] == b"{" else CBOR
        value = rules.from_cbor(body, ignore) if kind == CBOR else rules.from_json(body, ignore)
        return agent.answer(agent.read(value))
    except Rejected as exc:
        return error(str(exc))


@contextmanager
def behind(url: str, agents: Mapping[str, Agent]) -> Iterator[None]:
    """Every agent at its address of the broker."""
    stop = EventInjector()
    broker = Broker(url, agents, stop)
    container = Container(broker)
    thread = threading.Thread(target=container.run, daemon=True)
    thread.start()
    try:
        assert broker.ready.wait(DEADLINE), "the broker does not open the links"
        yield
    finally:
        stop.trigger(ApplicationEvent("stop"))
        thread.join(DEADLINE)
        assert not thread.is_alive()
