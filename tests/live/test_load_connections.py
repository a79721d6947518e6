"""How ``dragstrip load`` connects: HTTP/1.0, unix sockets, connections that end, TLS; against real servers."""

from __future__ import annotations

import datetime
import ipaddress
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

pytest.importorskip("dragstrip._engine", reason="the engine is not built: make build")
from loads import Nginx, free_port, live, load, load_json, needs_nginx

pytestmark = [live, needs_nginx]


class Old(BaseHTTPRequestHandler):
    """Speaks HTTP/1.0 and closes after each answer, whatever it is asked."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_http_1_0_is_spoken_as_ab_speaks_it_and_reuse_is_counted(nginx: Nginx) -> None:
    """With ab's keep-alive header connections are reused, without it each request has its own: never an error."""
    kept = load_json(nginx.url(), "-n", "1002", "-c", "10", "--http", "1.0")
    assert (kept["requests"], kept["errors"], kept["connections_opened"]) == (1002, {}, 10)
    assert (kept["answers_on_reused_connections"], kept["load"]["http"]) == (990, "1.0")
    closed = load_json(nginx.url(), "-n", "502", "-c", "10", "--http", "1.0", "--no-keepalive")
    assert (closed["requests"], closed["errors"], closed["answers_on_reused_connections"]) == (502, {}, 0)
    assert closed["connections_opened"] >= 500
    assert "in HTTP/1.0" in load(nginx.url(), "-n", "12", "--http", "1.0").stdout


def test_a_server_that_does_not_keep_http_1_0_alive_is_seen_as_such_and_not_as_an_error() -> None:
    """It closes each connection though asked to keep it, as many servers do; the report says so."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Old) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        found = load_json(f"http://127.0.0.1:{server.server_port}/", "-n", "102", "-c", "2", "--http", "1.0")
        server.shutdown()
    assert (found["requests"], found["errors"]) == (102, {})
    assert found["connections_opened"] >= 100
    assert any("ends each connection" in line for line in found["warnings"])


def test_connections_end_after_as_many_requests_as_told(nginx: Nginx) -> None:
    """The last one says so, so that the server closes; nginx logs the same number, and each opening is timed."""
    found = load_json(nginx.url(), "-n", "1002", "-c", "5", "--close-after", "20")
    assert len(nginx.ended()) == 1002
    assert (found["requests"], found["errors"]) == (1002, {})
    assert 50 <= found["connections_opened"] <= 60
    assert found["connect_us"]["count"] == found["connections_opened"]
    assert found["first_byte_us"] is None


def test_pipelined_requests_are_each_answered_checked_and_logged(nginx: Nginx) -> None:
    """Sixteen on their way on each of three connections; the time to the first byte of each is recorded, too."""
    shown = load(nginx.url(), "-n", "12", "--pipeline", "2000")
    assert (shown.returncode, "--pipeline" in shown.stderr) == (2, True)
    found = load_json(nginx.url(), "-n", "5002", "-c", "3", "--pipeline", "16", "--first-byte")
    assert len(nginx.ended()) == 5002
    assert (found["requests"], found["errors"]) == (5002, {})
    assert found["first_byte_us"]["count"] == 5000
    assert found["first_byte_us"]["p50"] <= found["latency_us"]["p50"]


def test_a_unix_socket_is_loaded_like_a_port(tmp_path: Path) -> None:
    """With and without keep-alive; the message names a path without a listener."""
    path = f"{tmp_path}/socket"
    server = Nginx(tmp_path, f"listen unix:{path};")
    words = ["http://localhost/", "--unix", path, "-c", "4"]
    assert load_json(*words, "-n", "502")["requests"] == 502
    assert load_json(*words, "-n", "202", "--no-keepalive")["requests"] == 202
    log = server.ended()
    assert len(log) == 704
    assert log[-1] == "/ 200 GET - localhost -"
    nobody = load(*words, "-n", "12")
    assert nobody.returncode == 1
    assert f"the socket {path} does not respond" in nobody.stderr


def test_connections_come_from_many_addresses_and_ports_that_run_out_are_told_before(nginx: Nginx) -> None:
    """More connections than one address has ports are refused with what would do, before anything is sent."""
    found = load_json(nginx.url(), "-n", "302", "-c", "20", "--sources", "5")
    assert (found["requests"], found["errors"], found["load"]["sources"]) == (302, {}, 5)
    assert load_json(nginx.url(), "-n", "102", "-c", "4", "--no-keepalive", "--sources", "auto")["load"]["sources"] > 1
    refused = load(nginx.url(), "-c", "200000")
    assert refused.returncode == 2
    assert "local ports" in refused.stderr
    assert "--sources" in refused.stderr


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def certificate(
    name: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    subject: str = "",
    *,
    days: int = 2,
    authority: bool = False,
    issuer: x509.Name | None = None,
    signer: ec.EllipticCurvePrivateKey | None = None,
) -> x509.Certificate:
    """A certificate that lasts until this many days from now (below 0: ago); without a signer, it signs itself.

    openssl's command line makes no certificate that has ended from its version 3.5 on.
    """
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer or name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=9))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=authority)
    )
    names = [
        x509.IPAddress(ipaddress.ip_address(text)) if kind == "IP" else x509.DNSName(text)
        for kind, _, text in (one.partition(":") for one in subject.split(",") if one)
    ]
    made = made.add_extension(x509.SubjectAlternativeName(names), critical=False) if names else made
    return made.sign(signer or key, hashes.SHA256())


def write_certificate(file: Path, key: ec.EllipticCurvePrivateKey, made: x509.Certificate) -> None:
    """Writes both in PEM; the key's file ends in ``.key``."""
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file.with_suffix(".key").write_bytes(key.private_bytes(*form))


