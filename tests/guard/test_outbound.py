"""The guard of everything that fetches: SSRF rows of the security list."""

from __future__ import annotations

import gzip
import socket
from collections.abc import Sequence

import httpx2
import pytest

from guard_site import Site
from sabir.errors import Forbidden, PeerUnavailable, PeerUnreadable, TooBig
from sabir.guard.outbound import Fetcher, Outbound, OutboundRules

INSIDE = [
    "http://127.0.0.1/",
    "http://127.1/",
    "http://127.000.000.001/",
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0x7f.0.0.1/",
    "http://017700000001/",
    "http://0/",
    "http://0.0.0.0/",
    "http://10.0.0.1/",
    "http://172.16.5.4/",
    "http://192.168.1.1/",
    "http://169.254.169.254/latest/meta-data/",
    "http://100.100.100.200/",
    "http://192.0.0.192/",
    "http://168.63.129.16/",
    "http://198.18.0.1/",
    "http://224.0.0.1/",
    "http://255.255.255.255/",
    "http://[::1]/",
    "http://[::]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[::ffff:a9fe:a9fe]/",
    "http://[0:0:0:0:0:ffff:10.0.0.1]/",
    "http://[::127.0.0.1]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[2002:7f00:1::]/",
    "http://[2001:0:4136:e378:8000:63bf:80ff:fffe]/",
    "http://[fe80::1]/",
    "http://[fc00::1]/",
    "http://[fd00:ec2::254]/",
    "http://[ff02::1]/",
]
ODD = [
    "file:///etc/passwd",
    "ftp://example.com/",
    "gopher://example.com/",
    "javascript:alert(1)",
    "data:text/plain,hi",
    "unix:///var/run/docker.sock",
    "http://user:pass@example.com/",
    "http://example.com@127.0.0.1/",
    "http:///nothing",
    "//example.com/",
    "",
    "http://exa mple.com/",
    "http://[::1",
]


@pytest.mark.parametrize("url", INSIDE)
async def test_an_address_inside_is_refused_however_it_is_written(url: str) -> None:
    with pytest.raises(Forbidden):
        Outbound().check(url)
    async with Fetcher(Outbound()) as fetcher:
        with pytest.raises(Forbidden):
            await fetcher.get(url)


@pytest.mark.parametrize("url", ODD)
async def test_a_url_that_is_not_plain_http_is_refused(url: str) -> None:
    async with Fetcher(Outbound()) as fetcher:
        with pytest.raises(Forbidden):
            await fetcher.get(url)


@pytest.mark.parametrize("url", ["https://example.com/a?b#c", "http://8.8.8.8/", "https://[2606:4700:4700::1111]/"])
def test_an_address_outside_is_let_through(url: str) -> None:
    assert Outbound().check(url).host


@pytest.mark.parametrize("name", ["localhost", "localhost.", "LOCALHOST", "ip6-localhost"])
async def test_a_name_for_this_machine_is_refused_once_it_is_resolved(name: str) -> None:
    async with Fetcher(Outbound()) as fetcher:
        with pytest.raises((Forbidden, PeerUnavailable)):  # the second where this machine does not know the name
            await fetcher.get(f"http://{name}/")


async def test_one_inside_address_among_many_is_enough_to_refuse() -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return ["93.184.216.34", "10.0.0.7"]

    with pytest.raises(Forbidden):
        await Outbound(resolve=resolve).addresses("mixed.example", 443)


