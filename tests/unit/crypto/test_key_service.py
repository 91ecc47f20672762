"""Keys that a service wraps: the example of the page against a server that speaks Vault's Transit API."""

from __future__ import annotations

import base64
import json
import re
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.error import HTTPError

import pytest
from cryptography.fernet import Fernet, MultiFernet
from typer.testing import CliRunner

from perdure._crypto.keyring import Keyring, keyring
from perdure.cli import cli
from perdure.encryption import KeyService
from perdure.errors import InvalidSetting, KeyServiceUnavailable
from perdure.settings import settings

PAGE = Path(__file__).parents[3] / "docs/encryption.md"
TOKEN = "hvs.a-token"


class Transit(BaseHTTPRequestHandler):
    """`POST /v1/transit/encrypt/:name` and `decrypt/:name`; the first key encrypts, all decrypt."""

    keys: ClassVar[list[Fernet]]
    asked: ClassVar[list[str]]
    permitted: ClassVar[set[str]]

    def do_POST(self) -> None:
        """See base class."""
        verb, name = self.path.removeprefix("/v1/transit/").split("/")
        given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append(verb)
        if self.headers["X-Vault-Token"] != TOKEN or name != "perdure" or verb not in self.permitted:
            return self._answer(403, {"errors": [f"permission denied for {given}"]})
        if verb == "encrypt":
            made = MultiFernet(self.keys).encrypt(base64.b64decode(given["plaintext"])).decode()
            return self._answer(200, {"data": {"ciphertext": f"vault:v1:{made}"}})
        plain = MultiFernet(self.keys).decrypt(given["ciphertext"].removeprefix("vault:v1:"))
        return self._answer(200, {"data": {"plaintext": base64.b64encode(plain).decode()}})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:
        """See base class."""


@pytest.fixture
def vault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Transit]]:
    """The server, and the example of the page as the module `vault_keys`."""

    class Own(Transit):
        keys: ClassVar = [Fernet(Fernet.generate_key())]
        asked: ClassVar = []
        permitted: ClassVar = {"encrypt", "decrypt"}

    server = ThreadingHTTPServer(("127.0.0.1", 0), Own)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    found = re.search(r"```python\n(import base64.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    (tmp_path / "vault_keys.py").write_text(found[1])
    (tmp_path / "token").write_text(TOKEN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("VAULT_ADDR", f"http://127.0.0.1:{server.server_address[1]}")
    monkeypatch.setenv("VAULT_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("PERDURE_KEY_SERVICE", "vault_keys:service")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    yield Own
    sys.modules.pop("vault_keys", None)
    server.shutdown()
    server.server_close()


def new_key(key_id: str) -> str:
    """What `perdure key` prints."""
    end = CliRunner().invoke(cli, ["key", key_id])
    assert end.exit_code == 0, end.exception
    return end.stdout.strip()


def keys() -> Keyring:
    """By the settings."""
    found = keyring(settings())
    assert found is not None
    return found


def closed(error: BaseException) -> None:
    """Close the answer that the cause still holds."""
    assert isinstance(error.__context__, HTTPError)
    error.__context__.close()


def test_wrapped_keys_are_unwrapped_once_and_rotate(vault: type[Transit], monkeypatch: pytest.MonkeyPatch) -> None:
    first = new_key("first")
    monkeypatch.setenv("PERDURE_KEYS", first)
    sealed = keys().encrypt(b"a text", b"")
    vault.asked.clear()
    assert all(keys().decrypt("first", sealed, b"") == b"a text" for _ in range(3))
    assert vault.asked == []  # it has them from before

    vault.keys.insert(0, Fernet(Fernet.generate_key()))  # the service's own key is rotated
    monkeypatch.setenv("PERDURE_KEYS", f"{new_key('second')},{first}")
    assert (keys().current, keys().ids) == ("second", ("second", "first"))
    assert keys().decrypt("first", sealed, b"") == b"a text"
    assert vault.asked == ["encrypt", "decrypt", "decrypt"]


def test_a_wrapped_key_is_not_the_key(vault: type[Transit], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_KEYS", new_key("first"))
    monkeypatch.delenv("PERDURE_KEY_SERVICE")
    with pytest.raises(InvalidSetting, match=r"the key 'first' has .* bytes, and needs 32"):
        keyring(settings())


def test_without_the_right_it_says_so_and_quotes_nothing(vault: type[Transit], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_KEYS", new_key("first"))
    vault.permitted.discard("decrypt")
    with pytest.raises(KeyServiceUnavailable, match=r"key 'first' is not unwrapped by Vault \(HTTPError\)") as error:
        keyring(settings())
    assert "vault:v1" not in str(error.value)
    closed(error.value)
    vault.permitted.add("decrypt")
    assert keys().current == "first"  # a refusal is not kept
    vault.permitted.discard("encrypt")
    refused = CliRunner().invoke(cli, ["key"]).exception
    assert isinstance(refused, KeyServiceUnavailable)
    closed(refused)


@pytest.mark.parametrize(
    ("path", "why"),
    [("no_module:service", "no module"), ("json:nothing", "has no 'nothing'"), ("json:dumps", "no methods wrap and")],
)
def test_a_service_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, path: str, why: str) -> None:
    monkeypatch.setenv("PERDURE_KEYS", "a:" + base64.b64encode(b"k" * 32).decode())
    monkeypatch.setenv("PERDURE_KEY_SERVICE", path)
    with pytest.raises(InvalidSetting, match=f"PERDURE_KEY_SERVICE='{path}'.*{why}"):
        keyring(settings())


def test_an_object_with_both_methods_is_one() -> None:
    class Own:
        def wrap(self, key: bytes) -> bytes:
            return key[::-1]

        def unwrap(self, wrapped: bytes) -> bytes:
            return wrapped[::-1]

    service: KeyService = Own()
    assert isinstance(service, KeyService)