class Authority:
    """A signer of the test's own: certificates for names, expired or not."""

    def __init__(self, at: Path) -> None:
        self.at, self.file, self.key = at, at / "ca.pem", ec.generate_private_key(ec.SECP256R1())
        self.name = _named("a test's own")
        write_certificate(self.file, self.key, certificate(self.name, self.key, authority=True))

    def sign(self, name: str, subject: str, days: int = 2) -> str:
        """nginx's words for a key and its certificate; ``subject`` as openssl writes it: ``DNS:name,IP:address``."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = certificate(_named("it"), key, subject, days=days, issuer=self.name, signer=self.key)
        write_certificate(self.at / f"{name}.pem", key, made)
        return f"ssl_certificate {self.at}/{name}.pem; ssl_certificate_key {self.at}/{name}.key;"


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_https_is_loaded_with_the_server_proved(tmp_path: Path, version: str) -> None:
    """Both versions, kept alive and not, pipelined, connections that end; every answer checked as ever."""
    signer, port = Authority(tmp_path), free_port()
    words = signer.sign("good", "DNS:localhost,IP:127.0.0.1")
    server = Nginx(tmp_path, f"listen 127.0.0.1:{port} ssl; ssl_protocols {version}; {words}")
    url, ca = f"https://127.0.0.1:{port}/", ["--cacert", str(signer.file)]
    kept = load_json(url, "-n", "502", "-c", "5", *ca)
    assert (kept["requests"], kept["errors"], kept["connections_opened"]) == (502, {}, 5)
    assert kept["load"]["tls"]["version"].startswith(version)
    assert (kept["load"]["tls"]["verified"], kept["connect_us"]["count"]) == (True, 5)
    assert load_json(f"https://localhost:{port}/", "-n", "102", "-c", "4", "--no-keepalive", *ca)["errors"] == {}
    assert load_json(url, "-n", "402", "-c", "3", "--pipeline", "8", "--close-after", "20", *ca)["errors"] == {}
    anybody = load_json(url, "-n", "102", "-c", "2", "--insecure")
    assert anybody["requests"] == 102
    assert any("was not checked" in line for line in anybody["warnings"])
    assert len(server.ended()) == 502 + 102 + 402 + 102


def test_a_certificate_that_proves_nothing_is_refused_with_what_would_do(tmp_path: Path) -> None:
    """For another name, expired, signed by an unknown authority, or missing; nothing is loaded."""
    signer = Authority(tmp_path)
    ports = {name: free_port() for name in ("other", "old")}
    words = {"other": signer.sign("other", "DNS:elsewhere.test"), "old": signer.sign("old", "IP:127.0.0.1", days=-1)}
    at = {name: f"listen 127.0.0.1:{ports[name]} ssl; {words[name]}" for name in words}
    server = Nginx(tmp_path, f"{at['other']} }} server {{ {at['old']}")
    cases = [
        (
            f"https://127.0.0.1:{ports['other']}/",
            ["--cacert", str(signer.file)],
            "certificate is for another name than 127.0.0.1",
        ),
        (f"https://127.0.0.1:{ports['old']}/", ["--cacert", str(signer.file)], "certificate has expired"),
        (f"https://127.0.0.1:{ports['other']}/", [], "certificate has an unknown issuer"),
        (server.url().replace("http:", "https:"), [], "; use http:// if the server has no TLS"),
    ]
    for url, more, said in cases:
        done = load(url, "-n", "12", *more)
        assert done.returncode == 1, done.stdout
        assert said in done.stderr
    missing = load(cases[0][0], "--cacert", str(tmp_path / "nowhere.pem"))
    assert (missing.returncode, "--cacert" in missing.stderr) == (2, True)
    assert not [line for line in server.ended() if " 200 " in line]


class SelfSigned:
    """What ``openssl req -x509`` makes: a certificate that signs itself and is an authority's, as curl takes it.

    Args:
        authority: whether it may sign others; days: until it ends, below 0 for one that has ended.
    """

    def __init__(
        self, at: Path, name: str, subject: str = "IP:127.0.0.1", *, authority: bool = True, days: int = 2
    ) -> None:
        self.file, key = at / f"{name}.pem", ec.generate_private_key(ec.SECP256R1())
        write_certificate(self.file, key, certificate(_named("its-own"), key, subject, days=days, authority=authority))
        self.words = f"ssl_certificate {self.file}; ssl_certificate_key {self.file.with_suffix('.key')};"


def serving(at: Path, made: dict[str, str]) -> tuple[Nginx, dict[str, str]]:
    """An nginx that shows each of these certificates at an address of its own, by name."""
    ports = {name: free_port() for name in made}
    servers = [f"listen 127.0.0.1:{ports[name]} ssl http2; {words}" for name, words in made.items()]
    server = Nginx(at, " location / { return 200 hi; } } server { ".join(servers))
    return server, {name: f"https://127.0.0.1:{port}/" for name, port in ports.items()}


WAYS = {
    "kept": (),
    "anew": ("--no-keepalive", "--tls", "full"),
    "resumed": ("--no-keepalive", "--tls", "resumed"),
    "http2": ("--http", "2"),
    "statuses": ("--check", "status", "--status", "200"),
    "statuses anew": ("--check", "status", "--status", "200", "--no-keepalive"),
}


@pytest.mark.parametrize("more", WAYS.values(), ids=WAYS)
def test_a_certificate_is_believed_where_cacert_names_it(tmp_path: Path, more: tuple[str, ...]) -> None:
    """One that signs itself, an authority's or not, and one that another signed; in every way of connecting."""
    itself, leaf = (
        SelfSigned(tmp_path, "itself"),
        SelfSigned(tmp_path, "leaf", authority=False),
    )
    signed = Authority(tmp_path).sign("signed", "IP:127.0.0.1")
    server, urls = serving(tmp_path, {"itself": itself.words, "leaf": leaf.words, "signed": signed})
    for name, url in urls.items():
        found = load_json(url, "-n", "42", "-c", "4", "--cacert", str(tmp_path / f"{name}.pem"), *more)
        assert (found["requests"], found["errors"]) == (42, {}), name
    server.ended()


@pytest.mark.parametrize("more", WAYS.values(), ids=WAYS)
def test_a_certificate_is_refused_for_its_cause_in_plain_words(tmp_path: Path, more: tuple[str, ...]) -> None:
    """Named, yet expired or for another name; or not named; never a library's own words, whatever looks at it first."""
    old, other = SelfSigned(tmp_path, "old", days=-1), SelfSigned(tmp_path, "other", "DNS:elsewhere.test")
    good, signer = SelfSigned(tmp_path, "good"), Authority(tmp_path)
    server, urls = serving(tmp_path, {"old": old.words, "other": other.words, "good": good.words})
    cases = {
        "old": (old.file, "the server's certificate has expired"),
        "other": (other.file, "the server's certificate is for another name"),
        "good": (signer.file, "the server's certificate has an unknown issuer"),
    }
    for name, (cacert, said) in cases.items():
        done = load(urls[name], "-n", "42", "-c", "4", "--cacert", str(cacert), *more)
        text = " ".join((done.stdout + done.stderr).split())
        assert done.returncode == 1, text
        assert said in text
        for never in ("sent no correct response", "CaUsed", "InvalidCertificate", "Other(", "Context"):
            assert never not in text
    assert not [line for line in server.ended() if " 200 " in line]
