"""What `perdure new` makes passes its own tests, runs by `make dev`, and is made whole or not at all."""

from __future__ import annotations

import re
import resource
import shlex
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
import yaml

from perdure._dev.project import Template, make
from perdure.errors import InvalidSetting
from tests.deadline import DEADLINE, until
from tests.developing import RUNS, clean_environment, developing

EACH = pytest.mark.parametrize("template", list(Template))
LINES = ("--isolated", "--line-length=120")


def made(template: Template, parent: Path) -> Path:
    """A project, whose Makefile finds everything installed."""
    project = make("my-shop", template, parent)
    (project / ".perdure").mkdir()
    (project / ".perdure" / "installed").touch()
    return project


def call(*command: str, folder: Path, **environment: str) -> str:
    """Run a Python module in a folder; its output."""
    ended = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env={**clean_environment(), **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@EACH
def test_its_files_are_in_order(template: Template, tmp_path: Path) -> None:
    project = make("my-shop", template, tmp_path)
    written = [each for each in project.rglob("*") if each.is_file()]
    call("ruff", "check", *LINES, "--select=E,F,I,UP,B", ".", folder=project)
    call("ruff", "format", "--check", *LINES, ".", folder=project)
    assert not [each.name for each in written if each.name.endswith("-tmpl")]
    assert not [each.name for each in written if re.search(r"\{\{\s*\w+\s*\}\}", each.read_text())]
    assert (project / ".gitignore").exists()


@EACH
def test_its_types_are_right(template: Template, tmp_path: Path) -> None:
    unless = ["--disable-error-code=var-annotated"] if template is Template.DJANGO else []  # fields, without a plugin
    call("mypy", "--strict", "--config-file=", *unless, "my_shop", folder=made(template, tmp_path))


def test_the_tests_of_a_web_application_pass(tmp_path: Path) -> None:
    """Those of Django: FastAPI's are those of the plain project, which the tutorial runs, as it does its order."""
    project = made(Template.DJANGO, tmp_path)
    ended = subprocess.run(
        ["make", "test"], cwd=project, env=clean_environment(), capture_output=True, text=True, timeout=300
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert " 6 passed" in ended.stdout


@pytest.mark.parametrize("template", [Template.FASTAPI, Template.DJANGO])
async def test_an_order_of_a_web_application_is_charged(template: Template, tmp_path: Path) -> None:
    project = made(template, tmp_path)
    curl = re.search(r"^\$ curl .*$", (project / "README.md").read_text(), re.MULTILINE)
    assert curl
    words = shlex.split(curl[0])
    url = next(word for word in words if word.startswith("http://"))
    async with developing(project, command=("make", "dev")) as dev, httpx.AsyncClient(timeout=DEADLINE) as client:
        await dev.writes(RUNS)

        async def bought() -> bool:
            try:
                answer = await client.post(url, content=words[-1], headers={"content-type": "application/json"})
            except httpx.ConnectError:
                return False  # the web server is not ready
            assert answer.json() == {"order": 1}, answer.text
            return True

        await until(bought, "the order")

        async def charged() -> bool:
            return bool((await client.get(f"{url}/1")).json() == {"item": "book", "stage": "charged"})

        await until(charged, "the order charged")


@EACH
def test_its_compose_file_names_what_is_there(template: Template, tmp_path: Path) -> None:
    project = made(template, tmp_path)
    services = yaml.safe_load((project / "compose.yaml").read_text())["services"]
    assert set(services) >= {"postgres", "temporal", "migrate", "worker", "payments"}
    for service in services.values():
        assert set(service.get("depends_on", {})) <= set(services)
    assert "my_shop" in (project / "Dockerfile").read_text()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "small letters, digits and single hyphens"),
        ("Shop", "small letters"),
        ("../shop", "small letters"),
        ("2shop", "small letters"),
        ("shop-", "small letters"),
        ("my--shop", "small letters"),
        ("class", "another module 'class'"),
        ("tests", "another module 'tests'"),
        ("json", "another module 'json'"),
        ("perdure", "another module 'perdure'"),
        ("django", "another module 'django'"),
    ],
)
def test_a_name_that_can_not_be_used_is_refused(name: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match=why):
        make(name, Template.PLAIN, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_exists_stays_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "mine.txt").write_text("mine")
    (tmp_path / "file").write_text("a file")
    for name in ("shop", "file"):
        with pytest.raises(InvalidSetting, match=f"{name} exists already: choose another name"):
            make(name, Template.PLAIN, tmp_path)
    assert sorted(each.name for each in tmp_path.rglob("*")) == ["file", "mine.txt", "shop"]


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    assert (make("shop", Template.PLAIN, tmp_path) / "shop" / "orders.py").exists()


def test_nothing_is_left_where_the_disk_is_full(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "perdure.cli", "new", "shop"],
        cwd=tmp_path,
        env={**clean_environment(), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(Path.cwd())},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stderr.count("\n")) == (1, 1), ended.stderr
    assert "File too large" in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_each_project_has_ports_of_its_own(tmp_path: Path) -> None:
    first, second = (make(name, Template.FASTAPI, tmp_path) for name in ("one", "two"))
    ports = [set(re.findall(r"127\.0\.0\.1:(\d+)", (each / "README.md").read_text())) for each in (first, second)]
    assert ports[0]
    assert not ports[0] & ports[1]
