"""Uploads and downloads from the client's side, against our own gateway and through a pipe that breaks."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path

import pytest

from conftest import Serve
from sabir.agent import agent
from sabir.errors import PeerRefused, PeerUnreadable
from sabir.gateway.gateway import Gateway
from sabir.message import Message
from sabir.protocols.nlip.peer.http import NlipHttpPeer
from sabir.turn import Turn
from tcp_proxy import tcp_proxy


@agent(name="mirror")
async def mirror(turn: Turn) -> Message:
    """Gives back what is attached."""
    (attached,) = await turn.attachments.all(turn.message)
    given = await turn.attachments.give(attached.path, attached.subformat, attached.name)
    return Message.text(f"{attached.size} {attached.subformat} {attached.name} {attached.sha256}").with_part(given)


@pytest.mark.parametrize("as_file", [False, True], ids=["bytes", "file"])
async def test_what_is_uploaded_comes_back_by_download(serve: Serve, home: Path, tmp_path: Path, as_file: bool) -> None:
    data = bytes(range(256)) * 4000
    source = tmp_path / "in.png"
    source.write_bytes(data)
    served = serve(Gateway(mirror, home=home))
    async with NlipHttpPeer(served.url) as peer:
        part = await peer.upload(source if as_file else data, "image/png", 'a "cat".png')
        reply = await peer.ask(Message.text("mirror this").with_part(part))
        assert reply.text == f"{len(data)} image/png a _cat_.png {hashlib.sha256(data).hexdigest()}"
        link = reply.labelled("download")
        assert link is not None
        got = await peer.fetch(link, tmp_path / "out.png")
        with pytest.raises(PeerUnreadable, match="larger than 1000 bytes"):
            await peer.fetch(link, tmp_path / "small.png", max_bytes=1000)
    assert got.read_bytes() == data


async def test_an_upload_continues_after_the_connection_broke(serve: Serve, home: Path) -> None:
    served = serve(Gateway(mirror, home=home))
    data = bytes(range(256)) * 16_000
    passed: Counter[int] = Counter()
    broken = 0

    def break_twice(piece: bytes, connection: int) -> bytes | None:
        nonlocal broken
        passed[connection] += len(piece)
        if passed[connection] > 1_500_000 and broken < 2:
            broken += 1
            return None
        return piece

    async with tcp_proxy((served.host, served.port), to_server=break_twice) as proxy:
        served.gateway.uploads.public_url = proxy.url
        async with NlipHttpPeer(proxy.url) as peer:
            part = await peer.upload(data)
            reply = await peer.ask(Message.text("mirror").with_part(part))
    assert broken == 2
    assert reply.text.endswith(hashlib.sha256(data).hexdigest())


async def test_addresses_of_others_are_not_followed(serve: Serve, home: Path, tmp_path: Path) -> None:
    served = serve(Gateway(mirror, home=home))
    async with NlipHttpPeer(served.url) as peer:
        for uri in ("http://other.example/x", "ftp://127.0.0.1/x", "file:///etc/passwd"):
            with pytest.raises(PeerRefused, match="not followed"):
                await peer.fetch(uri, tmp_path / "x")
        with pytest.raises(PeerRefused) as gone:
            await peer.fetch(f"{served.url}/nlip/upload/made-up", tmp_path / "x")
    assert gone.value.status == 404


async def test_uploads_and_downloads_pass_a_middle_gateway(serve: Serve, home: Path, tmp_path: Path) -> None:  # DEP-MID
    """The client reaches only the first gateway: what it uploads is put on, what comes back is offered there."""
    far = serve(Gateway(mirror, home=home / "far"))
    hop = NlipHttpPeer(far.url, name="mirror-far")
    near = serve(Gateway(hop, home=home / "near", beside=[hop]))
    data = bytes(range(256)) * 2000
    async with NlipHttpPeer(near.url) as peer:
        part = await peer.upload(data, "image/png", "cat.png")
        reply = await peer.ask(Message.text("mirror").with_part(part))
        assert reply.text == f"{len(data)} image/png cat.png {hashlib.sha256(data).hexdigest()}"
        link = reply.labelled("download")
        assert link is not None and str(link.content).startswith(near.url)
        assert (await peer.fetch(link, tmp_path / "out")).read_bytes() == data
