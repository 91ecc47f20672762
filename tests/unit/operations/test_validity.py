"""When a certificate ends is read from any certificate, and from nothing else."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime
from pathlib import Path

import certifi
import pytest

from infra.certificates import certificate
from perdure._operations.doctor.validity import end_of, ends_of


@pytest.mark.parametrize("year", [1970, 2026, 2049, 2050, 2099])
def test_the_end_is_that_of_the_certificate(year: int) -> None:
    end = datetime(year, 11, 25, 3, 4, 5, tzinfo=UTC)
    assert ends_of(certificate(end, name="n" * 60)) == [end]


def test_each_certificate_of_a_file_is_read_and_what_stands_between_is_not() -> None:
    ends = [datetime(2030, 1, each, tzinfo=UTC) for each in (1, 2)]
    pem = b"".join(b"# r\xc3\xa9sum\xc3\xa9\n" + certificate(each) for each in ends)
    assert ends_of(pem) == ends
    assert ends_of(b"") == []


def test_the_authorities_of_the_web_are_read_as_python_reads_them() -> None:
    known = ssl.create_default_context(cafile=certifi.where()).get_ca_certs()
    ends = {datetime.fromtimestamp(ssl.cert_time_to_seconds(str(each["notAfter"])), UTC) for each in known}
    assert len(ends) > 50
    assert ends <= {*ends_of(Path(certifi.where()).read_bytes())}


@pytest.mark.parametrize("der", [b"", b"0", b"\x30\x82\xff\xff", b"\x30\x03\x30\x01\x00", b"\xff" * 40])
def test_an_invalid_certificate_is_refused(der: bytes) -> None:
    with pytest.raises(ValueError, match="no certificate"):
        end_of(der)
