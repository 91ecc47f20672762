"""Text that somebody typed, or another system sent, deceives nobody: in terminals, shells, logs and the Web UI."""

from __future__ import annotations

import ast
import json
import logging
import random
import re
import shlex
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import typer.main

import perdure
from activities.web_jobs.job_type import JobType
from perdure._operations.doubts import Doubt
from perdure._reconcile.row import Row
from perdure._text.shown import UNSEEN, code, json_text, lines, markdown, one_line
from perdure._wire.status import EffectProgress, LifecycleStatus
from perdure._workflow.details import details
from perdure.cli import cli
from perdure.cli.printing import print_line, print_note
from perdure.contracts.outcomes import EffectStatus
from perdure.logs import FIELDS, JsonLines, PlainLines
from tests.command import perdure as run
from tests.world import World
from workers.web_jobs.job_types.file import read, write

EVIL = [
    *("\x1b[2J\x1b[31mgone", "\x9b2J", "two\nlines", "over\rwritten", "\u202egnp.exe", "a\u200bb", "a\u2028b", "\x07"),
    *("[click](https://evil.example)", "https://evil.example/x", "![x](https://evil.example/pixel)", "<img src=x>"),
    *(
        "`code`",
        "``",
        "**bold**",
        "| a | b |",
        "$(reboot)",
        "'; reboot; '",
        "--yes",
        'x | outcome="done"',
        "me@evil.example",
    ),
]


ROOT: Any = typer.main.get_command(cli)
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


def parked(key: str) -> EffectProgress:
    """One that waits for a person."""
    return EffectProgress(
        effect="charge", key=key, status=EffectStatus.IN_DOUBT, attempts=1, parked=True, why=None, next_at=None
    )


def evil_text(seed: int) -> str:
    """Several of them in one."""
    return " ".join(random.Random(seed).choices(EVIL, k=4))


@pytest.mark.parametrize("seed", range(50))
def test_displayed_text_moves_no_cursor_and_adds_no_line(seed: int) -> None:
    text = evil_text(seed)
    assert not UNSEEN.search(one_line(text))
    assert not UNSEEN.search(lines(text).replace("\n", ""))
    assert json.loads(json_text(json.dumps(text, ensure_ascii=False))) == text
    assert not UNSEEN.search(json_text(json.dumps(text, ensure_ascii=False)))


@pytest.mark.parametrize("seed", range(50))
def test_markdown_has_no_link_no_image_no_tag_and_no_code_of_the_text(seed: int) -> None:
    """A link needs `](` or `<`, an address `://` or `@`; each is behind a backslash."""
    shown = markdown(evil_text(seed))
    bare = re.sub(r"\\.", "", shown)
    assert not re.search(r"[\[\]<>`*_|!@]|://|\n", bare), shown
    inside = code(evil_text(seed))
    fence = re.match("`+", inside)
    assert fence is not None
    assert fence[0] not in inside[len(fence[0]) : -len(fence[0])]
    assert "\n" not in inside


@pytest.mark.parametrize("seed", range(50))
def test_a_line_of_a_log_stays_one_line_with_its_own_fields(seed: int) -> None:
    record = logging.LogRecord("perdure", logging.INFO, "", 0, evil_text(seed), None, None)
    setattr(record, FIELDS, {"why": evil_text(seed + 100), "id": evil_text(seed + 200)})
    plain = PlainLines().format(record)
    assert not UNSEEN.search(plain)
    fields = plain.rpartition(" | why=")[2]
    assert '" id="' in fields or " id=" in fields
    assert re.sub(r'"[^"]*"', "", fields).count("=") <= 1, "no field is made up"
    data = json.loads(JsonLines().format(record))
    assert data["why"] == evil_text(seed + 100)
    assert not UNSEEN.search(JsonLines().format(record))


