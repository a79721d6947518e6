"""Which hosts are this machine: addresses and names that servers listen on or print."""

from __future__ import annotations

import socket

import pytest

from dragstrip.contender import addresses_here, entrants, first_listening, url_entry
from dragstrip.errors import BadUsage
from dragstrip.loading.request import reachable, target


def own_addresses() -> list[str]:
    """Addresses of this machine beyond loopback, which need no network to be known."""
    import psutil

    families = (socket.AF_INET, socket.AF_INET6)
    every = [entry for entries in psutil.net_if_addrs().values() for entry in entries if entry.family in families]
    return [entry.address for entry in every if "%" not in entry.address]


@pytest.mark.parametrize(
    ("host", "addresses"),
    [
        ("127.0.0.1", ("127.0.0.1",)),
        ("127.9.8.7", ("127.9.8.7",)),
        ("0.0.0.0", ("127.0.0.1",)),
        ("::", ("::1",)),
        ("::1", ("::1",)),
        ("0:0:0:0:0:0:0:1", ("::1",)),
        ("::ffff:127.0.0.1", ("127.0.0.1",)),
        ("localhost", ("127.0.0.1", "::1")),
        ("LocalHost.", ("127.0.0.1", "::1")),
        ("app.localhost", ("127.0.0.1", "::1")),
        ("", ()),
        ("192.0.2.1", ()),
        ("2001:db8::1", ()),
        ("224.0.0.1", ()),
        ("name.invalid", ()),
    ],
)
def test_loopback_in_every_form_is_this_machine(host: str, addresses: tuple[str, ...]) -> None:
    """No other host is; nothing is sent to find that out."""
    assert addresses_here(host) == addresses


def test_every_address_of_an_interface_is_this_machine() -> None:
    """Also where servers print the machine's own address instead of loopback."""
    for address in own_addresses():
        assert addresses_here(address) in [(address,), ("127.0.0.1",), ("::1",)]


def test_a_name_of_the_hosts_file_is_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """If all of its addresses are; one elsewhere among them makes it another machine."""
    known = {"mine.test": ["127.0.1.1", "::1"], "mixed.test": ["127.0.0.1", "192.0.2.1"]}
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *_, **__: [(0, 0, 0, "", (a, 0)) for a in known[host]])
    assert addresses_here("mine.test") == ("127.0.1.1", "::1")
    assert addresses_here("mixed.test") == ()


@pytest.mark.parametrize("bound", ["127.0.0.1", "::1"])
def test_localhost_is_loaded_and_raced_where_the_server_listens(bound: str) -> None:
    """Vite and many versions of Node listen at ::1 alone."""
    family = socket.AF_INET6 if ":" in bound else socket.AF_INET
    with socket.create_server((bound, 0), family=family) as server:
        port = server.getsockname()[1]
        assert first_listening(addresses_here("localhost"), port) == bound
        to = reachable(target(f"http://localhost:{port}/x"))
        assert (to.host, to.authority, to.others) == (bound, f"localhost:{port}", ())
        entry = url_entry(f"http://localhost:{port}/")
        assert entry.url is not None
        assert (entry.url.host, entry.url.port) == (bound, port)


def test_an_ipv6_url_is_an_entrant_with_its_address_in_brackets() -> None:
    """Its record's URL can be read again."""
    entry = url_entry("http://[::1]:8080/")
    assert entry.name == "http://[::1]:8080/"
    assert url_entry(entry.name, None) == entry
    assert entrants(["http://[::1]:8080/"])[0].name == entry.name


def test_a_url_elsewhere_is_refused_with_its_own_name_in_the_hint() -> None:
    """The hint can be pasted."""
    with pytest.raises(BadUsage, match=r"--allow-host 192\.0\.2\.1"):
        target("http://192.0.2.1/")
