"""S9, SEC-2: nothing that an operator or a document names makes the portal connect to where it may not.

Names are answered by a resolver of the test's own, and connections end in a stub that only notes where they would have
gone. Every property is also tried on a guard with a hole, where it must break: otherwise it would prove nothing.
"""

# ruff: noqa: RUF001 - letters and digits that look like others are what this is about

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import anyio
import httpcore
import httpcore2
import httpx2
import pytest

from portal.outbound import addresses
from portal.outbound import http as outbound
from portal.outbound.errors import UNREACHABLE, FetchError, InvalidTarget
from tools.imports.fetching import http as fetching
from tools.imports.fetching.http import fetch_document
from tools.imports.fetching.mcp import http as mcp_http
from tools.imports.fetching.mcp import session as mcp_session
from tools.imports.fetching.mcp.conversation import Conversation, Redactor, SessionError, SessionTimeout

OUTSIDE, OUTSIDE_6, INSIDE, INSIDE_6 = "93.184.216.34", "2606:2800:21f::1", "10.0.0.1", "fd00::1"

SPELLINGS = {
    "loopback": (
        "127.0.0.1", "127.1", "127.0.1", "127.255.255.254", "2130706433", "017700000001", "0x7f000001", "0X7F000001",
        "0177.0.0.1", "0177.0.0.01", "0x7f.0.0.1", "0x7f.1", "0x7f.0x1", "127.0.0x0.1", "0177.1", "00000177.0.0.1",
        "[::1]", "[0:0:0:0:0:0:0:1]", "[0000:0000:0000:0000:0000:0000:0000:0001]", "[::0001]", "[0::1]",
    ),
    "unspecified": ("0", "0.0.0.0", "0x0", "00", "0.0", "0.1.2.3", "[::]", "[0::0]"),
    "private": (
        "10.0.0.1", "10.1", "167772161", "0xa000001", "012.0.0.1", "172.16.0.1", "172.31.255.254", "192.168.1.1", "192.168.257",
        "3232235777", "0xc0a80101", "0300.0250.1.1", "[fc00::1]", "[fd00::1]", "[fdff:ffff::1]", "[fec0::1]",
    ),
    "metadata": (
        "169.254.169.254", "2852039166", "0xa9fea9fe", "025177524776", "169.254.43518", "0xa9.0xfe.0xa9.0xfe", "0251.0376.0251.0376",
        "[fd00:ec2::254]", "[fd20:ce::254]", "100.100.100.200", "192.0.0.192", "168.63.129.16", "[::ffff:169.254.169.254]",
    ),
    "link-local": ("169.254.0.1", "[fe80::1]", "[fe80::1%lo]", "[febf::1]"),
    "shared and reserved": (
        "100.64.0.1", "100.127.255.254", "192.0.0.1", "192.0.0.9", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1",
        "192.88.99.1", "240.0.0.1", "255.255.255.255", "4294967295", "[100::1]", "[2001:db8::1]", "[3fff::1]", "[5f00::1]", "[4000::1]",
        "[2001:2::1]", "[2001:10::1]", "[2001:20::1]",
    ),
    "multicast": ("224.0.0.1", "239.255.255.250", "3758096385", "[ff02::1]", "[ff0e::1]", "[ff05::2]"),
    "IPv4 in IPv6": (
        "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:a9fe:a9fe]", "[::ffff:10.0.0.1]", "[::ffff:8.8.8.8]",
        "[::127.0.0.1]", "[::7f00:1]", "[::10.0.0.1]", "[::ffff:0:127.0.0.1]", "[64:ff9b::127.0.0.1]", "[64:ff9b::a9fe:a9fe]",
        "[64:ff9b:1::10.0.0.1]", "[2002:7f00:1::]", "[2002:a9fe:a9fe::1]", "[2001:0:7f00:1::]", "[2001::1]",
    ),
    "names": (
        "localhost", "LOCALHOST", "LocalHost", "localhost.", "localhost.localdomain", "ip6-localhost", "a.localhost", "127.0.0.1.nip.io",
        "localtest.me", "metadata", "metadata.google.internal", "metadata.google.internal.", "kubernetes.default.svc", "host.docker.internal",
        "redis", "six.example",
    ),
}  # fmt: skip
# What some other parser takes for an address; here they are names that nobody answers for.
UNKNOWN_ID = (
    "[::1%25lo]", "[::1%lo]", "[::%lo]", "[fe80::1%25eth0]", "127.0.0.1.", "127.0.0.1..", "0x7f000001.", "127.0.0.256", "4294967296", "0x100000000", "127.0.0.1.1", "0o177.0.0.1",
    "127.0.0.08", "1e9", "%31%32%37.0.0.1", "127%2e0.0.1", "127。0.0.1".encode("idna").decode() + ".example", "xn--nxasmq6b", "a..b",
    "localhost\\.example", "127.0.0.1\\", "-", "_", "nobody.example",
)  # fmt: skip
ADDRESSES = [host for hosts in SPELLINGS.values() for host in hosts]
# The resolver of an attacker, and of a network that has names of its own.
KNOWN = {
    "localhost": ("127.0.0.1", "::1"), "localhost.localdomain": ("127.0.0.1",), "ip6-localhost": ("::1",), "a.localhost": ("127.0.0.1",),
    "127.0.0.1.nip.io": ("127.0.0.1",), "localtest.me": ("127.0.0.1",), "metadata": ("169.254.169.254",),
    "metadata.google.internal": ("169.254.169.254",), "kubernetes.default.svc": ("10.96.0.1",), "host.docker.internal": ("192.168.65.2",),
    "redis": ("10.0.0.7",), "six.example": ("::ffff:10.0.0.1",), "public.example": (OUTSIDE,), "two.example": (OUTSIDE, OUTSIDE_6),
    "mixed.example": (OUTSIDE, INSIDE), "mixed-6.example": (OUTSIDE, INSIDE_6), "6-mixed.example": (OUTSIDE_6, INSIDE),
    "last.example": (OUTSIDE,) * 20 + (INSIDE,),
}  # fmt: skip
real_getaddrinfo = socket.getaddrinfo


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names that were resolved. Numbers are read by the system's own code, which asks nobody for them."""
    names: list[str] = []

    def resolve(host: Any, port: Any, *args: Any, **options: Any) -> list[Any]:
        host = host.decode() if isinstance(host, bytes) else host
        names.append(host)
        found = KNOWN.get(host.lower().rstrip("."))
        if found is not None:
            return [entry for address in found for entry in numeric(address, port)]
        return numeric(host, port)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    return names


