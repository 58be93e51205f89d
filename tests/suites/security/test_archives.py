"""What is uploaded is bytes: it is not unpacked, and is kept in one folder whatever its name is."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from conftest import Served
from suites.security.attackers import Caller, say

MANY = 64 * 1024 * 1024  # bytes of nothing, which pack well


def zipped() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("../../escaped.txt", "out")
        archive.writestr("bomb", bytes(MANY))
    return file.getvalue()


def tarred() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
        inside = tarfile.TarInfo("/tmp/escaped.txt")
        inside.size = 3
        archive.addfile(inside, io.BytesIO(b"out"))
    return file.getvalue()


ARCHIVES = {"zip": zipped(), "tar": tarred(), "gzip": gzip.compress(bytes(MANY))}


def place(caller: Caller) -> str:
    reply = caller.ask(say("I would like to upload a file", control=True))
    found = [part["content"] for part in reply.json()["submessages"] if part.get("subformat") == "uri"]
    return str(found[0])[str(found[0]).index("/nlip/upload/") :]


def files(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.stat().st_size for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("kind", ARCHIVES)
@pytest.mark.parametrize("encoding", [None, "gzip", "deflate", "br"])
def test_an_archive_is_stored_unchanged(services: Served, alice: Caller, kind: str, encoding: str | None) -> None:
    """Neither what it is nor what a header says of it makes the gateway unpack it."""
    data, uploads = ARCHIVES[kind], services.gateway.home / "uploads"
    before = files(uploads) if uploads.exists() else {}
    where = place(alice)
    headers = {"content-encoding": encoding} if encoding else {}
    put = alice.http.put(where, content=data, headers={"content-type": "application/zip", **headers})
    assert put.status_code in (201, 415)
    new = {name: size for name, size in files(uploads).items() if name not in before}
    assert [size for size in new.values() if size] == ([len(data)] if put.status_code == 201 else [])
    if put.status_code == 201:
        got = alice.http.get(where)
        assert got.content == data and "content-encoding" not in got.headers


@pytest.mark.parametrize(
    "name", ["../../secret.key", "/etc/cron.d/x", "..\\..\\x", "a/../../../x", "x\x00.png", ".", "CON"]
)
def test_a_name_is_only_a_name(services: Served, alice: Caller, name: str) -> None:
    home = services.gateway.home
    secret, before = (home / "secret.key").read_bytes(), set(files(home))
    outside = set(files(home.parent)) - {f"{home.name}/{item}" for item in before}
    put = alice.http.post(place(alice), files={"file": (name, b"abc", "image/png")})
    assert put.status_code in (201, 400, 422)
    new = set(files(home)) - before
    assert all(Path(item).parent == Path("uploads") and "secret" not in item for item in new)
    assert {file for file in files(home.parent) if not file.startswith(f"{home.name}/")} == outside
    assert (home / "secret.key").read_bytes() == secret


def test_a_link_in_the_place_of_a_file_is_not_what_a_caller_gets(services: Served, alice: Caller) -> None:
    """Only an insider can put one there; all the same, a place does not lead out of its folder."""
    where = place(alice)
    assert alice.http.put(where, content=b"mine").status_code == 201
    (kept,) = [path for path in (services.gateway.home / "uploads").iterdir() if path.read_bytes() == b"mine"]
    kept.unlink()
    kept.symlink_to(services.gateway.home / "secret.key")
    try:
        got = alice.http.get(where)
        assert got.status_code == 404
        assert (services.gateway.home / "secret.key").read_bytes()[:4] not in got.content
    finally:
        kept.unlink()
