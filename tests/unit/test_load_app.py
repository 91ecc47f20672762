"""`load_app`: an app that can't be loaded is reported with the cause, as its author needs it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn, TypeAlias

import pytest

from perdure import cli

BROKEN = {
    "attribute": ("import json\n\n\napp = json.lods('{}')\n", "AttributeError: module 'json' has no attribute 'lods'"),
    "dependency": ("import no_such_client\n\napp = 1\n", "ModuleNotFoundError: No module named 'no_such_client'"),
    "part": ("import shop.no_such_part\n", "ModuleNotFoundError: No module named 'shop.no_such_part'"),
    "syntax": ("app = (\n", "SyntaxError: '(' was never closed"),
    "key": ("app = {}['APP']\n", "KeyError: 'APP'"),
    "cause": (
        "try:\n    int('many')\nexcept ValueError as error:\n    raise RuntimeError('no size') from error\n",
        "RuntimeError: no size",
    ),
}


Loaded: TypeAlias = Callable[[str], tuple[int, str]]


class Left(BaseException):
    """The command has ended its process."""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").write_text("")
    return tmp_path


@pytest.fixture
def loaded(shop: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Loaded]:
    """Runs a command that loads an app, in the shop's folder and in this process: its exit status and output."""
    before = set(sys.modules)

    def leave(status: int) -> NoReturn:
        raise Left(status)

    def run(path: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["perdure", "diagram", "order", "--app", path])
        with pytest.raises(Left) as end:
            cli.main()
        said = capsys.readouterr()
        assert said.out == ""
        return int(end.value.args[0]), said.err

    monkeypatch.chdir(shop)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(cli, "leave", leave)
    yield run
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_a_worker_process_that_can_not_load_its_app_reports_the_cause(shop: Path) -> None:
    (shop / "shop" / "workers.py").write_text("ap = 1\n")
    command = [sys.executable, "-m", "perdure.cli", "worker", "shop.workers:app"]
    done = subprocess.run(command, cwd=shop, capture_output=True, text=True)
    said = "perdure: 'shop.workers:app': the module 'shop.workers' has no 'app' [PERDURE-1101]\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


@pytest.mark.parametrize("kind", BROKEN)
def test_an_error_inside_the_apps_module_is_shown_with_its_own_lines_alone(
    shop: Path, loaded: Loaded, kind: str
) -> None:
    text, why = BROKEN[kind]
    (shop / "shop" / "workers.py").write_text(text)
    status, said = loaded("shop.workers:app")
    assert status == 2
    assert said.startswith(f"perdure: 'shop.workers:app' can't be imported: {why} [PERDURE-1101]\n")
    assert said.rstrip().endswith(why)
    assert f'File "{shop}/shop/workers.py", line ' in said
    assert "perdure/_worker" not in said
    assert "importlib" not in said
    assert "no 'app'" not in said
    assert "run it from the folder" not in said


def test_the_cause_of_an_error_is_shown_before_it(shop: Path, loaded: Loaded) -> None:
    (shop / "shop" / "workers.py").write_text(BROKEN["cause"][0])
    assert "ValueError: invalid literal for int() with base 10: 'many'" in loaded("shop.workers:app")[1]


@pytest.mark.parametrize("path", ["shop.wokers:app", "shp.workers:app"])
def test_a_module_that_is_not_there_is_one_line_that_names_the_folder(shop: Path, loaded: Loaded, path: str) -> None:
    missing = "shp" if path.startswith("shp") else "shop.wokers"
    assert loaded(path) == (
        2,
        f"perdure: {path!r}: there is no module {missing!r} in {shop} or on the import path: "
        "run it from the folder that holds it [PERDURE-1101]\n",
    )


def test_a_name_that_the_module_does_not_have_is_one_line(shop: Path, loaded: Loaded) -> None:
    (shop / "shop" / "workers.py").write_text("ap = 1\n")
    said = "perdure: 'shop.workers:app': the module 'shop.workers' has no 'app' [PERDURE-1101]\n"
    assert loaded("shop.workers:app") == (2, said)


def test_a_wrong_declaration_is_one_line(shop: Path, loaded: Loaded) -> None:
    (shop / "shop" / "workers.py").write_text("from perdure import Entity\n\nEntity('Order', '1')\n")
    status, said = loaded("shop.workers:app")
    assert (status, len(said.splitlines())) == (2, 1)
    assert "lifecycle 'Order' can't be used as a name" in said