def numeric(host: str, port: Any) -> list[Any]:
    return list(real_getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST))


@pytest.fixture(autouse=True)
def went(monkeypatch: pytest.MonkeyPatch, settings: Any) -> list[tuple[str, int]]:
    """Where sockets would have been opened; each attempt ends like a closed port."""
    places: list[tuple[str, int]] = []

    def connect(self: Any, host: str, port: int, *args: Any, **options: Any) -> Any:
        places.append((host, port))
        raise httpcore.ConnectError

    async def connect_2(self: Any, host: str, port: int, *args: Any, **options: Any) -> Any:
        places.append((host, port))
        raise httpcore2.ConnectError

    monkeypatch.setattr(httpcore.SyncBackend, "connect_tcp", connect)
    monkeypatch.setattr(httpcore2.AnyIOBackend, "connect_tcp", connect_2)
    settings.IMPORT_ALLOWED_HOSTS = []
    return places


def fetched(url: str) -> str:
    """The sentence that a fetch of a document ends with."""
    with pytest.raises(FetchError) as refused:
        fetch_document(url)
    sentence = str(refused.value)
    # The kind of the refusal tells no more than the sentence does.
    assert type(refused.value) is FetchError or sentence != UNREACHABLE
    return sentence


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """The same for a list of MCP tools, whose client runs in this process here, so that its connections are seen."""
    # It is a program of its own otherwise, and bounds its memory, which is that of all tests here.
    monkeypatch.setattr(mcp_session, "_bound_memory", lambda: None)

    def ask(url: str) -> str:
        connection = {
            "url": url, "headers": {}, "environment": {}, "seconds": 10, "max_bytes": 20_000_000, "allowed_hosts": [],
        }  # fmt: skip
        conversation = Conversation(Redactor([]), 20_000_000)
        try:
            anyio.run(mcp_session.read_list, connection, conversation)
        except Exception as error:  # noqa: BLE001 - as the program does
            return str(mcp_session._session_error(error, connection, conversation))
        raise AssertionError("a list came from nowhere")

    return ask


