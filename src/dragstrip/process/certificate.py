"""The certificate of servers that race over TLS: made for one race, and trusted only in that race.

Importing it takes a while, and most races have no TLS.
"""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from dragstrip.contender import Identity

#: Names in the authority's and the server's certificate.
AUTHORITY, SERVER = "Dragstrip, for one race", "127.0.0.1"

#: Days of validity: longer than any race, and some days back, in case the clock is set during a race.
GOOD_DAYS, BEFORE_DAYS = 30, 2


@dataclass(frozen=True, slots=True)
class Authority:
    """A race's authority: ``file`` is its certificate in PEM, for clients that must trust ``identity``."""

    identity: Identity
    file: Path


def make(folder: Path) -> Authority:
    """An authority and a server's certificate for 127.0.0.1 and localhost; the authority's key is not kept.

    Args:
        folder: where the authority's certificate is written.
    """
    now = datetime.datetime.now(datetime.UTC)
    signing_key, server_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())

    def certificate(name: str, key: ec.EllipticCurvePrivateKey, *more: x509.ExtensionType, authority: bool) -> bytes:
        usage = x509.KeyUsage(
            digital_signature=not authority, key_cert_sign=authority, crl_sign=authority, content_commitment=False,
            key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False,
            decipher_only=False,
        )  # fmt: skip
        builder = (
            x509.CertificateBuilder()
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, AUTHORITY)]))
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=BEFORE_DAYS))
            .not_valid_after(now + datetime.timedelta(days=GOOD_DAYS))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=0 if authority else None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key()), critical=False)
        )
        for extension in more:
            builder = builder.add_extension(extension, critical=False)
        return builder.sign(signing_key, hashes.SHA256()).public_bytes(Encoding.PEM)

    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")])
    for_servers = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    file = folder / "authority.pem"
    file.write_bytes(certificate(AUTHORITY, signing_key, authority=True))
    key = server_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Authority(Identity(certificate(SERVER, server_key, names, for_servers, authority=False), key), file)