@pytest.mark.parametrize("seed", range(20))
def test_the_details_of_a_run_show_texts_as_texts(seed: int) -> None:
    effect = parked(f"order/{evil_text(seed)}/charge")
    shown = details(status(effect, evil_text(seed), evil_text(seed + 1)))
    assert not UNSEEN.search(shown.replace("\n", ""))
    assert len(shown.splitlines()) == len(_benign().splitlines())
    assert not re.search(r"(?<!\\)\]\(|(?<!\\)<img|(?<!\\)!\[", re.sub(r"`+[^`].*?`+", "", shown))


def status(effect: EffectProgress, attention: str, how_far: str) -> LifecycleStatus:
    """Of an entity with one effect."""
    return LifecycleStatus(
        lifecycle="order",
        id="7",
        generation=0,
        state="parked",
        since=MOMENT,
        final=False,
        attention=attention,
        how_far=how_far,
        waits_for_retry=False,
        effects=[effect],
    )


def _benign() -> str:
    return details(status(parked("order/7/charge"), "a", "b"))


def of_a_doubt(entity_id: str) -> str:
    """As `perdure doubts` prints it, with the outcome that a person fills in."""
    doubt = Doubt(
        *("order", entity_id, 0, "charge", f"order/{entity_id}/charge", "in_doubt", 1, MOMENT, None),
        ended=False,
        state="charging",
        waits_for_person=True,
        tenant=None,
        deadline=MOMENT,
    )
    assert doubt.resolve is not None
    return one_line(doubt.resolve).replace("OUTCOME", "done")


def of_details(entity_id: str, effects: list[EffectProgress]) -> str:
    """As the Web UI shows it; without an effect, the command of an entity that waits for a retry."""
    waiting = status(parked("order/7/charge"), "a", "b").model_copy(
        update={"id": entity_id, "effects": effects, "waits_for_retry": not effects}
    )
    [line] = re.findall("^or on a terminal: `+ ?(.*?) ?`+$", details(waiting), re.MULTILINE)
    return str(line)


def of_a_finding(entity_id: str, *words: str) -> str:
    """As a reconciliation advises it."""
    times = dict.fromkeys(("since", "created_at", "written_at"), MOMENT)
    unset = dict.fromkeys(("stuck_at", "attention", "input"))
    row: Any = {"lifecycle": "order", "id": entity_id, "generation": 0, "state": "charging", "version": 1, "doubts": ""}
    return Row.of(row | times | unset).command(*words)


@pytest.mark.parametrize(
    "printed",
    [
        of_a_doubt,
        lambda entity_id: of_details(entity_id, [parked("order/7/charge")]),
        lambda entity_id: of_details(entity_id, []),
        lambda entity_id: of_a_finding(entity_id, "show"),
        lambda entity_id: of_a_finding(entity_id, "retry", "--by", "YOU"),
    ],
    ids=["doubt", "details", "details-retry", "finding", "finding-retry"],
)
@pytest.mark.parametrize(
    "entity_id", ["'; reboot; '", "$(reboot)", "`reboot`", "--yes", "--", "-7", "-", "a b", 'a"b', "a\\", "ö!"]
)
def test_a_command_that_is_printed_names_the_entity_and_runs_nothing_else(
    entity_id: str, printed: Callable[[str], str]
) -> None:
    program, verb, *words = shlex.split(printed(entity_id))
    command = ROOT.commands[verb]
    given = command.make_context(verb, words).params
    same = shlex.split(printed("42"))
    assert (program, verb) == ("perdure", same[1])
    expected = command.make_context(verb, same[2:]).params
    assert given == {
        name: value.replace("42", entity_id) if name in ("entity_id", "effect") and value else value
        for name, value in expected.items()
    }