def reachable(host: str, port: int, *, allowed: Any) -> str:
    """A guard that checks nothing."""
    return str(socket.getaddrinfo(host, port)[0][4][0])


def with_a_hole(monkeypatch: pytest.MonkeyPatch, guard: Any) -> None:
    """Puts another guard into both clients."""
    monkeypatch.setattr(outbound, "resolve_allowed_address", guard)
    monkeypatch.setattr(mcp_http, "resolve_allowed_address", guard)


# --- Spellings --------------------------------------------------------------------------------------------------------


def test_there_are_enough_spellings_of_each_kind_S9() -> None:
    assert len(set(ADDRESSES)) == len(ADDRESSES) >= 60
    assert len(set(UNKNOWN_ID)) == len(UNKNOWN_ID)


@pytest.mark.parametrize("host", [*ADDRESSES, *UNKNOWN_ID])
def test_sec_2_a_forbidden_address_is_not_connected_to_however_it_is_written_S9(
    went: list[Any], listed: Callable[[str], str], host: str
) -> None:
    for url in (f"http://{host}/a.json", f"https://{host}:443/"):
        assert fetched(url) == UNREACHABLE
    if read_by_the_mcp_client(host):
        assert listed(f"http://{host}/mcp") == UNREACHABLE
    assert went == []


def read_by_the_mcp_client(host: str) -> bool:
    """Its HTTP library refuses some spellings before it looks for an address."""
    try:
        httpx2.URL(f"http://{host}/mcp")
    except httpx2.InvalidURL:
        return False
    return True


@pytest.mark.parametrize("host", ADDRESSES)
def test_without_the_guard_each_spelling_would_lead_somewhere(
    monkeypatch: pytest.MonkeyPatch, went: list[Any], listed: Callable[[str], str], host: str
) -> None:
    with_a_hole(monkeypatch, reachable)
    fetched(f"http://{host}/a.json")
    assert len(went) == 1
    listed(f"http://{host}/mcp")
    assert len(went) == 1 + read_by_the_mcp_client(host)


@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", "ftp://a.example/x", "gopher://127.0.0.1:6379/_INFO", "dict://127.0.0.1:11211/stats", "ldap://127.0.0.1",
     "jar:http://127.0.0.1!/", "data:application/json,{}", "//127.0.0.1/x", "127.0.0.1/x", "http:127.0.0.1", "http:/127.0.0.1", "http://",
     "http:///x", "http://[::1", "http://[::1]./", "http://::1/", "http://u:p@a.example/", "http://a.example@127.0.0.1/", "http://127.0.0.1#@a.example/",
     "http://a.example\\@127.0.0.1/", "http://@127.0.0.1/", "http://a.example:99999/", "http://a.example:0/", "http://a.example:x/",
     "http://a.example:-1/", "http://ünï.example/", "http://127。0。0。1/", "http://127.0.0．1/", "http://１２７.0.0.1/", "http://①②⑦.⓪.⓪.①/",
     "http://localhoſt/", "http://ⓛocalhost/", "http://a.example/\r\nX: y", "http://a.example\r\n/", "http://a.example/ b", "http://a.example/\x00",
     "http://127.0.0.1\t/", " http://127.0.0.1/", "http://0x7f.1\u00ad/", ""]
)  # fmt: skip
def test_sec_2_what_is_no_plain_url_is_said_to_be_none_S9(went: list[Any], url: str) -> None:
    sentence = fetched(url)
    if sentence != UNREACHABLE:  # `http://127.0.0.1#@…` is a plain URL of a forbidden address
        assert sentence.startswith("Give a URL that starts with http:// or https://")
        with pytest.raises(InvalidTarget):
            fetch_document(url)
    assert went == []


