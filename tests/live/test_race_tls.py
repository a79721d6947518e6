"""Races over TLS: proved by the race's own certificate, and told on the parity sheet."""

from __future__ import annotations

import json
import shutil
import ssl
import tempfile
from pathlib import Path

import pytest

pytest.importorskip("dragstrip._engine", reason="the engine is not built: make build")
import commands
from races import HERE, PYTHON, assert_nothing_left, dragstrip_run, settings

from dragstrip import contender
from dragstrip.process import certificate

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed"),
]


@pytest.mark.thorough
def test_one_server_races_itself_in_the_clear_and_over_tls_in_both_versions(tmp_path: Path) -> None:
    """All responses are correct; the sheet names the agreed protocol and cipher, and differences are reported."""
    out, env = tmp_path / "out.json", settings(tmp_path)
    names = ["nginx-return", "nginx-return:tls=on", "nginx-return:http=2,tls=on"]
    done = dragstrip_run(env, "race", *names, "--rounds", "2", "-c", "4", "--json", str(out))
    assert out.exists(), done.stdout + done.stderr
    race = json.loads(out.read_text())
    assert [entrant["name"] for entrant in race["contenders"]] == names
    assert all(not entrant["out"] and not entrant["errors"] for entrant in race["columns"][0]["contenders"]), (
        done.stdout
    )
    sheets = {entrant["name"]: entrant["parity"] for entrant in race["columns"][0]["contenders"]}
    assert "TLS version" not in sheets[names[0]]
    for name in names[1:]:
        assert sheets[name]["TLS version"] == "TLSv1.3"
        assert sheets[name]["cipher suite"] == "TLS_AES_256_GCM_SHA384"
        assert sheets[name]["TLS resumption"] == "yes"
    assert [sheets[name]["HTTP version"] for name in names] == ["HTTP/1.1", "HTTP/1.1", "HTTP/2"]
    assert "encryption differs" in dragstrip_run(env, "show", "last", "--verbose").stdout.replace("\n", " ")
    assert_nothing_left()


@pytest.mark.thorough
def test_a_command_that_takes_the_certificate_is_raced_over_tls(tmp_path: Path) -> None:
    """One that takes it and listens in the clear is out, with the reason."""
    env = settings(tmp_path)
    serves = f"{PYTHON} {HERE}/servers/encrypted.py {{port}} {{certificate}} {{certificate_key}}"
    plain = f"{PYTHON} {HERE}/servers/misbehaving.py {{port}} none {{certificate}}"
    out = tmp_path / "out.json"
    words = ["race", "--tls", "--serve", f"mine={serves}", "--serve", f"plain={plain}", "--rounds", "2", "-c", "2"]
    done = dragstrip_run(env, *words, "nginx-return", "--json", str(out))
    assert out.exists(), done.stdout + done.stderr
    mine, plain_one = (
        {entrant["name"]: entrant for entrant in json.loads(out.read_text())["columns"][0]["contenders"]}[n]
        for n in ("mine", "plain")
    )
    assert not mine["out"]
    assert mine["parity"]["TLS version"] == "TLSv1.3"
    assert "TLS fails" in plain_one["out"]


def test_who_has_no_tls_and_what_it_has_not_are_refused(tmp_path: Path) -> None:
    """With who has it, before anything is started."""
    env = settings(tmp_path)
    for given, refusal in (
        (["tornado", "nginx-return", "--tls"], "tornado has no parameter 'tls' in its definition; these have: "),
        (["http://127.0.0.1:1/", "nginx-return", "--tls"], "is already running"),
        (["nginx-return", "--serve", "mine=server {port}", "--tls"], "{certificate}"),
        (["nginx-return", "node", "--workload", "handshakes"], "is about TLS, and nginx-return is raced without TLS"),
        (["nginx-return", "node", "--tls", "--workload", "hello,handshakes"], "race it by itself"),
        (["nginx-return", "nginx-return:http=2", "--streams", "10"], "nginx-return is raced over HTTP/1.1"),
    ):
        refused = commands.dragstrip("race", *given, env=env)
        assert refused.returncode == 2
        assert refusal in refused.stderr, refused.stderr


def test_the_certificate_is_for_this_machine_and_signed_by_the_races_own_authority(tmp_path: Path) -> None:
    """As OpenSSL reads it; two races have two authorities."""
    first, second = tmp_path / "one", tmp_path / "other"
    for folder in (first, second):
        folder.mkdir()
    made, stranger = certificate.make(first), certificate.make(second)
    (first / "leaf.pem").write_bytes(made.identity.certificate)
    (first / "key.pem").write_bytes(made.identity.key)
    ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(first / "leaf.pem", first / "key.pem")
    (authority,) = ssl.create_default_context(cafile=str(made.file)).get_ca_certs()
    assert dict(part for (part,) in authority["subject"])["commonName"] == certificate.AUTHORITY
    assert made.file.read_bytes() != stranger.file.read_bytes()


@pytest.mark.parametrize(("workload", "resumed"), [("handshakes", False), ("resumptions", True)])
@pytest.mark.thorough
def test_each_request_has_a_handshake_or_takes_up_a_session_as_the_server_saw_it(workload: str, resumed: bool) -> None:
    """nginx's own log of every connection under load; scrutineering tries once whether sessions are taken up."""
    with tempfile.TemporaryDirectory() as place:
        folder, log = Path(place) / "logging", Path(place) / "log"
        Path(place).chmod(0o755)
        log.touch()
        log.chmod(0o666)  # nginx runs as ``nobody``
        source = contender.find("nginx-return").folder
        shutil.copytree(source, folder)
        definition = folder / "contender.toml"
        definition.write_text(definition.read_text().replace('name = "nginx-return"', 'name = "logging"'))
        conf = folder / "nginx.conf"
        directives = f"log_format reused '$ssl_session_reused $connection_requests'; access_log {log} reused;"
        conf.write_text(conf.read_text().replace("access_log off;", directives))
        done = dragstrip_run(settings(Path(place)), "verify", f"{folder}:tls=on", "--workload", workload)
        assert done.returncode == 0, done.stdout + done.stderr
        lines = log.read_text().splitlines()
    closed = [line for line in lines if line.endswith(" 1")]
    taken_up = sum(line.startswith("r ") for line in closed)
    fresh = len(closed) - taken_up
    # Numbers of connections, not shares: a busy machine opens few. Scrutineering's connections, and the first ones of
    # each load, have no session to take up.
    if resumed:
        assert taken_up >= 20, f"{taken_up} of {len(closed)} connections resumed"
        assert fresh <= 1000, f"{fresh} of {len(closed)} connections did not resume"
    else:
        assert fresh >= 50, f"{fresh} connections had a handshake of their own"
        assert taken_up <= 5, f"{taken_up} of {len(closed)} connections resumed"


@pytest.mark.thorough
def test_several_streams_are_loaded_and_stored(tmp_path: Path) -> None:
    """The record says how many; nothing that was counted contradicts it."""
    out, env = tmp_path / "out.json", settings(tmp_path)
    words = ["nginx-return", "nginx-static", "--http", "2", "--streams", "7", "--rounds", "2", "-c", "3"]
    done = dragstrip_run(env, "race", *words, "--json", str(out))
    assert out.exists(), done.stdout + done.stderr
    race = json.loads(out.read_text())
    assert race["load"]["streams"] == 7
    assert "3 connections, keep-alive, 7 streams each" in done.stdout.replace("\n", " ")
    checks = {check["check"]: check["status"] for check in race["validity"]}
    assert checks["accounting"] == "pass"
