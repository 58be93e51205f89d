"""The guard of everything that fetches: SSRF rows of the security list."""

from __future__ import annotations

import gzip
import socket
from collections.abc import Sequence
from ipaddress import ip_network

import httpx2
import pytest

from guard_site import Site
from sabir.errors import Forbidden, PeerUnavailable, PeerUnreadable, TooLarge
from sabir.guard.egress.addresses import GuardedClient, Outbound, OutboundRules, is_public

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
# Every row of IANA's special-purpose registries for IPv4 and IPv6, multicast, and deprecated ranges since; and
# whether an address of it is somebody on the open internet.
SPECIAL = {
    "0.0.0.0/8": False,
    "10.0.0.0/8": False,
    "100.64.0.0/10": False,
    "127.0.0.0/8": False,
    "169.254.0.0/16": False,
    "172.16.0.0/12": False,
    "192.0.0.0/24": False,
    "192.0.0.0/29": False,
    "192.0.0.8/32": False,
    "192.0.0.9/32": False,
    "192.0.0.10/32": False,
    "192.0.0.170/31": False,
    "192.0.2.0/24": False,
    "192.31.196.0/24": False,
    "192.52.193.0/24": False,
    "192.88.99.0/24": False,
    "192.168.0.0/16": False,
    "192.175.48.0/24": False,
    "198.18.0.0/15": False,
    "198.51.100.0/24": False,
    "203.0.113.0/24": False,
    "224.0.0.0/4": False,
    "240.0.0.0/4": False,
    "255.255.255.255/32": False,
    "::/128": False,
    "::1/128": False,
    "::/96": False,  # IPv4-compatible, deprecated
    "::808:808/128": False,
    "::ffff:10.0.0.0/104": False,
    "::ffff:127.0.0.1/128": False,
    "::ffff:8.8.8.8/128": True,  # it is 8.8.8.8
    "::ffff:0:10.0.0.1/128": False,  # IPv4-translated
    "::ffff:0:8.8.8.8/128": False,
    "64:ff9b::10.0.0.0/104": False,
    "64:ff9b::169.254.169.254/128": False,
    "64:ff9b::8.8.8.8/128": True,  # through a translator that is everybody's
    "64:ff9b:1::/48": False,
    "64:ff9b:1::8.8.8.8/128": False,
    "100::/64": False,
    "100:0:0:1::/64": False,
    "200::/7": False,  # NSAP, deprecated
    "2001::/23": False,
    "2001::/32": False,  # Teredo
    "2001:0:4136:e378:8000:63bf:f5ff:fffe/128": False,  # 10.0.0.1 by it
    "2001:0:4136:e378:8000:63bf:f7f7:f7f7/128": False,  # 8.8.8.8 by it
    "2001:1::1/128": False,
    "2001:1::2/128": False,
    "2001:1::3/128": False,
    "2001:2::/48": False,
    "2001:3::/32": False,
    "2001:4:112::/48": False,
    "2001:10::/28": False,
    "2001:20::/28": False,
    "2001:30::/28": False,
    "2001:db8::/32": False,
    "2002::/16": False,  # 6to4
    "2002:a00:1::/48": False,  # 10.0.0.1 by it
    "2002:808:808::/48": False,  # 8.8.8.8 by it
    "2620:4f:8000::/48": False,
    "3fff::/20": False,
    "4000::/3": False,  # nobody's
    "5f00::/16": False,
    "fc00::/7": False,
    "fe80::/10": False,
    "fec0::/10": False,  # site-local, deprecated
    "ff00::/8": False,
    # beside them
    "1.0.0.0/8": True,
    "11.0.0.0/8": True,
    "100.128.0.0/9": True,
    "169.255.0.0/16": True,
    "172.32.0.0/11": True,
    "192.0.1.0/24": True,
    "198.20.0.0/14": True,
    "223.255.255.0/24": True,
    "2001:200::/23": True,
    "2001:4860::/32": True,
    "2003::/18": True,
    "2606:4700::/32": True,
    "2a00::/12": True,
}
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
    async with GuardedClient(Outbound()) as fetcher:
        with pytest.raises(Forbidden):
            await fetcher.get(url)


@pytest.mark.parametrize(("network", "public"), SPECIAL.items(), ids=str)
def test_what_is_kept_for_a_purpose_is_not_connected_to(network: str, public: bool) -> None:
    """The first and the last address of each, and one between."""
    block = ip_network(network)
    for address in (block[0], block[block.num_addresses // 2], block[-1]):
        assert is_public(address) is public, address
        written = f"http://[{address}]/" if address.version == 6 else f"http://{address}/"
        if public:
            assert Outbound().check(written)
        else:
            with pytest.raises(Forbidden):
                Outbound().check(written)


@pytest.mark.parametrize("url", ODD)
async def test_a_url_that_is_not_plain_http_is_refused(url: str) -> None:
    async with GuardedClient(Outbound()) as fetcher:
        with pytest.raises(Forbidden):
            await fetcher.get(url)


@pytest.mark.parametrize("url", ["https://example.com/a?b#c", "http://8.8.8.8/", "https://[2606:4700:4700::1111]/"])
def test_an_address_outside_is_let_through(url: str) -> None:
    assert Outbound().check(url).host


@pytest.mark.parametrize("name", ["localhost", "localhost.", "LOCALHOST", "ip6-localhost"])
async def test_a_name_for_this_machine_is_refused_once_it_is_resolved(name: str) -> None:
    async with GuardedClient(Outbound()) as fetcher:
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
    async with GuardedClient(Outbound(rules, resolve=resolve)) as fetcher:
        assert (await fetcher.get(f"http://rebind.example:{site.port}/")).body == b"ok"
    assert asked == ["rebind.example"]
    async with GuardedClient(Outbound(rules, resolve=resolve)) as fetcher:
        with pytest.raises(Forbidden):
            await fetcher.get(f"http://rebind.example:{site.port}/")
    assert [headers["host"] for _, headers, _ in site.heard] == [f"rebind.example:{site.port}"]


async def test_a_name_that_resolves_inside_is_refused_and_nothing_is_sent(site: Site) -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    async with GuardedClient(Outbound(resolve=resolve)) as fetcher:
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
        async with GuardedClient(Outbound(OutboundRules(allow=(f"127.0.0.1:{site.port}",)))) as fetcher:
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
        async with GuardedClient(Outbound(OutboundRules(private=True))) as fetcher:
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
    async with GuardedClient(Outbound(OutboundRules(private=True)), max_bytes=100_000) as fetcher:
        for path in ("/big", "/bomb"):
            with pytest.raises(TooLarge, match="at most 100000 bytes"):
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
    async with GuardedClient(Outbound()) as fetcher:
        with pytest.raises(Forbidden):
            await fetcher.get("http://10.1.2.3/")
    assert site.heard == []