def test_a_url_that_is_too_long_is_refused(went: list[Any]) -> None:
    assert "longer than 2048" in fetched("http://a.example/" + "x" * 2048)
    assert went == []


# --- Names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mixed.example", "mixed-6.example", "6-mixed.example", "last.example"])
def test_sec_2_a_name_is_judged_by_all_of_its_addresses_S9(
    monkeypatch: pytest.MonkeyPatch, went: list[Any], listed: Callable[[str], str], name: str
) -> None:
    assert fetched(f"http://{name}/a.json") == UNREACHABLE
    assert listed(f"http://{name}/mcp") == UNREACHABLE
    assert went == []

    def only_the_first(host: str, port: int, *, allowed: Any) -> str:
        monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **options: numeric(KNOWN[name][0], port))
        return addresses.resolve_allowed_address(host, port, allowed=allowed)

    with_a_hole(monkeypatch, only_the_first)
    fetched(f"http://{name}/a.json")
    assert went == [(KNOWN[name][0], 80)]


def test_a_name_with_public_addresses_only_is_connected_to_at_its_first(
    went: list[Any], listed: Callable[[str], str]
) -> None:
    """The resolver's order knows whether this machine has IPv6 at all."""
    for name in ("public.example", "two.example"):
        assert fetched(f"http://{name}/a.json") == UNREACHABLE
        assert listed(f"https://{name}/mcp") == UNREACHABLE
    assert went == [(OUTSIDE, 80), (OUTSIDE, 443)] * 2


