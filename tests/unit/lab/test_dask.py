"""Dask as the carrier: addresses that it may have, its ports, and cells that are stored once if a worker is killed."""

from __future__ import annotations

import time
from pathlib import Path

import labs
import psutil
import pytest

from dragstrip.errors import BadUsage
from dragstrip.lab.matrix import Strip
from dragstrip.lab.strips import Link

pytest.importorskip("distributed", reason="Dask is not installed: pip install 'dragstrip[lab]'")


def test_addresses_beyond_this_machine_need_certificates(tmp_path: Path) -> None:
    """Each refusal names what would be valid."""
    from dragstrip.lab.dask_carrier import DaskCarrier

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
            DaskCarrier(address, tls, tmp_path, print)
    here = Link(fields=Strip(name="here"), folder=tmp_path, work=str(tmp_path))
    with pytest.raises(BadUsage, match="strip here is this machine, and Dask would use CPU during its races"):
        DaskCarrier.join(object.__new__(DaskCarrier), [here])


@pytest.mark.thorough
def test_a_killed_worker_doubles_nothing_and_all_ports_are_on_loopback(tmp_path: Path) -> None:
    """The race outlives the worker; the next worker finds what it has left."""
    file = labs.matrix(tmp_path, cells=2, strips=1, how=labs.VIA)
    with labs.client(file, "--dask", "local", STUB_S="6") as client:
        log = tmp_path / "logs" / "s0.log"
        while not log.exists() and client.poll() is None:
            time.sleep(0.05)
        tree = [psutil.Process(client.pid), *psutil.Process(client.pid).children(recursive=True)]
        ports = {one.laddr for process in tree for one in process.net_connections() if one.status == "LISTEN"}
        (race,) = (psutil.Process(int(line.split()[1])) for line in log.read_text().splitlines()[:1])
        race.parent().kill()
        output, _ = client.communicate()
    assert client.returncode == 0, output.decode()
    assert len(ports) >= 4
    assert {port.ip for port in ports} == {"127.0.0.1"}
    labs.assert_each_once(file, 2)
    assert log.read_text().count("begin") == 2
