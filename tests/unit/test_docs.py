"""The pages say what is there: links lead somewhere, code compiles or runs, settings and targets exist.

A block of Python after the line `<!-- runs -->` is executed; the blocks of one page make one module, and its
functions `test_...` are called.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import sys
import types
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import typer.main

from activities.mail.settings import MailSettings
from activities.telephony.settings import TelephonySettings
from activities.web_jobs.settings import WebSettings
from perdure import Attempt, Entity
from perdure.cli import cli
from perdure.contracts import Key
from perdure.contracts.attempt import boot_clock
from perdure.settings import Settings
from tests.deadline import DEADLINE
from workers.telephony import commands as telephony_commands
from workers.web_jobs import job_types

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"),
    ROOT / "tests" / "INVARIANTS.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "activities").rglob("*.md")),
    *sorted((ROOT / "bench").rglob("*.md")),
]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
RUNS = "<!-- runs -->"
_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^()\s]+)\)")
_VARIABLE = re.compile(r"PERDURE_[A-Z][A-Z_]*[A-Z]")


def _prose(page: Path) -> str:
    return re.sub(r"`[^`\n]*`", "`", _FENCED.sub("", page.read_text()))


def _links(page: Path) -> Iterator[str]:
    for link in _LINK.findall(_prose(page)):
        if "://" not in link and not link.startswith("mailto:"):
            yield link


def _anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    titles = re.findall(r"^#+ (.+)$", _FENCED.sub("", page.read_text()), re.MULTILINE)
    kept = (re.sub(r"[^\w\- ]", "", title.strip().lower()) for title in titles)
    return {title.replace(" ", "-") for title in kept}


def _leads_nowhere(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists():
        return True
    return bool(anchor) and (target.suffix != ".md" or anchor not in _anchors(target))


def _blocks(page: Path, language: str) -> Iterator[tuple[str, bool]]:
    """Code, at the line where it stands in its page, and whether it is to be run."""
    text = page.read_text()
    for block in _FENCED.finditer(text):
        if block[1] == language:
            before = text[: block.start()].rstrip("\n")
            yield "\n" * text[: block.start(2)].count("\n") + block[2], before.endswith(RUNS)


@pytest.mark.parametrize("name", NAMES)
def test_each_link_leads_somewhere(name: str) -> None:
    page = ROOT / name
    assert [link for link in _links(page) if _leads_nowhere(page, link)] == []


def test_a_link_that_leads_nowhere_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# One title: `x`\n[a](#one-title-x) [b](#two) [c](gone.md) [d](page.md#one-title-x) [e](https://x.y/)\n"
    )
    assert [link for link in _links(page) if _leads_nowhere(page, link)] == ["#two", "gone.md"]


@pytest.mark.parametrize("name", NAMES)
def test_each_block_of_python_compiles(name: str) -> None:
    for code, _ in _blocks(ROOT / name, "python"):
        compile(code, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def _module_of(name: str, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """What the blocks of a page define that are marked to run."""
    page = types.ModuleType("page_" + Path(name).stem)
    monkeypatch.setitem(sys.modules, page.__name__, page)  # type hints are looked up there
    blocks = [code for code, runs in _blocks(ROOT / name, "python") if runs]
    assert blocks
    for code in blocks:
        exec(compile(code, name, "exec", dont_inherit=True), page.__dict__)
    return page


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (200, "ch-1"),
        *((status, "NotDone") for status in (401, 403, 429, 503)),
        *((status, "Refused") for status in (400, 402, 404)),
        *((status, "HTTPStatusError") for status in (409, 422, 500)),
    ],
)
async def test_the_first_body_of_an_effect_sends_its_key_and_sorts_the_answers(
    monkeypatch: pytest.MonkeyPatch, status: int, outcome: str
) -> None:
    heard: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b'HTTP/1.1 %d x\r\nConnection: close\r\n\r\n{"id": "ch-1"}' % status)
        await writer.drain()
        writer.close()

    page = _module_of("docs/effects.md", monkeypatch)
    key = Key.of(Entity("order", "17"), "charge")
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = "http://{}:{}".format(*server.sockets[0].getsockname())
    async with server, httpx.AsyncClient(base_url=url, trust_env=False, timeout=DEADLINE) as http:
        attempt = Attempt(key, 1, datetime(2030, 1, 1, tzinfo=UTC), boot_clock() + 60, resources=http)
        try:
            ended = (await page.charge(page.Payment(order=17, cents=1000), attempt)).charge
        except Exception as error:
            ended = type(error).__name__
    assert ended == outcome
    assert [key.token.encode() in request for request in heard] == [True]


@pytest.mark.parametrize("name", ["docs/lifecycles.md", "docs/effects.md"])
async def test_each_block_that_is_marked_so_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    page = _module_of(name, monkeypatch)
    for function in [each for key, each in vars(page).items() if key.startswith("test_")]:
        if inspect.isawaitable(ended := function()):
            await ended


def _declared_settings() -> set[str]:
    own = {f"PERDURE_{field.upper()}" for field in Settings.model_fields}
    mail = {f"PERDURE_MAIL_{field.upper()}" for field in MailSettings.model_fields}
    web = {f"PERDURE_WEB_{field.upper()}" for field in WebSettings.model_fields}
    telephony = {f"PERDURE_TELEPHONY_{field.upper()}" for field in TelephonySettings.model_fields}
    rooms = (ROOT / "infra", ROOT / "perdure" / "cli", ROOT / "perdure" / "servers")
    read_elsewhere = [file for room in rooms for file in room.glob("*.py")]
    read_elsewhere += [file for file in (ROOT / "activities").rglob("*.py") if "contracts" in str(file)]
    elsewhere = {name for file in read_elsewhere for name in _strings_that_name_a_variable(file)}
    return own | mail | web | telephony | elsewhere


def _strings_that_name_a_variable(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _VARIABLE.fullmatch(node.value):
            yield node.value


def test_each_setting_is_documented_and_no_other() -> None:
    named = {name for page in PAGES for name in _VARIABLE.findall(page.read_text())}
    assert named == _declared_settings()


def test_contributing_lists_the_makefiles_targets() -> None:
    declared = set(re.findall(r"^([a-z-]+):.*?## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    listed = set(re.findall(r"`make ([a-z-]+)`", (ROOT / "CONTRIBUTING.md").read_text()))
    assert listed == declared


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_each_make_target_that_a_page_names_exists(page: Path) -> None:
    makefile = "perdure/_dev/templates/base/Makefile-tmpl" if page.stem == "tutorial" else "Makefile"
    declared = set(re.findall(r"^([a-z-]+):", (ROOT / makefile).read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:`|\$ )make ([a-z-]+)", page.read_text())) <= declared


_COMMAND = re.compile(r"(?:`|^\$ )perdure ([a-z][a-z-]*(?: [^`\n#|;&]*)?)", re.MULTILINE)
_COMMANDS = typer.main.get_command(cli)
_OF_APPLICATIONS = {
    "job-type": typer.main.get_command(job_types.commands),
    "telephony": typer.main.get_command(telephony_commands.commands),
}


def _unknown_in(words: Sequence[str]) -> str | None:
    """The first word of a command line that names no command and no option; None if there is none."""
    command: Any = _COMMANDS
    top = True
    for word in words:
        if hasattr(command, "commands"):
            known = {**command.commands, **(_OF_APPLICATIONS if top else {})}
            if word == "..." or word.startswith("-") or not re.fullmatch(r"[a-z-]+", word):
                return word if top and word[0] != "-" else None
            if word not in known:
                return word
            command, top = known[word], False
        elif word == "--":  # no option follows
            return None
        elif word.startswith("--"):
            name = word.partition("=")[0]
            if not any(name in (*each.opts, *each.secondary_opts) for each in command.params) and name != "--help":
                return word
    return None


_TODAY = [page for page in PAGES if page.name != "CHANGELOG.md"]


@pytest.mark.parametrize("page", _TODAY, ids=[str(page.relative_to(ROOT)) for page in _TODAY])
def test_each_command_that_a_page_names_exists_with_its_options(page: Path) -> None:
    named = [found.split() for found in _COMMAND.findall(page.read_text())]
    wrong = {" ".join(words) for words in named if _unknown_in([word.strip("[](),:") for word in words]) is not None}
    assert wrong == set()


@pytest.mark.parametrize("line", ["archive forget", "forget order 42 --nobody", "nothing"])
def test_a_command_that_does_not_exist_is_seen(line: str) -> None:
    assert _unknown_in(line.split()) is not None
