"""When certificates end, read from their DER (RFC 5280, section 4.1), since Python's ssl shows only verified ones."""

from __future__ import annotations

import re
import ssl
from datetime import UTC, datetime

_PEM = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_VERSION, _UTC_TIME = 0xA0, 0x17


def ends_of(pem: bytes) -> list[datetime]:
    """When each certificate of a PEM file ends.

    Raises:
        ValueError: one can't be read.
    """
    found = _PEM.findall(pem.decode("ascii", errors="replace"))
    return [end_of(ssl.PEM_cert_to_DER_cert(each)) for each in found]


def end_of(der: bytes) -> datetime:
    """When a certificate ends.

    Raises:
        ValueError: it can't be read.
    """
    try:
        _, certificate, _ = _element(der)
        _, fields, _ = _element(certificate)
        kind, _, rest = _element(fields)
        if kind == _VERSION:
            _, _, rest = _element(rest)  # the serial number
        for _ in range(2):  # the signature's algorithm, the issuer
            _, _, rest = _element(rest)
        _, validity, _ = _element(rest)
        _, _, rest = _element(validity)  # its begin
        kind, end, _ = _element(rest)
        return _moment(kind, end.decode())
    except (IndexError, UnicodeDecodeError) as error:
        raise ValueError("it is no certificate") from error


def _element(data: bytes) -> tuple[int, bytes, bytes]:
    """The tag and the content of the first element, and what follows it."""
    kind, length, at = data[0], data[1], 2
    if length & 0x80:
        at += length & 0x7F
        length = int.from_bytes(data[2:at], "big")
    if at + length > len(data):
        raise IndexError(length)
    return kind, data[at : at + length], data[at + length :]


def _moment(kind: int, text: str) -> datetime:
    if kind == _UTC_TIME:  # two digits of the year, from 1950 on
        text = ("19" if text >= "50" else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
