"""`python -m infra.kubernetes VALUES.yaml ...`: Kubernetes' own API server judges the chart's manifests.

Each file has a namespace of its name, which enforces the Pod Security Standard *restricted*. Each pod is judged as one
that a controller would create.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from infra.helm import ChartError, HelmMissingError, rendered
from infra.kubernetes.api_server import ApiServer, Refused, api_server
from perdure.servers.go import go_sources

_RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
_SERVED_WITHIN = 120.0
_DEFINITIONS = {
    "github.com/kedacore/keda/v2@v2.21.0": "config/crd/bases/keda.sh_*.yaml",
    "github.com/prometheus-operator/prometheus-operator@v0.91.0": (
        "example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml"
    ),
}
"""Where KEDA's and the Prometheus Operator's modules have their definitions. The Worker Controller is no Go module
that can be had: name a folder."""


def main(
    values: Annotated[list[Path], typer.Argument(help="Files of values. Each is rendered by itself.", exists=True)],
    definitions: Annotated[
        list[Path] | None, typer.Option(help="A folder with further definitions (CRDs); may be repeated.", exists=True)
    ] = None,
) -> None:
    """Apply the manifests of each file, and print the API server's refusals and warnings. With any of them, the exit
    status is 1."""
    bad = 0
    with tempfile.TemporaryDirectory(prefix="perdure-kubernetes-") as folder, api_server(Path(folder)) as server:
        for each in _definitions(Path(folder), definitions or []):
            server.apply(each, "")
            spec = each["spec"]
            for version in spec["versions"]:
                _wait_until_served(server, f"{spec['group']}/{version['name']}", spec["names"]["kind"])
        for file in values:
            place = {"name": file.stem, "labels": _RESTRICTED}
            server.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": place}, "")
            manifests = [each for each in yaml.safe_load_all(rendered("shop", file)) if each]
            known = [each for each in manifests if server.serves(each["apiVersion"], each["kind"])]
            problems = [line for each in known for line in judged(server, each, file.stem)]
            print(f"{file}: {len(known)} objects", *problems, sep="\n  ")
            for each in (each for each in manifests if each not in known):
                print(f"  not judged, because --definitions has no such kind: {_name(each)}")
            bad += len(problems)
    sys.exit(min(bad, 1))


def _wait_until_served(server: ApiServer, version: str, kind: str) -> None:
    end = time.monotonic() + _SERVED_WITHIN
    while not server.serves(version, kind):
        if time.monotonic() > end:
            raise RuntimeError(f"{kind} of {version} was not served within {_SERVED_WITHIN:.0f} s")
        time.sleep(0.2)


def judged(server: ApiServer, manifest: Mapping[str, Any], namespace: str) -> Iterator[str]:
    """What the server has against an object, and against the pods that come of it: a line each."""
    name = _name(manifest)
    try:
        yield from (f"{name}: warning: {each}" for each in server.apply(manifest, namespace))
        for template in _templates(manifest):
            pod = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {**template["metadata"], "name": "a"}}
            yield from (f"pod of {name}: warning: {each}" for each in server.create_dry(pod, namespace))
    except Refused as error:
        yield f"{name}: refused: {error}"


def _name(manifest: Mapping[str, Any]) -> str:
    return f"{manifest['kind']} {manifest['metadata']['name']}"


def _templates(part: object) -> Iterator[dict[str, Any]]:
    """The templates of pods in an object."""
    if isinstance(part, Mapping):
        for key, value in part.items():
            if key == "template" and "containers" in value.get("spec", {}):
                yield value
            else:
                yield from _templates(value)


def _definitions(place: Path, folders: list[Path]) -> Iterator[dict[str, Any]]:
    files = [file for module, names in _DEFINITIONS.items() for file in go_sources(module, place).glob(names)]
    files += [file for folder in folders for file in folder.glob("*.yaml")]
    for each in files:
        yield from (found for found in yaml.safe_load_all(each.read_text()) if found)


if __name__ == "__main__":
    try:
        typer.run(main)
    except (ChartError, HelmMissingError, RuntimeError, OSError) as error:
        sys.exit(str(error))
