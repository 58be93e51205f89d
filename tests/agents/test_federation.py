"""Federation: fan out, combine, leave out failed members (DEP-FED)."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from conftest import Serve
from sabir.agent import agent, reply_of
from sabir.agents.back_level import BackLevel, audio_part
from sabir.agents.federation import Federation, cheapest, cross_check, price_in
from sabir.errors import SabirError, TurnFailed
from sabir.events import Delta, Progress, Question
from sabir.gateway.gateway import Gateway
from sabir.message import Message, Part, binary_part, json_part, text_part
from sabir.protocols.nlip.peer.http import NlipHttpPeer
from sabir.turn import Turn


def saying(name: str, *said: str | Part | Message) -> Any:
    async def function(turn: Turn) -> Any:
        first = said[0]
        return Message.of(*[text_part(s) if isinstance(s, str) else s for s in said]) if len(said) > 1 else first

    return agent(name=name)(function)


@agent(name="down")
async def down(turn: Turn) -> str:
    raise TurnFailed("out of order")


def asked(text: str = "what?") -> Turn:
    return Turn(Message.text(text), deadline=time.monotonic() + 10)


async def test_answers_are_listed_with_their_sources() -> None:
    reply = await reply_of(Federation([saying("hotel", "a room"), saying("taxi", "a car")])(asked()))
    assert reply.text == "hotel: a room\ntaxi: a car"
    assert reply.labelled("answers").value == {"hotel": "a room", "taxi": "a car"}  # type: ignore[union-attr]


async def test_a_member_that_fails_is_left_out_and_named() -> None:
    reply = await reply_of(Federation([down, saying("up", "here")])(asked()))
    sources = reply.labelled("sources")
    assert sources is not None
    assert sources.value == {"answered": ["up"], "failed": {"down": "out of order"}}


async def test_a_member_that_crashes_is_left_out_like_one_that_is_down(caplog: pytest.LogCaptureFixture) -> None:
    @agent(name="broken")
    async def broken(turn: Turn) -> str:
        raise KeyError("secret of the inside")

    reply = await reply_of(Federation([broken, saying("up", "here")])(asked()))
    assert reply.labelled("sources").value == {"answered": ["up"], "failed": {"broken": "an internal error"}}  # type: ignore[union-attr]
    assert "secret" not in reply.text
    assert "secret of the inside" in caplog.text  # the operator learns it


async def test_prices_in_different_currencies_are_not_compared() -> None:
    shops = [saying("north", "A lamp costs 30 EUR"), saying("south", json_part({"price": 29, "currency": "USD"}))]
    reply = await reply_of(Federation(shops, integrator=cheapest)(asked()))
    assert reply.text.startswith("The offers are in different currencies")
    nonsense = [saying("north", "30 EUR"), saying("south", json_part({"price": "nan"}))]
    reply = await reply_of(Federation(nonsense, integrator=cheapest)(asked()))
    assert reply.text.startswith("north is cheapest, at 30")


async def test_a_member_that_is_late_is_left_out_and_stopped() -> None:
    stopped = asyncio.Event()

    @agent(name="late")
    async def late(turn: Turn) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return "never"

    reply = await reply_of(Federation([late, saying("up", "here")], seconds=1.0)(asked()))
    assert stopped.is_set()
    assert "late" in reply.labelled("sources").value["failed"]  # type: ignore[union-attr]


async def test_too_few_answers_are_a_fault() -> None:
    with pytest.raises(SabirError, match="down: out of order"):
        await reply_of(Federation([down, saying("up", "here")], quorum=2)(asked()))


async def test_going_away_stops_all_members() -> None:
    stopped: list[str] = []

    def waiting(name: str) -> Any:
        async def function(turn: Turn) -> str:
            try:
                await asyncio.Event().wait()
            finally:
                stopped.append(name)
            return ""

        return agent(name=name)(function)

    task = asyncio.create_task(reply_of(Federation([waiting("a"), waiting("b")])(asked())))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sorted(stopped) == ["a", "b"]


async def test_the_integrator_gets_all_answers_as_labelled_submessages() -> None:  # TR-10
    seen: list[Message] = []

    @agent(name="writer")
    async def writer(turn: Turn) -> str:
        seen.append(turn.message)
        return "combined"

    reply = await reply_of(Federation([saying("a", "1"), saying("b", "2")], integrator=writer)(asked("sum?")))
    assert reply.text == "combined"
    assert [(part.label, part.content) for part in seen[0].submessages[:3]] == [
        ("asked", "sum?"),
        ("a", "1"),
        ("b", "2"),
    ]


async def test_the_cheapest_offer_wins() -> None:
    shops = [
        saying("north", "A lamp costs 30 EUR"),
        saying("south", json_part({"price": 25.5, "item": "lamp"})),
        saying("west", "no lamps here"),
    ]
    reply = await reply_of(Federation(shops, integrator=cheapest)(asked()))
    assert reply.text.startswith("south is cheapest, at 25.5")
    prices = reply.labelled("prices")
    assert prices is not None and prices.value["prices"] == {"north": 30.0, "south": 25.5, "west": None}


@pytest.mark.parametrize(
    ("words", "price"),
    [("$12.50 each", 12.5), ("it is 7 euros", 7.0), ("price: 1,99", 1.99), ("total of 40", 40.0), ("lovely", None),
     ("1,299.00 EUR", 1299.0), ("1.299,50 EUR", 1299.5), ("CHF 1'299", 1299.0), ("$1,299", 1299.0),
     ("12.345.678 EUR", 12_345_678.0), ("it costs 45", 45.0)],
)  # fmt: skip
def test_prices_are_read_out_of_words(words: str, price: float | None) -> None:
    assert price_in([text_part(words)]) == price


async def test_what_most_agree_on_is_the_answer_and_disagreement_is_reported() -> None:
    sources = [saying("a", "It is 42."), saying("b", "it is 42.0"), saying("c", "It is 41.")]
    reply = await reply_of(Federation(sources, integrator=cross_check)(asked()))
    agreement = reply.labelled("agreement")
    assert reply.first.content == "It is 42."
    assert agreement is not None and agreement.value == {"agree": 2, "of": 3, "differ": ["c"]}
    split = await reply_of(Federation(sources[1:], integrator=cross_check)(asked()))
    assert split.text.startswith("The sources do not agree.")


async def test_progress_is_reported_and_questions_reach_the_caller_one_at_a_time() -> None:
    open_questions, peak = 0, 0

    async def answer(question: Question) -> Message:
        nonlocal open_questions, peak
        open_questions += 1
        peak = max(peak, open_questions)
        await asyncio.sleep(0)
        open_questions -= 1
        return Message.text("Geneva")

    def asking(name: str) -> Any:
        async def function(turn: Turn) -> str:
            return (await turn.ask(f"{name}: where?")).text

        return agent(name=name)(function)

    turn = asked()
    turn.ask_back = answer
    events = [event async for event in Federation([asking("a"), asking("b")])(turn)]
    found = [event.note for event in events[:-1] if isinstance(event, Progress)]
    assert found[0] == "Asking a, b" and sorted(found[1:]) == ["a has answered", "b has answered"]
    assert all(isinstance(event, Delta | Progress) for event in events[:-1])
    assert peak == 1


async def test_back_ends_by_nlip_and_not_are_one_federation_behind_a_gateway(serve: Serve, home: Path) -> None:
    """One back end over NLIP, one a function, one that is down; behind a gateway, asked over HTTP."""
    far = serve(Gateway(saying("far-shop", "20 EUR"), home=home / "far"))
    remote = NlipHttpPeer(far.url, name="far")
    dead = NlipHttpPeer("http://127.0.0.1:9", name="dead", retries=0)
    federation = Federation([remote, saying("local", "25 EUR"), dead], integrator=cheapest, name="shops")
    front = serve(Gateway(federation, home=home / "front", beside=[remote, dead]))
    async with NlipHttpPeer(front.url) as client:
        reply = await client.ask("a lamp?")
    assert reply.text.startswith("far is cheapest, at 20. 20 EUR")
    failed = reply.labelled("sources").value["failed"]  # type: ignore[union-attr]
    assert list(failed) == ["dead"]


# -- the back-level client's helper -----------------------------------------------------------------


@agent(name="oracle")
async def oracle(turn: Turn) -> str:
    return f"Yes, {turn.text}"


async def hear(part: Part) -> str:
    return bytes(part.content).decode()  # a stand-in for speech recognition: the bytes are the words


async def speak(words: str) -> Part:
    return audio_part(words.encode())


async def test_speech_is_turned_into_words_and_back() -> None:  # DEP-BACK
    helper = BackLevel(oracle, hear=hear, speak=speak)
    spoken = Message.of(binary_part(b"will it rain?", "audio/wav"))
    reply = await reply_of(helper(Turn(spoken)))
    assert reply.text == "Yes, will it rain?"
    assert reply.labelled("speech") == audio_part(b"Yes, will it rain?")
    assert (await reply_of(helper(asked("rain?")))).submessages == ()  # who writes is answered in writing


async def test_without_ears_audio_is_refused_in_words() -> None:
    reply = await reply_of(BackLevel(oracle)(Turn(Message.of(binary_part(b"x", "audio/wav")))))
    assert "please write" in reply.text


async def test_a_client_with_a_few_words_gets_one_of_them() -> None:
    assert (await reply_of(BackLevel(oracle, vocabulary=("yes", "no", "unknown"))(asked()))).text == "yes"
    assert (
        await reply_of(BackLevel(saying("x", "hm"), vocabulary=("yes", "no", "unknown"))(asked()))
    ).text == "unknown"