class Rebinding:
    """A resolver whose first answer leads outside and every later one inside."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.times = 0
        monkeypatch.setattr(socket, "getaddrinfo", self.resolve)

    def resolve(self, host: Any, port: Any, *args: Any, **options: Any) -> list[Any]:
        self.times += 1
        return numeric(OUTSIDE if self.times == 1 else "127.0.0.1", port)


def test_sec_2_the_address_that_was_judged_is_the_one_connected_to_S9(
    monkeypatch: pytest.MonkeyPatch, went: list[Any], listed: Callable[[str], str]
) -> None:
    for ask in (fetched, listed):
        resolver = Rebinding(monkeypatch)
        assert ask("http://names.example/a.json") == UNREACHABLE
        assert resolver.times == 1
    assert went == [(OUTSIDE, 80)] * 2


def test_a_guard_that_resolves_again_is_found_out(
    monkeypatch: pytest.MonkeyPatch, went: list[Any], listed: Callable[[str], str]
) -> None:
    def judges_one_and_takes_another(host: str, port: int, *, allowed: Any) -> str:
        addresses.resolve_allowed_address(host, port, allowed=allowed)
        return reachable(host, port, allowed=allowed)

    with_a_hole(monkeypatch, judges_one_and_takes_another)
    for ask in (fetched, listed):
        Rebinding(monkeypatch)
        ask("http://names.example/a.json")
    assert went == [("127.0.0.1", 80)] * 2


# --- Ports ------------------------------------------------------------------------------------------------------------

PORTS = (1, 21, 22, 23, 25, 81, 442, 444, 3306, 5432, 5672, 6379, 8000, 8080, 8443, 9200, 11211, 27017, 65535)


def test_sec_2_other_ports_are_refused_without_a_connection_S9(
    monkeypatch: pytest.MonkeyPatch, went: list[Any], listed: Callable[[str], str]
) -> None:
    for port in PORTS:
        for scheme in ("http", "https"):
            assert fetched(f"{scheme}://public.example:{port}/a.json") == UNREACHABLE
        assert listed(f"http://public.example:{port}/mcp") == UNREACHABLE
    assert went == []
    monkeypatch.setattr(addresses, "PORTS", range(1, 65536))
    for port in PORTS:
        fetched(f"http://public.example:{port}/a.json")
    assert went == [(OUTSIDE, port) for port in PORTS]


def test_sec_2_an_allowed_host_is_that_name_at_that_port_and_no_other_S9(
    settings: Any, went: list[Any]
) -> None:
    settings.IMPORT_ALLOWED_HOSTS = ["specs.internal:8080", "[fd00::7]:8080"]
    for url in ("http://specs.internal:8080/", "http://SPECS.internal:8080/", "http://[fd00::7]:8080/"):
        fetched(url)
    assert went == [("specs.internal", 8080), ("specs.internal", 8080), ("fd00::7", 8080)]
    for url in (
        "http://specs.internal/", "http://specs.internal:80801/", "http://specs.internal:8081/", "http://a.specs.internal:8080/",
        "http://internal:8080/", "http://specs.internal.:8080/", "http://[fd00::8]:8080/", "http://127.0.0.1:8080/",
    ):  # fmt: skip
        fetched(url)
    assert len(went) == 3


# --- Error texts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [httpcore.ConnectError("closed"), httpcore.ConnectTimeout("filtered"), httpcore.ReadTimeout("silent"), httpcore.ReadError("reset"),
     httpcore.RemoteProtocolError("SSH-2.0"), httpcore.ConnectError("[SSL] wrong version number"), httpcore.LocalProtocolError("odd")],
    ids=str,
)  # fmt: skip
def test_sec_2_closed_filtered_silent_and_blocked_get_one_and_the_same_sentence_S9(
    monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    def fail(self: Any, host: str, port: int, *args: Any, **options: Any) -> Any:
        raise fault

    monkeypatch.setattr(httpcore.SyncBackend, "connect_tcp", fail)
    assert (
        fetched("http://public.example/a.json") == UNREACHABLE
    )  # what a closed port of a public address says
    assert fetched("http://10.0.0.1/a.json") == UNREACHABLE  # blocked
    assert fetched("http://nobody.example/a.json") == UNREACHABLE  # no such name


@pytest.mark.parametrize(
    "fault",
    [httpcore2.ConnectError("closed"), httpcore2.ConnectTimeout("filtered"), httpcore2.ReadError("reset")],
    ids=str,
)
def test_sec_2_the_mcp_client_says_the_same_S9(
    monkeypatch: pytest.MonkeyPatch, listed: Callable[[str], str], fault: Exception
) -> None:
    async def fail(self: Any, host: str, port: int, *args: Any, **options: Any) -> Any:
        raise fault

    monkeypatch.setattr(httpcore2.AnyIOBackend, "connect_tcp", fail)
    assert listed("http://public.example/mcp") == UNREACHABLE
    assert listed("http://10.0.0.1/mcp") == UNREACHABLE
    assert listed("http://nobody.example/mcp") == UNREACHABLE


def test_sec_2_an_address_that_is_never_reached_is_not_told_as_a_slow_one_S9(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetching, "WHOLE_SECONDS", 1e-9)
    assert fetched("http://public.example/a.json") == UNREACHABLE
    way = {"url": "http://public.example/mcp", "seconds": 1}
    said = mcp_session._session_error(TimeoutError(), way, Conversation(Redactor([]), 20_000_000))
    assert (type(said), str(said)) == (SessionError, UNREACHABLE)
    reached = mcp_session._session_error(
        TimeoutError(), way, Conversation(Redactor([]), 20_000_000, reached=True)
    )
    assert type(reached) is SessionTimeout