async def test_dns_that_changes_after_the_check_gains_nothing(site: Site) -> None:
    """The connection goes to the address that was checked: the name is looked up once for each connection."""
    site.says("/")
    asked: list[str] = []

    async def resolve(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["127.0.0.66"]

    rules = OutboundRules(allow=("127.0.0.1/32",))
    async with Fetcher(Outbound(rules, resolve=resolve)) as fetcher:
        assert (await fetcher.get(f"http://rebind.example:{site.port}/")).body == b"ok"
    assert asked == ["rebind.example"]
    async with Fetcher(Outbound(rules, resolve=resolve)) as fetcher:
        with pytest.raises(Forbidden):
            await fetcher.get(f"http://rebind.example:{site.port}/")
    assert [headers["host"] for _, headers, _ in site.heard] == [f"rebind.example:{site.port}"]


async def test_a_name_that_resolves_inside_is_refused_and_nothing_is_sent(site: Site) -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    async with Fetcher(Outbound(resolve=resolve)) as fetcher:
        with pytest.raises(Forbidden):
            await fetcher.get(f"http://inside.example:{site.port}/")
    assert site.heard == []


async def test_a_redirect_is_checked_again(site: Site) -> None:
    other = Site()
    try:
        other.says("/secret", b"inside")
        site.says("/away", b"", 302, location=f"{other.url}/secret")
        site.says("/metadata", b"", 307, location="http://169.254.169.254/latest/")
        site.says("/decimal", b"", 302, location=f"http://2130706433:{other.port}/secret")
        site.says("/file", b"", 302, location="file:///etc/passwd")
        site.says("/near", b"", 302, location="/here")
        site.says("/here", b"found")
        async with Fetcher(Outbound(OutboundRules(allow=(f"127.0.0.1:{site.port}",)))) as fetcher:
            for path in ("/away", "/metadata", "/decimal", "/file"):
                with pytest.raises(Forbidden):
                    await fetcher.get(site.url + path)
            near = await fetcher.get(f"{site.url}/near")
        assert (near.body, near.url) == (b"found", f"{site.url}/here")
        assert other.heard == []
    finally:
        other.close()


async def test_redirects_end_and_credentials_do_not_cross_to_another_origin(site: Site) -> None:
    other = Site()
    try:
        other.says("/", b"there")
        site.says("/round", b"", 302, location="/round")
        site.says("/over", b"", 302, location=f"{other.url}/")
        async with Fetcher(Outbound(OutboundRules(private=True))) as fetcher:
            with pytest.raises(PeerUnreadable, match="more than 5 redirects"):
                await fetcher.get(f"{site.url}/round")
            await fetcher.get(f"{site.url}/over", headers={"Authorization": "Bearer mine", "accept": "text/html"})
        assert "authorization" in site.heard[-1][1]
        assert "authorization" not in other.heard[0][1]
        assert other.heard[0][1]["accept"] == "text/html"
    finally:
        other.close()


async def test_any_client_with_the_transport_is_guarded(site: Site) -> None:
    """Peers and webhooks use the transport; redirects that the client follows by itself pass it too."""
    site.says("/away", b"", 302, location="http://169.254.169.254/")
    outbound = Outbound(OutboundRules(allow=(f"127.0.0.1:{site.port}",)))
    async with httpx2.AsyncClient(transport=outbound.transport(), follow_redirects=True, trust_env=False) as client:
        with pytest.raises(Forbidden):
            await client.get(f"{site.url}/away")
        with pytest.raises(Forbidden):
            await client.get("http://127.0.0.1:1/")


async def test_a_socket_is_opened_only_where_it_may_be(site: Site) -> None:
    with pytest.raises(Forbidden):
        await Outbound().connect("127.0.0.1", site.port)
    sock = await Outbound(OutboundRules(private=True)).connect("127.0.0.1", site.port)
    assert sock.getpeername() == ("127.0.0.1", site.port)
    sock.close()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody answers
        with pytest.raises(PeerUnavailable):
            await Outbound(OutboundRules(private=True)).connect("127.0.0.1", taken.getsockname()[1])


async def test_a_document_over_the_limit_is_not_read_to_its_end_also_when_packed(site: Site) -> None:
    site.says("/big", b"x" * 200_000)
    site.says("/bomb", gzip.compress(b"\0" * 50_000_000), content_encoding="gzip")
    async with Fetcher(Outbound(OutboundRules(private=True)), most_bytes=100_000) as fetcher:
        for path in ("/big", "/bomb"):
            with pytest.raises(TooBig, match="at most 100000 bytes"):
                await fetcher.get(site.url + path)


def test_what_is_denied_is_denied_even_if_it_is_public_and_ports_can_be_limited() -> None:
    outbound = Outbound(OutboundRules(deny=("8.8.8.0/24", "evil.example"), ports=(443,)))
    for url in ("https://8.8.8.8/", "https://evil.example/", "https://EVIL.example./", "https://good.example:8443/"):
        with pytest.raises(Forbidden):
            outbound.check(url)
    assert outbound.check("https://good.example/")


async def test_the_proxy_of_the_environment_is_not_asked(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, site.url)
    async with Fetcher(Outbound()) as fetcher:
        with pytest.raises(Forbidden):
            await fetcher.get("http://10.1.2.3/")
    assert site.heard == []
