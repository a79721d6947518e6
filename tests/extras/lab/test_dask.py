"""Dask as the carrier: addresses that it may have, its ports, and cells that are stored once if a worker is killed."""

from __future__ import annotations

import socket
import ssl
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import labs
import psutil
import pytest

from dragstrip.errors import BadUsage
from dragstrip.extras.lab.matrix import Strip
from dragstrip.extras.lab.strips import StripLink

pytest.importorskip("distributed", reason="Dask is not installed: pip install 'dragstrip[lab]'")


def test_addresses_beyond_this_machine_need_certificates(tmp_path: Path) -> None:
    """Each refusal names what would be valid."""
    from dragstrip.extras.lab.dask_carrier import DaskCarrier

    for address, tls, said in (
        ("tcp://192.0.2.1:8786", None, "use tls:// with --tls"),
        ("tls://192.0.2.1:8786", None, "give --tls, a folder with ca.pem"),
        ("tls://192.0.2.1:8786", tmp_path, "ca.pem does not exist"),
        ("tcp://127.0.0.1:8786", tmp_path, "use tls:// with --tls"),
        ("local", tmp_path, "makes its own certificates"),
        ("ucx://127.0.0.1:8786", None, "use local, tls://HOST:PORT"),
        ("tcp://127.0.0.1:port", None, "use local, tls://HOST:PORT"),
    ):
        with pytest.raises(BadUsage, match=said):
            DaskCarrier(address, tls, tmp_path)
    here = StripLink(fields=Strip(name="here"), folder=tmp_path, work=str(tmp_path))
    with pytest.raises(BadUsage, match="strip here is this machine, and Dask would use CPU during its races"):
        DaskCarrier.join(object.__new__(DaskCarrier), [here])


def replied(port: int, context: ssl.SSLContext | None) -> bytes:
    """What a port says to a peer that can do no more than connect: nothing, if it refuses the peer."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 60) as plain:
        if context is None:
            plain.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return plain.recv(100)
        with context.wrap_socket(plain) as secured:
            return secured.recv(100)
    return b""


def strangers() -> list[ssl.SSLContext | None]:
    """Peers in plain text, without a certificate, and with another authority's; they accept any certificate."""
    import distributed

    foreign = distributed.Security.temporary().get_connection_args("client")["ssl_context"]
    without = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for context in (foreign, without):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return [None, without, foreign]


def test_a_peer_without_the_certificate_can_do_nothing(tmp_path: Path) -> None:
    """The scheduler says nothing to it, and works on."""
    import distributed

    from dragstrip.extras.lab.dask_local import LocalStrips

    own = distributed.Security.temporary()
    with LocalStrips(own, tmp_path) as cluster:
        port = urlsplit(cluster.scheduler_address).port
        assert port
        for context in strangers():
            assert replied(port, context) == b""
        assert replied(port, own.get_connection_args("client")["ssl_context"])
        with pytest.raises(OSError, match=r"Timed out|certificate"):
            distributed.Client(cluster.scheduler_address, security=distributed.Security.temporary(), timeout=1)
        with distributed.Client(cluster.scheduler_address, security=own, timeout=60, set_as_default=False) as client:
            assert client.scheduler_info()["workers"] == {}


def test_a_cluster_that_others_can_reach_is_refused(tmp_path: Path) -> None:
    """Dask's pages listen on every address by default."""
    from distributed import Scheduler, SpecCluster, Worker

    from dragstrip.extras.lab import dask_carrier

    if not dask_carrier._own_addresses():
        pytest.skip("this machine has no address beyond loopback")
    options = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    worker = {"cls": Worker, "options": options | {"nthreads": 1, "memory_limit": 0, "resources": {"strip-s0": 1}}}
    scheduler = {"cls": Scheduler, "options": options | {"port": 0, "dashboard_address": ":0"}}
    strip = StripLink(fields=Strip.model_validate({"name": "s0", "via": ("true",)}), folder=tmp_path, work="lab/s0")
    with (
        SpecCluster(scheduler=scheduler, workers={"s0": worker}, silence_logs=50) as cluster,
        closing(dask_carrier.DaskCarrier(cluster.scheduler_address, None, tmp_path)) as carrier,
        pytest.raises(BadUsage, match=r"also listens at .*, without a certificate; start scheduler and workers with"),
    ):
        carrier.join([strip])


def sockets_of(process: psutil.Process) -> list[Any]:
    """A process's internet sockets; none if it has ended."""
    with suppress(psutil.NoSuchProcess):
        return list(process.net_connections())
    return []


@pytest.mark.thorough
def test_killed_workers_and_strangers_change_nothing_and_all_ports_are_on_loopback(tmp_path: Path) -> None:
    """The race outlives the worker; the next worker finds what it has left."""
    file = labs.matrix(tmp_path, cells=2, strips=1, how=labs.VIA)
    with labs.client(file, "--dask", "local") as client:
        with labs.held_race(file) as begun:
            race = psutil.Process(begun())
            tree = [psutil.Process(client.pid), *psutil.Process(client.pid).children(recursive=True)]
            ports = {one.laddr for process in tree for one in sockets_of(process) if one.status == "LISTEN"}
            race.parent().kill()
            plain = {port: replied(port.port, None) for port in ports}
            pages = {port for port, said in plain.items() if said.startswith(b"HTTP/")}
            assert all(plain[port].startswith(b"HTTP/1.1 404 ") for port in pages), plain
            for context in strangers():  # over TLS, a page of HTTP would wait for more
                assert {replied(port.port, context) for port in ports - pages} == {b""}, context
        output, _ = client.communicate()
    assert client.returncode == 0, output.decode()
    assert len(ports) >= 4
    assert len(ports - pages) >= 3
    assert {port.ip for port in ports} == {"127.0.0.1"}
    labs.assert_each_once(file, 2)
    assert (tmp_path / "logs" / "s0.log").read_text().count("begin") == 2
