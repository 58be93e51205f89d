"""Tokens and ids of one caller in the hands of another: conversations, tasks, uploads, keys of requests.

State-handle hijack, session fixation, task and tenant isolation, replay, abuse of the token echo.
"""

from __future__ import annotations

import base64

import httpx2
import pytest

from conftest import Served
from sabir.guard.seal import Seal
from suites.security.attackers import JSON, Caller, part, say, token, tokens


def begin(caller: Caller, text: str) -> str:
    """A conversation of this caller; its token."""
    return str(tokens(caller.ask(say(text)))[-1]["content"])


def shape(reply: httpx2.Response) -> tuple[int, list[str], int]:
    """What an answer gives away besides its words: status, kinds of parts, length of our token."""
    parts = reply.json().get("submessages", [])
    own = [len(p["content"]) for p in parts if p["format"] == "token" and str(p["content"]).startswith("sb1.")]
    return reply.status_code, [p["format"] for p in parts], own[-1] if own else 0


def test_a_conversation_opens_for_its_caller_only(alice: Caller, mallory: Caller, stranger: Caller) -> None:
    mine = begin(alice, "my diagnosis is gout")
    assert alice.ask(say("and?", token(mine))).json()["content"] == "alice: my diagnosis is gout"
    for thief in (mallory, stranger):
        reply = thief.ask(say("and?", token(mine)))
        assert reply.status_code == 200
        assert "gout" not in reply.text


def test_not_yours_and_not_there_look_the_same(alice: Caller, mallory: Caller) -> None:
    mine = begin(alice, "private")
    never = Seal(b"x" * 32).seal("conversation", b"f" * 32, "key:nobody")
    assert len(never) == len(mine)
    assert shape(mallory.ask(say("and?", token(mine)))) == shape(mallory.ask(say("and?", token(never))))


def bent(good: str) -> list[str]:
    raw = bytearray(base64.urlsafe_b64decode(good[4:] + "=" * (-len(good[4:]) % 4)))
    flipped = []
    for at in (0, 3, 16, len(raw) - 1):
        copy = bytearray(raw)
        copy[at] ^= 1
        flipped.append("sb1." + base64.urlsafe_b64encode(bytes(copy)).rstrip(b"=").decode())
    return [*flipped, good[:-1], good[:-8], good[:10], good + "A", "sb1.", good.lower(), "sb1." + "A" * 80, good[4:]]


def test_a_forged_bent_or_truncated_token_opens_nothing(stranger: Caller) -> None:
    good = begin(stranger, "private")
    assert "private" in stranger.ask(say("and?", token(good))).json()["content"]
    for raised in bent(good):
        reply = stranger.ask(say("and?", token(raised)))
        assert reply.status_code == 200 and "private" not in reply.json()["content"], raised
        assert tokens(reply)[0]["content"] == raised  # not ours, so it is echoed as it came (CORE-6.2)


def test_a_token_of_another_gateway_opens_nothing(stranger: Caller) -> None:
    good = begin(stranger, "private")
    foreign = Seal(b"their key").seal("conversation", b"0" * 32, "anonymous")
    reply = stranger.ask(say("and?", token(foreign)))
    assert reply.json()["content"] == "anonymous: "
    assert tokens(reply)[0]["content"] == foreign != good


def test_a_token_of_one_kind_is_not_one_of_another(alice: Caller, stranger: Caller, services: Served) -> None:
    """Swapped: a conversation token does not authenticate, a pass opens no conversation."""
    passed = next(
        t for t in tokens(alice.ask(say("Who am I? Authenticate me.", control=True))) if "auth" in t["subformat"]
    )
    conversation = begin(alice, "private")
    reply = stranger.ask(say("and?", token(conversation, "authentication")))
    assert reply.status_code == 401 and "private" not in reply.text
    reply = alice.ask(say("and?", token(passed["content"], "conversation")))
    assert reply.json()["content"] == "alice: "


def test_a_session_cannot_be_fixed_in_advance(mallory: Caller, alice: Caller) -> None:
    """Mallory's token in Alice's message: what Alice says goes into a conversation of her own."""
    planted = begin(mallory, "hello")
    reply = alice.ask(say("my card number is 12", token(planted)))
    assert tokens(reply)[-1]["content"] != planted
    assert "card" not in mallory.ask(say("and?", token(planted))).text


def test_a_peers_own_token_is_found_for_that_peer_only(alice: Caller, mallory: Caller, stranger: Caller) -> None:
    """D-16: the second way to find a conversation is bound to the caller too."""
    theirs = token("a-token-that-alice-made-herself-0123456789", "conversation_alice")
    alice.ask(say("private", theirs))
    assert "private" in alice.ask(say("and?", theirs)).json()["content"]
    for thief in (mallory, stranger):
        assert "private" not in thief.ask(say("and?", theirs)).text


def test_a_task_is_found_by_its_owner_only(alice: Caller, mallory: Caller, stranger: Caller) -> None:
    task = alice.ask(say("work"), "endless", prefer="respond-async").headers["location"]
    assert alice.http.get(task).status_code == 202
    gone = task[:-4] + "0000"
    for thief in (mallory, stranger):
        for method in ("GET", "DELETE"):
            theirs, missing = thief.http.request(method, task), thief.http.request(method, gone)
            assert (
                (theirs.status_code, theirs.content) == (missing.status_code, missing.content) == (404, theirs.content)
            )
        answered = thief.http.post(task, json=say("answer"))
        assert answered.status_code == 404
    assert alice.http.get(task).status_code == 202  # nobody cancelled it
    assert alice.http.delete(task).status_code != 404


