"""The `helm` program, which renders and checks the chart: on PATH, in our cache, or built with Go once.

`python -m infra.helm RELEASE VALUES.yaml ...` prints the plain manifests of the chart with these values.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from perdure.servers.cache import cache_directory, made_once
from perdure.servers.go import go_install

CHART = Path(__file__).parent / "chart"
_PACKAGE, _VERSION = "helm.sh/helm/v3/cmd/helm", "v3.19.2"
KUBERNETES = "1.34.0"
"""The version of Kubernetes that manifests are rendered and checked for."""


class HelmMissingError(RuntimeError):
    """There is no `helm` program, and it could not be built."""


class ChartError(RuntimeError):
    """The chart can't be rendered with these values; the message is helm's."""


def obtain_helm() -> Path:
    """Return the program, built into our cache first if need be: some minutes on two cores, once for a machine.

    Raises:
        HelmMissingError: it is not there and could not be built; the message has the reason.
    """
    on_path = shutil.which("helm")
    return Path(on_path) if on_path else made_once(cache_directory() / "bin" / "helm", _build)


def rendered(release: str, *values: Path) -> str:
    """The plain manifests of the chart, by these files of values.

    Raises:
        ChartError: a value can't be used.
        HelmMissingError: as `obtain_helm`.
    """
    return _run(
        "template", release, str(CHART), f"--kube-version={KUBERNETES}", *(f"--values={each}" for each in values)
    )


def lint(*values: Path) -> str:
    """What `helm lint` reports.

    Raises:
        ChartError: it found an error.
        HelmMissingError: as `obtain_helm`.
    """
    return _run("lint", str(CHART), "--strict", *(f"--values={each}" for each in values))


def _run(*arguments: str) -> str:
    outcome = subprocess.run([obtain_helm(), *arguments], capture_output=True, text=True, check=False)
    if outcome.returncode != 0:
        raise ChartError(f"{outcome.stdout}{outcome.stderr}".strip())
    return outcome.stdout


def _build(target: Path) -> None:
    folder = target.with_name(f"{target.name}-build")
    folder.mkdir(exist_ok=True)
    try:
        go_install(f"{_PACKAGE}@{_VERSION}", folder, f"building helm {_VERSION} with Go (once, some minutes)")
        (folder / "helm").rename(target)
    except (RuntimeError, OSError) as error:
        raise HelmMissingError(
            f"no helm. Tried, in this order:\n  - PATH and our cache: no program 'helm'\n"
            f"  - go install {_PACKAGE}@{_VERSION}: {error}\nPut helm on PATH"
        ) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    release, *files = sys.argv[1:] or [""]
    if not release:
        sys.exit("give RELEASE=name: each object's name begins with it, so two apps in one namespace have two")
    try:
        print(rendered(release, *map(Path, files)), end="")
    except (ChartError, HelmMissingError) as error:
        sys.exit(str(error))
