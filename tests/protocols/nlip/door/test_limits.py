"""Limits of a message: each one limits, in both notations, and none of them costs much to keep (SEC-DOS)."""

from __future__ import annotations

import json
import time
from pathlib import Path

import cbor2
import httpx2
import pytest
from websockets.sync.client import connect

from conftest import Serve
from deadline import DEADLINE
from sabir import Gateway
from sabir.agents.echo import echo
from sabir.config.load import settings_of
from sabir.errors import BadMessage, SabirError, TooLarge
from sabir.guard import Quotas
from sabir.limits import Limits
from sabir.protocols.nlip.wire import cbor
from sabir.protocols.nlip.wire import json as nlip

TEXT = {"format": "text", "subformat": "english", "content": "hi"}


def nested(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


def json_of(value: object) -> bytes:
    return nlip._encode(value)


def test_a_duplicate_name_among_very_many_costs_no_more_than_the_others() -> None:
    keys = ",".join(f'"k{number}":1' for number in range(60_000))
    body = b'{"Format":"structured","subformat":"json","content":{"k0":2,%s}}' % keys.encode()
    began = time.process_time()
    message = nlip.decode(body, limits=Limits(values=100_000))
    # It once took a minute: each name was counted in the list of all names.
    assert time.process_time() - began < 5.0
    assert len(message.content) == 60_000


@pytest.mark.parametrize("levels", [65, 200, 5000])
def test_too_deep_is_too_big_in_both_notations(levels: int) -> None:
    deep = b'{"format":"structured","subformat":"json","content":%s1%s}' % (b"[" * levels, b"]" * levels)
    with pytest.raises(TooLarge, match="nesting"):
        nlip.decode(deep)
    head = cbor2.dumps({"format": "structured", "subformat": "json", "content": 1})
    with pytest.raises(TooLarge, match="nesting"):
        cbor.decode(head[:-1] + b"\x81" * levels + b"\x01")


@pytest.mark.parametrize("place", ["content", "unknown"])
def test_a_configured_depth_holds_for_every_field(place: str) -> None:
    limits = Limits(depth=3)
    message = {**TEXT, "format": "structured", "subformat": "json"}
    for write, decode in ((json_of, nlip.decode), (cbor2.dumps, cbor.decode)):
        decode(write({**message, place: nested(3)}), limits=limits)
        with pytest.raises(TooLarge, match="nesting"):
            decode(write({**message, place: nested(4)}), limits=limits)


def with_token(content: object) -> dict[str, object]:
    return {**TEXT, "submessages": [{"format": "token", "subformat": "conversation", "content": content}]}


@pytest.mark.parametrize("limited", [{"token_length": 8}, {"label_length": 3}, {"subformat_length": 7}, {"tokens": 1}])
def test_each_length_and_number_has_an_end(limited: dict[str, int]) -> None:
    too_much: dict[str, dict[str, object]] = {
        "token_length": with_token("é" * 5),  # ten bytes
        "label_length": {**TEXT, "submessages": [{**TEXT, "label": "long"}]},
        "subformat_length": {**TEXT, "subformat": "e" * 8},
        "tokens": {**TEXT, "submessages": 2 * [{"format": "token", "subformat": "a", "content": "b"}]},
    }
    (name,) = limited
    for write, decode in ((json_of, nlip.decode), (cbor2.dumps, cbor.decode)):
        decode(write(too_much[name]))
        with pytest.raises(TooLarge):
            decode(write(too_much[name]), limits=Limits(**limited))


def test_a_token_within_its_limit_is_read() -> None:
    assert nlip.decode(json_of(with_token("é" * 4)), limits=Limits(token_length=8)).tokens[0].content == "éééé"


def test_too_deep_to_be_looked_at_is_refused_in_the_setup() -> None:
    with pytest.raises(SabirError, match=r"limits\.depth"):
        settings_of({"limits": {"depth": 5000}})


# -- rates ---------------------------------------------------------------------------------------

FEW = Quotas(rate_per_address=0.001, burst=5.0)


@pytest.mark.parametrize("body", [b"{nope", b'{"format":"picture"}', b"\xff", b'{"format":"text","subformat":"e"}'])
def test_invalid_input_counts_against_the_rate_of_its_address(serve: Serve, home: Path, body: bytes) -> None:
    """SEC-P2.5: a flood need not be well-formed."""
    url = serve(Gateway(echo, home=home, quotas=FEW)).url + "/nlip"
    answers = [httpx2.post(url, content=body) for _ in range(8)]
    assert [answer.status_code < 429 for answer in answers] == [True] * 5 + [False] * 3
    assert answers[-1].status_code == 429
    assert int(answers[-1].headers["retry-after"]) > 0
    assert nlip.decode(answers[-1].content).is_error
    assert httpx2.post(url, json=TEXT).status_code == 429


def test_over_the_rate_a_body_is_not_read(serve: Serve, home: Path) -> None:
    url = serve(Gateway(echo, home=home, quotas=FEW)).url + "/nlip"
    assert [httpx2.post(url, json=TEXT).status_code for _ in range(6)] == [200] * 5 + [429]
    assert httpx2.post(url, content=b"{" * 2_000_000).status_code == 429  # and not 413


def test_nonsense_in_frames_counts_too(serve: Serve, home: Path) -> None:
    served = serve(Gateway(echo, home=home, quotas=FEW))
    with connect(served.ws_url + "/nlip/ws") as socket:
        said = []
        for body in (b"\xff", cbor2.dumps(TEXT), b"\xff", cbor2.dumps(TEXT), b"\xff", cbor2.dumps(TEXT)):
            socket.send(body)
            reply = socket.recv(timeout=DEADLINE)
            said.append(cbor.decode(reply) if isinstance(reply, bytes) else nlip.decode(reply.encode()))
        assert [message.is_error for message in said] == [True, False, True, False, True, True]
        assert "too many" in said[-1].text


def test_a_key_that_is_too_long_is_refused_and_not_cut(serve: Serve, home: Path) -> None:
    url = serve(Gateway(echo, home=home)).url + "/nlip"
    for length, status in ((256, 200), (257, 422)):
        answer = httpx2.post(url, json=TEXT, headers={"idempotency-key": "k" * length})
        assert answer.status_code == status
        assert nlip.decode(answer.content).is_error == (status == 422)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("name", ["format", "Format"])  # the quick way through the reader, and the careful one
@pytest.mark.parametrize("number", [2**64, -(2**64), 10**300], ids=["2**64", "-2**64", "10**300"])
def test_an_integer_beyond_64_bits_is_read_whole_on_every_way(number: int, name: str, strict: bool) -> None:
    """CORE-5.0.4: ECMA-404 sets no limit, and the same message must not depend on the spelling of a name."""
    body = b'{"%s":"structured","subformat":"json","content":{"n":%d}}' % (name.encode(), number)
    message = nlip.decode(body, strict=strict)
    assert message.parts[0].content == {"n": number}
    assert b"%d" % number in nlip.encode(message)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("name", ["format", "Format"])
def test_an_integer_of_endless_digits_is_refused_on_every_way(name: str, strict: bool) -> None:
    body = b'{"%s":"structured","subformat":"json","content":{"n":%s}}' % (name.encode(), b"7" * 5000)
    with pytest.raises(SabirError, match="numbers of a usual length"):
        nlip.decode(body, strict=strict)


@pytest.mark.parametrize("content", ["[1%s,2]", '{"lat":1%s,"lon":2}', '"1%s,2"'])
def test_coordinates_beyond_every_float_stay_as_they_are(content: str) -> None:
    body = b'{"format":"location","subformat":"gps","content":%s}' % (content % ("0" * 400)).encode()
    message = nlip.decode(body)
    assert message.parts[0].gps is None
    assert b"0" * 400 in nlip.encode(message)


@pytest.mark.parametrize(
    ("content", "items"),
    [([0] * 3000, 3000), ([[]] * 3000, 3000), ([1000] * 600, 600), ({str(n): n for n in range(900)}, 1800)],
)
def test_the_items_of_cbor_are_counted_before_it_is_decoded(content: object, items: int) -> None:
    """9,000 values in 4.5 KB held up everybody else: the cost was judged by the length alone (issue 11, D15)."""
    body = cbor2.dumps({"format": "structured", "subformat": "json", "content": content})
    assert cbor.check_cost(body) - len(body) // 64 == items + 7  # the map, its three keys and its three values
    assert cbor.decode(body).content == content


@pytest.mark.parametrize("text", ["word, " * 150_000, b"\x00" * 900_000])
def test_long_texts_and_bytes_of_cbor_cost_little(text: object) -> None:
    body = cbor2.dumps({"format": "text", "subformat": "english", "content": text})
    assert cbor.check_cost(body) < len(body) // 60


def test_too_many_items_of_cbor_are_rejected_before_it_is_decoded() -> None:
    body = cbor2.dumps({"format": "structured", "subformat": "json", "content": [0] * 450_000})
    with pytest.raises(TooLarge, match="at most 10000 values"):
        cbor.check_cost(body)
    for cut in (body[:600], cbor2.dumps("x" * 70_000)[:1000], b"\x9f" * 600, b"\xff" * 600, b"\x1b" * 600):
        assert cbor.check_cost(cut) >= 0  # whatever it is, the decoder reports it


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
@pytest.mark.parametrize("words", ["word, " * 20_000, "ü" * 40_000, '"content": ' * 5_000, "\\n" * 30_000])
def test_a_long_text_is_read_however_it_is_spelled(words: str, separators: tuple[str, str]) -> None:
    for message in (
        {"format": "text", "subformat": "english", "content": words},
        {"label": "content", "content": words, "subformat": "english", "format": "text"},
    ):
        for ascii_only in (True, False):
            body = json.dumps(message, separators=separators, ensure_ascii=ascii_only).encode()
            assert nlip.decode(body).content == words


def test_a_duplicate_field_is_found_next_to_a_long_text() -> None:
    """D-03, also where the text is left out of the check."""
    words = json.dumps("word, " * 20_000)
    for body in (
        f'{{"format":"text","subformat":"english","content":{words},"content":"x"}}',
        f'{{"format":"text","subformat":"english","content":"x","content":{words}}}',
        f'{{"format":"text","format":"text","subformat":"english","content":{words}}}',
    ):
        with pytest.raises(BadMessage, match="this field once"):
            nlip.decode(body.encode())
