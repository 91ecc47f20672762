"""Job types are data: changed by command, file or SQL, they count for a worker that runs, and lose no job."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from pydantic import ValidationError
from typer.testing import Result

from activities.web_jobs import catalogue
from activities.web_jobs.job_type import JobType, problems
from activities.web_jobs.settings import web_settings
from perdure.errors import NotPermitted, SchemaMismatch
from tests.applications.web_jobs.conftest import Jobs
from tests.command import perdure
from tests.deadline import in_time
from tests.pages import answers
from tests.world import World
from workers.web_jobs.app import app

GOOD: dict[str, Any] = {"name": "page", "url": "https://host/page"}
BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"name": "Page"}, "name_is_of_lower_case_digits_dots_and_dashes", "name"),
    ({"url": "ftp://host/"}, "url_is_http_without_user_fragment_or_template_in_its_origin", "url"),
    ({"url": "https://ann:x@host/"}, "url_is_http_without_user_fragment_or_template_in_its_origin", "url"),
    ({"url": "https://{host}/"}, "url_is_http_without_user_fragment_or_template_in_its_origin", "url"),
    ({"url": "https://host/#top"}, "url_is_http_without_user_fragment_or_template_in_its_origin", "url"),
    ({"url": "https://host/a b"}, "url_is_http_without_user_fragment_or_template_in_its_origin", "url"),
    ({"url": "https://host/{+a}"}, "url_is_http_without_user_fragment_or_template_in_its_origin", "url"),
    ({"url": "https://host/{a"}, "url_is_http_without_user_fragment_or_template_in_its_origin", "url"),
    ({"url": "https://host/ä"}, "url_is_http_without_user_fragment_or_template_in_its_origin", "url"),
    ({"method": "post"}, "method_is_post_get_put_patch_or_delete", "method"),
    ({"headers": {"Host": "x"}}, "headers_are_texts_by_name_and_none_of_ours", "headers"),
    ({"headers": {"Signature-Input": "x"}}, "headers_are_texts_by_name_and_none_of_ours", "headers"),
    ({"headers": {"a b": "x"}}, "headers_are_texts_by_name_and_none_of_ours", "headers"),
    ({"headers": {"a": "x\r\nb: c"}}, "headers_are_texts_by_name_and_none_of_ours", "headers"),
    ({"headers": {"a": 1}}, "headers_are_texts_by_name_and_none_of_ours", "headers.a"),
    ({"headers": [1]}, "headers_are_texts_by_name_and_none_of_ours", "headers"),
    ({"timeout": timedelta(hours=2)}, "timeout_is_100_ms_to_1_hour", "timeout"),
    ({"within": timedelta()}, "within_is_1_second_to_10_years", "within"),
    ({"doubt": "hope"}, "doubt_is_dedupe_lookup_repeat_or_escalate", "doubt"),
    ({"remembers": timedelta(seconds=90)}, "remembers_is_over_timeout_and_a_minute", "remembers"),
    ({"doubt": "dedupe"}, "dedupe_has_remembers", "doubt"),
    ({"doubt": "lookup"}, "lookup_has_status_url", "doubt"),
    ({"status_url": "/status"}, "status_url_is_http_without_user_fragment_or_template_in_origin", "status_url"),
    ({"visibility_delay": timedelta(days=2)}, "visibility_delay_is_0_to_1_day", "visibility_delay"),
    ({"otherwise": "lookup"}, "otherwise_is_escalate_or_repeat", "otherwise"),
    ({"not_done": [404]}, "not_done_holds_statuses_500_to_599", "not_done.0"),
    ({"tries": 0}, "tries_is_positive", "tries"),
    ({"at_once": 0}, "at_once_is_positive", "at_once"),
    ({"signed_with": "whsec_abc"}, "signed_with_is_env_name_or_file_path", "signed_with"),
    ({"status_headers": {"Host": "x"}}, "status_headers_are_texts_by_name_and_none_of_ours", "status_headers"),
    ({"status_signed_with": "whsec_abc"}, "status_signed_with_is_env_name_or_file_path", "status_signed_with"),
    ({"children": ["Page"]}, "children_are_names_of_types", "children.0"),
    ({"children": ["a/b"]}, "children_are_names_of_types", "children.0"),
    ({"max_depth": 0}, "max_depth_is_1_to_100", "max_depth"),
    ({"disabled": ""}, "disabled_says_why_in_1_to_500_characters", "disabled"),
]

WHY_NOT_CALLED = (
    "select exists (select from perdure.effect where effect like 'call-page%' and why like '%is disabled%')"
)


async def job_type(jobs: Jobs, *arguments: str, status: int = 0) -> Result:
    """Run `perdure job-type` in this process; its end."""
    end = await perdure(jobs.world, "job-type", *arguments, PERDURE_APP="workers.web_jobs.app:app")
    assert end.exit_code == status, end.output + repr(end.exception)
    return end


async def stored(db: asyncpg.Connection[asyncpg.Record], fields: dict[str, Any]) -> None:
    """Write a row by SQL, and take it back."""
    values = [json.dumps(each) if name in ("headers", "status_headers") else each for name, each in fields.items()]
    places = ", ".join(f"${n}" for n in range(1, len(fields) + 1))
    async with taken_back(db):
        await db.execute(f"insert into web_job.type ({', '.join(fields)}) values ({places})", *values)


@asynccontextmanager
async def taken_back(db: asyncpg.Connection[asyncpg.Record]) -> AsyncIterator[None]:
    transaction = db.transaction()
    await transaction.start()
    try:
        yield
    finally:
        await transaction.rollback()


async def test_sql_and_the_model_refuse_the_same_and_both_say_what_is_wrong(jobs: Jobs) -> None:
    for fields, constraint, where in BAD:
        with pytest.raises(asyncpg.CheckViolationError) as refused:
            await stored(jobs.db, GOOD | fields)
        assert refused.value.constraint_name == constraint, fields
        with pytest.raises(ValidationError) as caught:
            JobType.model_validate(GOOD | fields)
        assert problems(caught.value)[0].partition(":")[0] == where, fields
    constraints = await jobs.db.fetch(
        "select conname from pg_constraint where conrelid = 'web_job.type'::regclass and contype = 'c'"
    )
    assert {constraint for _, constraint, _ in BAD} == {row["conname"] for row in constraints}


async def test_sql_and_the_model_take_the_same(jobs: Jobs) -> None:
    for fields in (
        {"url": "http://127.0.0.1:8080"},
        {"url": "https://[::1]:8443/{a}{?b,c*}{&d:3}"},
        {"url": "https://old/dobillingstuff?rowid={rowid}", "method": "GET"},
        {"headers": {"X-Tenant": "a b\t~", "Content-Type": "application/vnd.a+json"}},
        {"doubt": "dedupe", "remembers": timedelta(seconds=91)},
        {"doubt": "lookup", "status_url": "https://host/{key}?t={token}"},
        {"signed_with": "env:NEW file:/run/secrets/old"},
        {"status_url": "https://other/", "status_headers": {"X-Tenant": "a"}, "status_signed_with": "env:NEW"},
        {"children": ["page", "send-invoice"], "max_depth": 100},
        {"not_done": [503, 599], "tries": 1, "at_once": 1, "disabled": "x"},
    ):
        await stored(jobs.db, GOOD | fields)
        JobType.model_validate(GOOD | fields)


async def test_a_worker_that_runs_goes_by_what_a_command_has_just_changed(jobs: Jobs) -> None:
    """An unknown type is added, its page moves while calls of it fail, it is disabled, and enabled."""
    jobs.pages.replies["/down"] = [answers({}, 429)]
    await jobs.type("invoice")
    await jobs.insert("early", "invoice", row=7)
    await jobs.db.execute("delete from web_job.type")
    async with jobs.world.worker(app):
        await jobs.shows("early", "held")
        assert "there is no job type 'invoice'" in str(await jobs.why("early"))
        end = await job_type(jobs, "add", "invoice", jobs.pages.origin + "/down?row={row}", "--timeout", "2s")
        assert "params: row" in end.stdout
        await jobs.world.until(lambda: jobs.pages.asked, "a call of the page that is down")
        await job_type(jobs, "disable", "invoice", "--why", "it is down")
        await jobs.world.until(lambda: jobs.db.fetchval(WHY_NOT_CALLED), "an attempt that was not made")
        called = len(jobs.pages.asked)
        await job_type(jobs, "add", "invoice", jobs.pages.origin + "/up", "--timeout", "2s", "--replace")
        assert await jobs.db.fetchval("select disabled from web_job.type") == "it is down"
        await job_type(jobs, "enable", "invoice")
        assert await jobs.ended("early") == "complete"
        assert len(jobs.pages.asked) == called + 1
        assert [each.path for each in jobs.pages.asked if each.path == "/up"] == ["/up"]

        assert (await job_type(jobs, "disable", "invoice", "--why", "moving house")).stdout
        await jobs.insert("late", "invoice")
        await jobs.shows("late", "held")
        assert await jobs.why("late") == "the job type invoice is disabled: moving house"
        [listed] = [json.loads(line) for line in (await job_type(jobs, "list", "--json")).stdout.splitlines()]
        assert (listed["open"], listed["held"], listed["disabled"]) == (1, 1, "moving house")
        assert "1 held jobs are released" in (await job_type(jobs, "enable", "invoice")).stdout
        assert await jobs.ended("late") == "complete"


async def test_all_that_a_type_holds_are_released_in_pages_and_nothing_else(jobs: Jobs) -> None:
    for name in ("page", "other"):
        await jobs.type(name)
        for n in range(5):
            await jobs.insert(f"{name}/{n}", name)
    await jobs.db.execute("update web_job.job set state = 'held' where id <> 'page/3'")
    async with asyncpg.create_pool(jobs.world.dsn, min_size=0, max_size=1) as pool:
        assert [released async for released in catalogue.release(pool.acquire, "page", 2)] == [2, 4]
    told = await jobs.db.fetch("select id from perdure.message where name = 'type_changed' order by id")
    assert [row["id"] for row in told] == ["page/0", "page/1", "page/2", "page/4"]


async def test_a_file_is_applied_as_a_whole_or_not_at_all_and_exported_again(jobs: Jobs, tmp_path: Path) -> None:
    file = tmp_path / "t.yaml"
    pages = jobs.pages.origin
    file.write_text(f"- name: one\n  url: {pages}/one\n  doubt: dedupe:1d\n- name: two\n  url: {pages}/two\n")
    said = (await job_type(jobs, "apply", str(file), "--dry-run")).stdout
    assert said.endswith("would be: 2 added, 0 changed, 0 unchanged\n")
    assert (await job_type(jobs, "list", status=1)).stdout == ""
    assert "2 added, 0 changed, 0 unchanged" in (await job_type(jobs, "apply", str(file))).stdout
    assert (await job_type(jobs, "export")).stdout == file.read_text()

    await job_type(jobs, "disable", "two", "--why", "broken")
    file.write_text(file.read_text().replace("/two", "/second").replace("dedupe:1d", "dedupe:10s"))
    refused = await job_type(jobs, "apply", str(file), status=2)
    assert refused.stderr.startswith(f"perdure: {file}:3: one: remembers: 10s leaves no time")
    assert "/second" not in (await job_type(jobs, "export")).stdout

    file.write_text(file.read_text().replace("dedupe:10s", "dedupe:1d"))
    assert "0 added, 1 changed, 1 unchanged" in (await job_type(jobs, "apply", str(file))).stdout
    kept = await jobs.db.fetchrow("select url, disabled from web_job.type where name = 'two'")
    assert kept is not None
    assert tuple(kept) == (pages + "/second", "broken")  # what a deploy does not speak of, it does not undo
    file.write_text(file.read_text() + "  disabled:\n")
    await job_type(jobs, "apply", str(file))
    assert await jobs.db.fetchval("select disabled from web_job.type where name = 'two'") is None


async def test_wrong_input_is_one_line_and_changes_nothing(jobs: Jobs) -> None:
    await jobs.type("there")
    for arguments, status, line in (
        (["add", "there", "https://host/"], 1, "there is a job type there already: --replace makes it so"),
        (["add", "x", "https://host/", "--timeout", "30"], 2, "job-type x: timeout: '30' is no duration"),
        (["add", "x", "https://host/", "--header", "plain"], 2, "--header: 'plain' is not NAME=VALUE"),
        (["disable", "x", "--why", "y"], 1, "there is no job type 'x'"),
        (["disable", "there", "--why", " "], 2, "--why: say why"),
        (["enable", "x"], 1, "there is no job type 'x'"),
        (["show", "x"], 1, "there is no job type 'x'"),
        (["test", "x"], 1, "there is no job type 'x'"),
        (["test", "there", "--payload", "{"], 2, "--payload is no JSON"),
        (["test", "there", "--param", "row"], 2, "--param: 'row' is not NAME=VALUE"),
        (["callbacks", "--listen", "8086"], 2, "--listen: '8086' is not HOST:PORT"),
        (["set-up", "--grant", "nobody-there"], 1, "there is no role 'nobody-there'"),
    ):
        end = await job_type(jobs, *arguments, status=status)
        assert end.stderr.startswith(f"perdure: {line}"), end.stderr
        assert end.stderr.count("\n") == 1
    assert await jobs.db.fetchval("select array_agg(name) from web_job.type") == ["there"]


async def test_all_of_a_type_is_shown_but_what_may_be_secret(jobs: Jobs) -> None:
    end = await job_type(
        jobs,
        *("add", "old", "https://elsewhere/dobillingstuff?rowid={rowid}", "--method", "get", "--doubt", "repeat"),
        *("--header", "Authorization=Bearer abc", "--header", "X-Tenant=7", "--not-done", "503"),
    )
    assert "PERDURE_WEB_ORIGINS does not list https://elsewhere" in end.stderr
    assert "the header Authorization stands in the table" in end.stderr
    await jobs.db.execute("update web_job.type set changed_at = '2026-01-02T03:04:05Z'")
    shown = (await job_type(jobs, "show", "old")).stdout
    assert "for example: https://elsewhere/dobillingstuff?rowid=x" in shown
    assert "X-Tenant: 7; Authorization: ***" in shown
    assert "changed 2026-01-02 03:04:05 UTC" in shown
    data = json.loads((await job_type(jobs, "show", "old", "--json")).stdout)
    assert (data["method"], data["timeout"], data["not_done"]) == ("GET", "30s", [503])


async def test_a_trial_is_a_real_call_that_leaves_nothing_behind(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGE_SECRET", "whsec_" + "c2VjcmV0" * 6)
    monkeypatch.setenv("PERDURE_WEB_CALLBACK_URL", "https://jobs.example.org/said")
    monkeypatch.setenv("PERDURE_WEB_CALLBACK_SECRET", "known to the workers alone")
    web_settings.cache_clear()
    await jobs.type("page", "/page?row={row}", signed_with="env:PAGE_SECRET", callback=True, disabled="not yet")
    await jobs.db.execute('update web_job.type set headers = \'{"X-Tenant": "hush"}\'')
    jobs.pages.replies["/page"] = [
        answers({"children": [{"id": "a", "type": "page"}]}),
        answers({"done": True}),
        answers(status=202),
        answers(status=422),
        answers(status=503),
        answers(status=429),
    ]

    async def tried(*more: str, status: int = 0) -> str:
        end = await job_type(jobs, "test", "page", "--param", "row=4 2", *more, status=status)
        assert "page is disabled (not yet)" in end.stderr
        return end.stdout

    said = await tried("--payload", '{"invoice": 7}')
    [asked] = jobs.pages.asked
    assert (asked.method, asked.query, asked.body) == ("POST", {"row": "4 2"}, b'{"invoice":7}')
    assert asked.headers["idempotency-key"].startswith('"test/page/')
    assert said.startswith(f"POST {jobs.pages.origin}/page?row=4%202\n")
    assert "Idempotency-Key, Perdure-Callback, Perdure-Job, Signature, Signature-Input, User-Agent" in said
    assert "body: 13 bytes" in said
    assert "the job would lead 1 children, of the types that it may list: none" in said
    for secret in ("hush", "whsec_", asked.headers["signature"], asked.headers["perdure-callback"][-64:]):
        assert secret not in said
    assert 'answered 200: {"done": true}\nthe job would be complete' in await tried()
    assert "the job would wait for its callback, for 1d" in await tried()
    assert "refused: answered 422\nthe job would fail" in await tried(status=1)
    assert "in doubt: answered 503\nthe job would wait until a person" in await tried(status=1)
    assert "not done: answered 429\nit would be called again" in await tried(status=1)
    tables = ("web_job.job", "web_job.family", "web_job.refused_child", "web_job.callback")
    for table in (*tables, "perdure.ident", "perdure.effect"):
        assert await jobs.db.fetchval(f"select count(*) from {table}") == 0, table


async def test_a_row_that_cannot_be_used_holds_its_jobs_until_it_can(jobs: Jobs) -> None:
    await jobs.db.execute("alter table web_job.type drop constraint dedupe_has_remembers")
    await jobs.type(doubt="dedupe")
    why = "the job type page can't be used: doubt: say for how long the page remembers a key: dedupe:24h"
    assert why.partition(": ")[2] in (await job_type(jobs, "list")).stdout
    assert why in (await job_type(jobs, "show", "page", status=1)).stderr
    assert why in (await job_type(jobs, "export", status=1)).stderr
    async with jobs.world.worker(app):
        await jobs.insert()
        await jobs.shows("1", "held")
        assert await jobs.why() == why
        await job_type(jobs, "add", "page", jobs.pages.origin + "/page", "--replace")
        assert await jobs.ended() == "complete"


async def test_an_app_with_the_rights_of_set_up_inserts_jobs_and_reads_what_became_of_them(jobs: Jobs) -> None:
    role = "app_of_" + jobs.world.scope
    await jobs.db.execute(f"create role {role} login")
    try:
        await job_type(jobs, "set-up", "--grant", role)
        await jobs.type()
        app_db = await asyncpg.connect(jobs.world.dsn.replace("postgres@", f"{role}@"))
        await app_db.execute("insert into web_job.job (id, type, params) values ('7', 'page', '{\"a\": 1}')")
        assert await app_db.fetchval("select state from web_job.result where id = '7'") == "scheduled"
        assert await app_db.fetchval("select web_job.called_back('nothing')") == "unknown"
        for statement in (
            "insert into web_job.job (id, type, state) values ('8', 'page', 'complete')",
            "update web_job.type set url = 'https://elsewhere/'",
            "select * from web_job.callback",
            "select * from web_job.release('page')",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await app_db.execute(statement)
        await app_db.close()
        end = await perdure(
            jobs.world,
            *("job-type", "list"),
            PERDURE_APP="workers.web_jobs.app:app",
            PERDURE_DATABASE_URL=jobs.world.dsn.replace("postgres@", f"{role}@"),
        )
        assert isinstance(end.exception, NotPermitted)
        assert str(end.exception).endswith(": use the role that owns the schema web_job")
    finally:
        await jobs.db.execute(f"drop owned by {role}; drop role {role}")


async def test_without_its_tables_it_says_how_they_are_made(world: World) -> None:
    app_named = {"PERDURE_APP": "workers.web_jobs.app:app"}
    end = await perdure(world, "job-type", "list", **app_named)
    assert isinstance(end.exception, SchemaMismatch)
    assert "perdure job-type set-up" in str(end.exception)
    printed = await perdure(world, "job-type", "set-up", "--print", **app_named)
    assert printed.stdout == catalogue.tables()
    await asyncio.gather(*(made_once_more(world.dsn) for _ in range(4)))
    assert (await perdure(world, "job-type", "set-up", **app_named)).stdout == "the tables of web jobs are there\n"
    assert (await perdure(world, "job-type", "list", **app_named)).exit_code == 1
    await world.db.execute("drop schema perdure cascade; drop schema web_job cascade")
    end = await perdure(world, "job-type", "set-up", **app_named)
    assert isinstance(end.exception, SchemaMismatch)
    assert "perdure migrate" in str(end.exception)


async def test_a_set_up_that_waited_for_the_first_one_keeps_a_later_one_off(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without that, both replace the same functions, and PostgreSQL fails one: *tuple concurrently updated*."""
    first, second, third = [await asyncpg.connect(world.dsn) for _ in range(3)]
    async with first.transaction():
        await catalogue.set_up(first)
        monkeypatch.setattr(catalogue, "tables", lambda: "select")  # the others stop at their locks
        second_ends = second.transaction()
        await second_ends.start()
        waited = asyncio.create_task(catalogue.set_up(second))
        await world.until(lambda: blocked(world, second, first), "the second set-up waits for the first one")
    await in_time(waited)
    async with third.transaction():
        later = asyncio.create_task(catalogue.set_up(third))
        await world.until(lambda: later.done() or blocked(world, third, second), "the third set-up is at its lock")
        assert not later.done()
        await second_ends.commit()
        await in_time(later)
    for each in (first, second, third):
        await each.close()


async def blocked(world: World, waiting: asyncpg.Connection[Any], by: asyncpg.Connection[Any]) -> bool:
    blocking = await world.db.fetchval("select pg_blocking_pids($1)", waiting.get_server_pid())
    return by.get_server_pid() in blocking


async def made_once_more(dsn: str) -> None:
    """As `set-up` does it, on a connection of its own: several at once."""
    db = await asyncpg.connect(dsn)
    async with db.transaction():
        await catalogue.set_up(db)
    await db.close()


async def test_the_command_is_run_as_a_shell_runs_it(jobs: Jobs) -> None:
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "perdure.cli", "job-type", "apply", "-"),
        env={**jobs.world.environment(), "PERDURE_APP": "workers.web_jobs.app:app"},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await in_time(running.communicate(b"- name: a\n  url: https://h/\n  tmeout: 1s\n"))
    assert (running.returncode, output) == (2, b"")
    assert errors.decode() == ("perdure: <stdin>:3: a: tmeout: there is no such field; did you mean 'timeout'?\n")
