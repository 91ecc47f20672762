"""Certificates for servers and clients on this machine: self-signed, or from an authority that is made for them."""

from __future__ import annotations

import ipaddress
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_THIS_MACHINE = x509.SubjectAlternativeName(
    [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
)
_SIGNS = x509.KeyUsage(
    key_cert_sign=True,
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    crl_sign=False,
    encipher_only=False,
    decipher_only=False,
)


@dataclass(frozen=True, slots=True)
class Certificate:
    """Paths of a certificate that nobody else trusts, and of its key, PEM."""

    cert: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """For a server that shows it."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.cert, self.key)
        return context


def self_signed(folder: Path) -> Certificate:
    """A new certificate for 127.0.0.1 and localhost that is its own authority."""
    made = Certificate(folder / "cert.pem", folder / "key.pem")
    key, name = ec.generate_private_key(ec.SECP256R1()), _named("127.0.0.1")
    built = (
        _builder(name, name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_THIS_MACHINE, critical=False)
    )
    cert = built.sign(key, hashes.SHA256())
    Issued(cert.public_bytes(serialization.Encoding.PEM), _pem(key), cert.serial_number).write(made.cert, made.key)
    return made


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate and its key, PEM."""

    cert: bytes
    key: bytes
    serial: int

    def write(self, cert: Path, key: Path) -> None:
        """Put them in place, the key for its owner alone."""
        key.touch(0o600)
        key.write_bytes(self.key)
        cert.write_bytes(self.cert)


class Authority:
    """Signs certificates that are valid for an hour, for 127.0.0.1 and for one name.

    They have what RFC 5280 (4.2.1) demands: from Python 3.13 on, `ssl.create_default_context` accepts no others.

    Attributes:
        cert: its own certificate, PEM.
    """

    def __init__(self, name: str = "authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        built = (
            _builder(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_SIGNS, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
        )
        self.cert = built.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def issue(self, name: str) -> Issued:
        """A certificate whose common name is `name`, for a server and for a client."""
        key = ec.generate_private_key(ec.SECP256R1())
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        built = (
            _builder(_named(name), self._name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_THIS_MACHINE, critical=False)
            .add_extension(usage, critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        cert = built.sign(self._key, hashes.SHA256())
        return Issued(cert.public_bytes(serialization.Encoding.PEM), _pem(key), cert.serial_number)


def certificate(end: datetime, name: str = "a") -> bytes:
    """A certificate that ends then, PEM."""
    key, subject = ec.generate_private_key(ec.SECP256R1()), _named(name)
    built = _builder(subject, subject, key.public_key(), begin=end - timedelta(days=9), end=end)
    return built.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def server_context(issued: Issued, clients: Authority, folder: Path, *more: Authority) -> ssl.SSLContext:
    """For a server of HTTP/2 that shows `issued` and requires a client certificate of `clients` or one of `more`."""
    cert, key = folder / f"{issued.serial:x}.pem", folder / f"{issued.serial:x}.key"
    issued.write(cert, key)
    trusted = b"".join(each.cert for each in (clients, *more)).decode()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=trusted)
    context.load_cert_chain(cert, key)
    context.verify_mode = ssl.CERT_REQUIRED
    context.set_alpn_protocols(["h2"])
    return context


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(encoding, form, serialization.NoEncryption())


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    *,
    begin: datetime | None = None,
    end: datetime | None = None,
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin or now - timedelta(minutes=5))
        .not_valid_after(end or now + timedelta(hours=1))
    )