async def test_the_commands_print_nothing_that_moves_a_cursor_or_adds_a_line(world: World) -> None:
    """What apps, people and other systems wrote, as it stands in the tables, through each command that reads."""
    await world.db.execute("select perdure.start('lookup', 'e', '{}')")
    texts = iter([evil_text(seed) for seed in range(100, 140)])
    await world.db.execute("update perdure.entity set attention = $1, tenant = $2", next(texts), next(texts))
    await world.db.execute("update perdure.transition set why = $1, made_by = $2", next(texts), next(texts))
    await world.db.execute("delete from perdure.outbox")
    await world.db.execute(
        "insert into perdure.rejected (seq, lifecycle, id, generation, kind, body, reason) "
        "values (7, 'lookup', 'e', 0, 'message', '{}', $1)",
        next(texts),
    )
    await world.db.execute(
        "insert into perdure.effect (key, lifecycle, id, generation, effect, token, status, digest, first_at, "
        "attempt_at, deadline, why, settled_by) values ('lookup/e/do-lookup', 'lookup', 'e', 0, 'do-lookup', 't', "
        "'in_doubt', '', now(), now(), now(), $1, $2)",
        *(next(texts), next(texts)),
    )
    await world.db.execute(
        "insert into perdure.finding (kind, lifecycle, id, what, advice, run) "
        "values ('stuck', 'lookup', 'e', $1, $2, 1)",
        *(next(texts), next(texts)),
    )
    for command in (
        *(["list"], ["list", "--json"], ["show", "lookup", "e"], ["show", "lookup", "e", "--json"], ["doubts"]),
        *(["rejected"], ["rejected", "--json"], ["status"], ["status", "--json"], ["reconcile", "--show"]),
        ["cancel", "--lifecycle", "lookup", "--dry-run", "--by", "ann", "--note", "x"],
        ["rejected", "drop", "--lifecycle", "lookup", "--dry-run", "--by", "ann", "--note", "x"],
    ):
        end = await run(world, *command)
        printed = end.stdout + end.stderr
        assert printed.strip(), command
        assert not UNSEEN.search(printed.replace("\n", "")), (command, printed)
        assert "\nlines" not in printed, command


def test_every_command_prints_through_one_module() -> None:
    """So nothing is printed as it is by mistake. Modules whose text is Perdure's own, or is for a pipe, stand here."""
    own = {"printing.py", "schema.py", "diagram.py", "encryption.py", "set_up.py", "files.py"}
    root = Path(perdure.__file__).parents[1]
    files = [*(root / "perdure" / "cli").glob("*.py"), *(root / "workers").rglob("*.py")]
    assert len(files) > 40
    for file in files:
        calls = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]
        found = [ast.unparse(each) for each in calls if ast.unparse(each.func) in ("typer.echo", "print")]
        assert not found or file.name in own, (file.name, found)


async def test_a_role_with_an_evil_name_is_granted_its_rights_in_lines_that_show_it_as_text(world: World) -> None:
    name = 'app\x1b[2J\u202e\nperdure: done; "x'
    quoted = '"' + name.replace('"', '""') + '"'
    await world.db.execute(f"create role {quoted}")
    try:
        for command in (["grant", name, "--as", "app"], ["job-type", "set-up", "--grant", name]):
            end = await run(world, *command, PERDURE_APP="workers.web_jobs.app:app")
            assert quoted.partition("\x1b")[0] in end.stdout
            assert not UNSEEN.search((end.stdout + end.stderr).replace("\n", "")), (command, end.stdout)
            assert not [line for line in end.stdout.splitlines() if line.startswith("perdure:")]
    finally:
        await world.db.execute(f"drop owned by {quoted} cascade")
        await world.db.execute(f"drop role {quoted}")


def test_job_types_are_exported_with_what_can_not_be_seen_as_escapes() -> None:
    evil = JobType(name="a", url="https://a.example/", disabled="no\u202egnp.exe")
    text = write([evil])
    assert not UNSEEN.search(text.replace("\n", ""))
    [read_again] = read(text, "job-types.yaml")
    assert read_again.type.disabled == evil.disabled


@pytest.mark.parametrize("how", [print_line, print_note])
def test_the_last_thing_before_the_terminal_lets_nothing_through(
    how: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    how("a\x1b[2Jb\nc")
    out, err = capsys.readouterr()
    assert out + err == "a\N{REPLACEMENT CHARACTER}[2Jb\nc\n"
