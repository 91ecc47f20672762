"""A certificate for 127.0.0.1 that nobody else trusts, made by the `openssl` command."""

from __future__ import annotations

import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Certificate:
    """Paths of a certificate and its key, PEM."""

    cert: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """For a server that shows it."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.cert, self.key)
        return context


def make_certificate(folder: Path) -> Certificate:
    """A new certificate, valid for two days."""
    made = Certificate(folder / "cert.pem", folder / "key.pem")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    paths = ["-keyout", str(made.key), "-out", str(made.cert)]
    subprocess.run([*command, *names, *paths], check=True, capture_output=True)
    return made