@pytest.mark.parametrize("name", ["..", "%2e%2e%2f%2e%2e", "*", "' OR 1=1 --", "%00", "a" * 5000, "\u202e"])
def test_a_task_id_is_only_a_name(stranger: Caller, name: str) -> None:
    reply = stranger.http.get(f"/nlip/tasks/{name}")
    assert reply.status_code in (404, 405) and "Traceback" not in reply.text


def place(caller: Caller) -> str:
    reply = caller.ask(say("I would like to upload a file", control=True))
    found = [p["content"] for p in reply.json()["submessages"] if p.get("subformat") == "uri"]
    return str(found[0]).partition("/nlip/upload/")[2]


def test_an_upload_place_is_for_its_caller_only(alice: Caller, mallory: Caller, stranger: Caller) -> None:
    mine = place(alice)
    assert alice.http.put(f"/nlip/upload/{mine}", content=b"x-ray of alice").status_code < 300
    for thief in (mallory, stranger):
        for method in ("GET", "HEAD", "PUT", "DELETE"):
            assert thief.http.request(method, f"/nlip/upload/{mine}").status_code == 404
        assert thief.http.get(f"/nlip/upload/{mine}").content == thief.http.get(f"/nlip/upload/{mine[:-1]}A").content
    for raised in bent(mine):
        assert alice.http.get(f"/nlip/upload/{raised}").status_code == 404


@pytest.mark.parametrize("name", ["../../secret.key", "%2e%2e%2fsecret.key", "..%2f..%2fsecret.key", "%2fetc%2fpasswd"])
def test_the_id_of_an_upload_is_not_a_file_path(stranger: Caller, name: str, services: Served) -> None:
    secret = (services.gateway.home / "secret.key").read_bytes()
    for method in ("GET", "PUT"):
        reply = stranger.http.request(method, f"/nlip/upload/{name}", content=b"x" if method == "PUT" else None)
        assert reply.status_code in (404, 405) and secret not in reply.content
    assert (services.gateway.home / "secret.key").read_bytes() == secret


def test_an_idempotency_key_of_one_caller_says_nothing_to_another(alice: Caller, mallory: Caller) -> None:
    first = alice.ask(say("my secret plan"), idempotency_key="1")
    assert alice.ask(say("my secret plan"), idempotency_key="1").json()["content"] == first.json()["content"]
    stolen = mallory.ask(say("my secret plan"), idempotency_key="1")
    assert stolen.json()["content"] == "mallory: "
    assert tokens(stolen)[-1]["content"] != tokens(first)[-1]["content"]


def test_anonymous_callers_with_the_same_idempotency_key_are_distinguished(services: Served) -> None:
    with Caller(services.url) as one, Caller(services.url) as two, Caller(services.url, address="127.0.0.2") as three:
        own = tokens(one.ask(say("my secret plan"), idempotency_key="1"))[-1]
        for other, text in ((two, "another text"), (three, "my secret plan")):
            reply = other.ask(say(text), idempotency_key="1")
            theirs = tokens(reply)[-1]
            followed = other.ask(say("and?", theirs)).json()["content"]
            assert followed == f"anonymous: {text}"
            assert theirs["content"] != own["content"]


def test_nobody_lists_the_conversations_of_strangers(services: Served, stranger: Caller) -> None:
    """All strangers have one id; a list by owner would hold everybody's."""
    begin(stranger, "something private of one stranger")
    with Caller(services.url) as another:
        for wish in (
            "Show me the history",
            "List my sessions",
            "Resume our last conversation",
            "What did I say before?",
        ):
            reply = another.ask(say(wish, control=True))
            assert reply.status_code == 200
            assert "private of one stranger" not in reply.text, wish


def test_a_caller_lists_only_its_own(alice: Caller, mallory: Caller) -> None:
    begin(alice, "alice's only")
    for wish in ("Show me the history", "List my sessions"):
        assert "alice's only" not in mallory.ask(say(wish, control=True)).text


# -- the echo of tokens ---------------------------------------------------------------------------


def test_the_echo_is_capped_in_number_and_size(stranger: Caller) -> None:
    many = [token(f"t{n}", f"x_{n}") for n in range(40)]
    assert stranger.ask(say("hi", *many)).status_code == 413
    assert stranger.ask(say("hi", token("x" * 10_000))).status_code == 413
    fine = [token("x" * 8000, f"x_{n}") for n in range(30)]
    assert len(tokens(stranger.ask(say("hi", *fine)))) == 31


def test_what_is_echoed_is_json_and_nothing_else(stranger: Caller) -> None:
    markup = "<script>alert(1)</script>\r\nSet-Cookie: a=b"
    reply = stranger.ask(say("hi", token(markup)))
    assert tokens(reply)[0]["content"] == markup
    assert reply.headers["content-type"] == "application/json"
    assert "set-cookie" not in reply.headers


def test_a_token_is_not_passed_to_the_next_turn_or_another_caller(alice: Caller, mallory: Caller) -> None:
    planted = token("PLANTED-BY-ALICE", "authentication_alice")
    own = tokens(alice.ask(say("hi", planted)))[-1]
    assert "PLANTED-BY-ALICE" not in alice.ask(say("again", own)).text
    assert "PLANTED-BY-ALICE" not in mallory.ask(say("hi")).text


def test_limits_are_reported_and_the_remaining_are_not_somebody_elses(alice: Caller) -> None:
    reply = alice.ask(say("What are your limits?", control=True))
    assert reply.status_code == 200
    details: JSON | None = part(reply, "limits")
    assert details is not None
