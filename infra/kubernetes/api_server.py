"""Kubernetes' API server, built with Go once, with an etcd in the same process; and what one sends to it.

It has no nodes and no controllers: it checks, completes and stores objects, by all admission that is built in.
"""

from __future__ import annotations

import json
import shutil
import signal
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from perdure.servers.cache import cache_directory, made_once
from perdure.servers.guard import GuardedProcess
from perdure.servers.ports import free_port
from perdure.servers.programs import output_of
from perdure.servers.progress import progress

VERSION = "1.34.4"
"""As server/go.mod has it."""
_SOURCES = Path(__file__).with_name("server")
_TOKEN = "of-this-process"
_STARTS_WITHIN = 120.0


class Refused(RuntimeError):
    """The API server did not accept an object; the message is its own."""


def obtain_api_server() -> Path:
    """The program, built into our cache first if need be: 5 to 17 minutes on two cores, once for a machine.

    Raises:
        FileNotFoundError: there is no Go on PATH.
        RuntimeError: it could not be built; the message holds the last lines that Go wrote.
    """
    return made_once(cache_directory() / "bin" / f"kubernetes-{VERSION}", _build)


class ApiServer:
    """A running one. Made by `api_server`."""

    def __init__(self, port: int) -> None:
        self._url = f"https://127.0.0.1:{port}"
        self._tls = ssl.create_default_context()
        self._tls.check_hostname, self._tls.verify_mode = False, ssl.CERT_NONE  # its certificate is its own

    def get(self, path: str) -> Any:
        """An object or a list.

        Raises:
            Refused: there is none, or the server is not ready.
        """
        return self._asked("GET", path, None)[0]

    def apply(self, manifest: Mapping[str, Any], namespace: str) -> list[str]:
        """Apply an object as `kubectl apply --server-side` does, where unknown fields are errors; its warnings.

        Raises:
            Refused: the server does not accept it.
        """
        path = f"{self._path(manifest, namespace)}?fieldManager=perdure&fieldValidation=Strict&force=true"
        return self._asked("PATCH", path, manifest)[1]

    def create_dry(self, manifest: Mapping[str, Any], namespace: str) -> list[str]:
        """Have it judge an object as one that is created, and keep nothing; its warnings.

        Raises:
            Refused: the server does not accept it.
        """
        path = self._path(manifest, namespace).rpartition("/")[0]
        return self._asked("POST", f"{path}?dryRun=All&fieldValidation=Strict", manifest)[1]

    def serves(self, version: str, kind: str) -> bool:
        """Whether it has such a kind, of itself or by a definition that was applied."""
        return self._resource(version, kind) is not None

    def _path(self, manifest: Mapping[str, Any], namespace: str) -> str:
        version, kind, name = manifest["apiVersion"], manifest["kind"], manifest["metadata"]["name"]
        found = self._resource(version, kind)
        if found is None:
            raise Refused(f"no kind {kind} of {version}")
        place = f"namespaces/{namespace}/" if found["namespaced"] else ""
        return f"{_group(version)}/{place}{found['name']}/{name}"

    def _resource(self, version: str, kind: str) -> dict[str, Any] | None:
        try:
            resources = self.get(_group(version))["resources"]
        except Refused:
            return None
        return next((each for each in resources if each["kind"] == kind and "/" not in each["name"]), None)

    def _asked(self, method: str, path: str, body: Mapping[str, Any] | None) -> tuple[Any, list[str]]:
        data = None if body is None else json.dumps(body).encode()  # JSON is YAML
        kind = "application/apply-patch+yaml" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {_TOKEN}", "Content-Type": kind}
        request = urllib.request.Request(f"{self._url}{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60, context=self._tls) as answer:
                return json.loads(answer.read() or b"null"), answer.headers.get_all("Warning") or []
        except urllib.error.HTTPError as error:
            with error:
                text = error.read().decode()
            raise Refused(_message(text)) from None
        except urllib.error.URLError as error:
            raise Refused(str(error.reason)) from None


@contextmanager
def api_server(folder: Path) -> Iterator[ApiServer]:
    """One on 127.0.0.1, with its data and its log in a folder, for as long as the context lasts."""
    program, port = obtain_api_server(), free_port()
    log, made = folder / "api-server.log", ApiServer(port)
    process = GuardedProcess([program, *_arguments(folder, port)], ask=signal.SIGTERM, log=log, cwd=folder)
    try:
        _wait_until_ready(made, process, log)
        yield made
    finally:
        process.kill()


def _arguments(folder: Path, port: int) -> list[str]:
    tokens, key = folder / "tokens.csv", folder / "key.pem"
    tokens.write_text(f'{_TOKEN},admin,admin,"system:masters"\n')
    output_of(["openssl", "genrsa", "-out", str(key), "2048"], folder)
    return [
        *(str(folder / "etcd"), str(free_port())),
        *("--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", f"--secure-port={port}"),
        *(f"--cert-dir={folder / 'certificates'}", f"--token-auth-file={tokens}", "--authorization-mode=RBAC"),
        *("--service-account-issuer=https://perdure.test", "--service-cluster-ip-range=10.0.0.0/24"),
        *(f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}"),
        "--disable-admission-plugins=ServiceAccount",  # a controller would make the accounts
    ]


def _wait_until_ready(server: ApiServer, process: GuardedProcess, log: Path) -> None:
    end = time.monotonic() + _STARTS_WITHIN
    while True:
        try:
            server.get("/api/v1/namespaces/default")
        except Refused as error:
            if not process.running or time.monotonic() > end:
                last = "\n".join(log.read_text(errors="replace").splitlines()[-10:])
                raise RuntimeError(f"the API server did not become ready ({error}):\n{last}") from error
            time.sleep(0.2)
        else:
            return


def _group(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"


def _message(text: str) -> str:
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text[:500]


def _build(target: Path) -> None:
    with progress(f"building Kubernetes' API server {VERSION} with Go (once, 5 to 17 minutes)"):
        sources = shutil.copytree(_SOURCES, target.with_name(f"{target.name}-sources"))
        # Kubernetes' module replaces its parts by folders that its archive lacks, so no `go install` builds it.
        flags = {"GOFLAGS": "-mod=mod", "GOWORK": "off", "CGO_ENABLED": "0"}
        output_of(["go", "build", "-ldflags=-s -w", "-o", str(target), "."], sources, flags)
