"""Fixtures that several unit tests share."""

import pytest

from tests.unit.tls_ground import Certificate, make_certificate


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """A certificate for 127.0.0.1, made once."""
    return make_certificate(tmp_path_factory.mktemp("tls"))
