"""What is agreed is kept on both sides: by our peer, and by our gateway (TR-7.3.1, TR-7.3.2)."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import Serve
from raw_http import Heard, http, raw_server, text
from sabir.agent import agent
from sabir.errors import PeerRefused, PeerUnreadable, TooLarge
from sabir.gateway.gateway import Gateway
from sabir.message import Message, json_part
from sabir.protocols.nlip.peer.http import NlipHttpPeer
from sabir.turn import Turn


@agent(name="listener")
async def listener(turn: Turn) -> str:
    return " | ".join([*(past.asked.text for past in turn.conversation.turns), turn.text])


async def test_limits_negotiated_down_hold_on_both_sides(serve: Serve, home: Path) -> None:
    served = serve(Gateway(listener, home=home))
    sent: list[bytes] = []
    async with NlipHttpPeer(served.url, on_wire=lambda way, data: sent.append(data) if way == "sent" else None) as peer:
        assert await peer.agree_limits(body=400, reply=600) == {"body": 400, "reply": 600}
        count = len(sent)
        with pytest.raises(TooLarge, match="at most 400 bytes, as agreed with the peer"):
            await peer.ask("x" * 500)
        assert len(sent) == count  # it did not even leave
        peer._terms.clear()  # a client that does not keep to it
        with pytest.raises(PeerRefused, match="at most 400 bytes, as agreed") as refused:
            await peer.ask("x" * 500)
    assert refused.value.status == 413


async def test_an_answer_larger_than_agreed_is_not_taken() -> None:
    agreed = {"format": "structured", "subformat": "json", "label": "limits", "content": {"agreed": {"reply": 600}}}

    def breaks_its_word(heard: Heard, n: int) -> bytes:
        if n == 1:
            return http(200, text("agreed", messagetype="control") | {"submessages": [agreed]})
        return http(200, text("x" * 1000))

    async with raw_server(breaks_its_word) as server, NlipHttpPeer(server.url) as peer:
        await peer.agree_limits(reply=600)
        with pytest.raises(PeerUnreadable, match="larger than the 600 bytes it agreed to"):
            await peer.ask("hi")


async def test_the_context_wanders_between_us_and_the_server_and_stays_right(serve: Serve, home: Path) -> None:
    served = serve(Gateway(listener, home=home))
    async with NlipHttpPeer(served.url) as peer:
        await peer.ask("one")
        assert await peer.keep_context("client") == "client"
        assert (await peer.ask("two")).text == "one | two"
        assert (await peer.ask("three")).text == "one | two | three"
        assert await peer.keep_context("server") == "server"
        assert (await peer.ask("four")).text.endswith("one | two | three | four")
        assert await peer.keep_context("both", window=2) == "both"
        assert (await peer.ask("five")).text == "three | four | five"


async def test_a_server_that_knows_nothing_of_limits_changes_nothing() -> None:
    async with raw_server(lambda heard, n: http(200, text("what?", messagetype="control"))) as server:
        async with NlipHttpPeer(server.url) as peer:
            assert await peer.agree_limits(body=400) == {}
            assert await peer.keep_context("client") == "server"
            await peer.ask(Message.text("x" * 500).with_part(json_part({"a": 1})))
