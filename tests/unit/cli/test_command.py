"""Each command explains itself with a right example, and its exit statuses are documented."""

from __future__ import annotations

import json
import logging
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
import typer.main
from typer.core import TyperCommand, TyperGroup
from typer.testing import CliRunner

from perdure._store.postgres import Database
from perdure.cli import cli, main
from perdure.cli.cli import PANELS
from tests.deadline import DEADLINE

PAGE = (Path(__file__).parents[3] / "docs" / "command.md").read_text()
ROWS = re.findall(r"^\| (`perdure [^|]+) \|", PAGE.partition("## Exit statuses")[2], re.MULTILINE)
STATUSES = [name for row in ROWS for name in re.findall(r"`perdure ([a-z -]+)`", row)]
ROOT = typer.main.get_command(cli)


def _commands(command: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], TyperCommand]]:
    if isinstance(command, TyperGroup):
        for name, each in command.commands.items():
            yield from _commands(each, (*path, name))
    else:
        assert isinstance(command, TyperCommand)
        yield path, command


COMMANDS = dict(_commands(ROOT))
NAMES = [" ".join(path) for path in COMMANDS]


@pytest.fixture(autouse=True)
def logging_stays() -> Iterator[None]:
    """`main` sets up the log of its process."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    root.setLevel(level)


each_command = pytest.mark.parametrize("name", NAMES)


@each_command
def test_help_says_what_it_does_and_gives_an_example(name: str) -> None:
    end = CliRunner().invoke(cli, [*name.split(), "--help"])
    assert end.exit_code == 0
    assert "Example: " in end.stdout
    assert COMMANDS[tuple(name.split())].help


@each_command
def test_the_example_is_right(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = COMMANDS[tuple(name.split())]
    line = re.fullmatch(rf"Example: (?:[A-Z_]+=\S+ )*perdure {name}( .*)?", command.epilog or "")
    assert line is not None, f"no example of `perdure {name}`: {command.epilog!r}"
    given = shlex.split((line[1] or "").partition(" > ")[0])
    monkeypatch.chdir(tmp_path)
    for each in given:  # files and folders that it names
        path = Path(each)
        if path.suffix and ":" not in each:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("{}")
        elif "/" in each and not each.startswith("/") and ":" not in each:
            path.mkdir(parents=True, exist_ok=True)
    with command.make_context(name, given):
        pass  # what does not parse is raised


@each_command
def test_its_exit_statuses_are_documented(name: str) -> None:
    assert STATUSES.count(name) == 1


def test_no_command_is_documented_that_is_not_there() -> None:
    assert set(STATUSES) <= set(NAMES)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["list", "--xyzzy"], "perdure: No such option: --xyzzy: see perdure list --help\n"),
        (["show"], "perdure: Missing argument 'lifecycle': see perdure show --help\n"),
        (
            ["list", "--limit", "many"],
            "perdure: Invalid value for '--limit': 'many': Input should be a valid integer, unable to parse string as "
            "an integer: see perdure list --help\n",
        ),
        (
            ["doubts", "--limit", "9" * 20],
            f"perdure: Invalid value for '--limit': '{'9' * 20}': Input should be less than or equal to 2147483647: "
            "see perdure doubts --help\n",
        ),
        (
            ["services", "app", "all"],
            "perdure: Invalid value for 'tasks': 'all' is not one of 'relay', 'reconciliation', 'gauges': "
            "see perdure services --help\n",
        ),
        (
            ["retry", "--lifecycle", "order", "--resume-after", "7"],
            "perdure: --resume-after '7': write LIFECYCLE/ID, as an interrupted run printed it\n",
        ),
        (
            ["list", "--app", "tests:nosuch"],
            "perdure: 'tests:nosuch': the module 'tests' has no 'nosuch' [PERDURE-1101]\n",
        ),
        (
            ["list", "--older-than", "week"],
            "perdure: 'week' is no duration: write 90s, 10m, 2h or 3d [PERDURE-4101]\n",
        ),
        (
            ["new", "My Shop"],
            "perdure: 'My Shop': the name of a project has small letters, digits and single hyphens, "
            "as my-shop [PERDURE-4101]\n",
        ),
        (
            ["codec-token", "ann b"],
            "perdure: 'ann b' can't be the name of a bearer: write 1 to 64 letters, digits and _.@- [PERDURE-4101]\n",
        ),
        (
            ["console", "--grant", "ann=look"],
            "perdure: --grant ann=look: it goes with --oidc-issuer or --proxy-header; "
            "a token has its roles from `perdure console token` [PERDURE-4101]\n",
        ),
        (
            ["console", "--public-url", "ops"],
            "perdure: Invalid value for --public-url: 'ops' is no URL without a path: write "
            "https://HOST: see perdure console --help\n",
        ),
        (
            ["console", "--public-url", "https://ops.example/perdure"],
            "perdure: Invalid value for --public-url: 'https://ops.example/perdure' is no URL "
            "without a path: write https://HOST: see perdure console --help\n",
        ),
        (
            ["show", "order", "\udcff"],
            "perdure: the argument b'\\xff' is no UTF-8: write it in UTF-8\n",
        ),
        (
            ["list", "--tenant", "a\udcff"],
            "perdure: the argument b'a\\xff' is no UTF-8: write it in UTF-8\n",
        ),
        (
            ["rejected", "list", "--lifecycle=\udcff"],
            "perdure: the argument b'--lifecycle=\\xff' is no UTF-8: write it in UTF-8\n",
        ),
    ],
)
def test_wrong_usage_is_one_line_that_names_the_value_and_the_way_out(
    arguments: list[str], says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["perdure", *arguments])
    monkeypatch.setattr("perdure.cli.leave", sys.exit)
    with pytest.raises(SystemExit) as end:
        main()
    assert (end.value.code, *capsys.readouterr()) == (2, "", says)


def test_a_setting_is_refused_with_its_form_by_every_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PERDURE_DATABASE_URL", "db.example.org:5432")
    monkeypatch.setattr("perdure.cli.leave", sys.exit)
    for command in (["status"], ["list"], ["retry", "order", "7"], ["migrate"]):
        monkeypatch.setattr(sys, "argv", ["perdure", *command])
        with pytest.raises(SystemExit) as end:
            main()
        shown = "perdure: PERDURE_DATABASE_URL=***: write postgresql://USER@HOST:PORT/DATABASE [PERDURE-4101]\n"
        assert (end.value.code, *capsys.readouterr()) == (2, "", shown), command


def test_a_setting_that_is_no_utf8_is_named_without_its_value(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PERDURE_BY", "ann\udcff")
    monkeypatch.setattr("perdure.cli.leave", sys.exit)
    monkeypatch.setattr(sys, "argv", ["perdure", "cancel", "order", "7"])
    with pytest.raises(SystemExit) as end:
        main()
    shown = "perdure: the value of PERDURE_BY is no UTF-8: write it in UTF-8\n"
    assert (end.value.code, *capsys.readouterr()) == (2, "", shown)


def test_a_misspelt_variable_is_named_with_the_one_that_is_meant(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PERDURE_DATABASE_URI", "postgresql://db/shop")
    monkeypatch.setattr("perdure.cli.leave", sys.exit)
    monkeypatch.setattr(sys, "argv", ["perdure", "--version"])
    with pytest.raises(SystemExit):
        main()
    shown = "perdure: PERDURE_DATABASE_URI has no effect: did you mean PERDURE_DATABASE_URL?\n"
    assert capsys.readouterr() == (f"perdure {version('perdure')}\n", shown)
    monkeypatch.setenv("PERDURE_LOG", "json")
    with pytest.raises(SystemExit):
        main()
    assert json.loads(capsys.readouterr().err)["message"] == shown.removeprefix("perdure: ").rstrip()


def test_a_command_that_waits_for_postgresql_says_so_beside_its_output(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("perdure.logs.LONG", 0)
    monkeypatch.setitem(Database.open.__kwdefaults__ or {}, "patience", 0.05)
    monkeypatch.setenv("PERDURE_DATABASE_URL", "postgresql://ann:secret@127.0.0.1:1/shop")
    monkeypatch.setattr("perdure.cli.leave", sys.exit)
    monkeypatch.setattr(sys, "argv", ["perdure", "list", "--json"])
    with pytest.raises(SystemExit) as end:
        main()
    output, errors = capsys.readouterr()
    assert (end.value.code, output) == (1, "")
    waits, problem = errors.splitlines()
    assert waits == "perdure: waits for PostgreSQL (at postgresql://ann@127.0.0.1:1/shop)"
    assert problem.startswith("perdure: no PostgreSQL answers at postgresql://ann@127.0.0.1:1/shop")


@pytest.mark.parametrize(
    ("output", "status", "shown"),
    [("&-", 0, ""), ("/dev/full", 1, "perdure: the output can't be written: No space left on device\n")],
)
def test_output_that_can_not_be_written_is_one_line(output: str, status: int, shown: str) -> None:
    if output == "/dev/full" and not Path(output).exists():
        pytest.skip("this system has no device that is always full")
    command = f"exec {shlex.quote(sys.executable)} -m perdure.cli --version >{output}"
    end = subprocess.run(["/bin/sh", "-c", command], stderr=subprocess.PIPE, text=True, timeout=DEADLINE)
    assert (end.returncode, end.stderr) == (status, shown)


def test_the_version_is_that_of_the_package() -> None:
    end = CliRunner().invoke(cli, ["--version"])
    assert (end.exit_code, end.stdout) == (0, f"perdure {version('perdure')}\n")


def test_help_shows_each_command_in_a_panel_and_what_looks_comes_first() -> None:
    text = CliRunner().invoke(cli, ["--help"], env={"COLUMNS": "120"}).stdout
    places = [text.index(f" {panel} ──") for panel in PANELS]
    assert places == sorted(places)
    assert " Commands ──" not in text
    names = set(typer.main.get_group(cli).commands)
    assert {name for name in names if re.search(rf"^│ {name} ", text, re.MULTILINE)} == names


def test_a_shell_completes_commands_and_options() -> None:
    def completed(words: str, position: int) -> list[str]:
        environment = {"_PERDURE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(position)}
        end = CliRunner().invoke(cli, [], prog_name="perdure", env=environment)
        assert end.exit_code == 0, end.output
        return end.stdout.split()

    assert completed("perdure sta", 1) == ["status"]
    assert completed("perdure list --fin", 2) == ["--finding", "--finished"]
