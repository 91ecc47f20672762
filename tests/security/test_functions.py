"""No function can be borrowed: each has a fixed search path, and none can be executed by PUBLIC."""

from __future__ import annotations

from pathlib import Path

import asyncpg
import pytest

from tests.security.conftest import Roles
from tests.world import World

ACTIVITIES = Path(__file__).parents[2] / "activities"
WITHOUT_PATH = """
    select p.oid::regprocedure::text from pg_proc p where p.pronamespace = any($1::regnamespace[])
        and not exists (select from unnest(p.proconfig) c where c like 'search_path=%') order by 1"""
TO_PUBLIC = """
    select p.oid::regprocedure::text
    from pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
    where p.pronamespace = any($1::regnamespace[]) and a.grantee = 0 order by 1"""


async def with_applications(world: World) -> list[str]:
    """Make the schemas of the applications in this repository; the names of all schemas."""
    for name in ("reminders/tables.sql", "web_jobs/tables.sql"):
        await world.db.execute((ACTIVITIES / name).read_text())
    return ["perdure", "reminders", "web_job"]


async def test_each_function_has_a_fixed_search_path(world: World) -> None:
    found = [row[0] for row in await world.db.fetch(WITHOUT_PATH, await with_applications(world))]
    # It runs with the rights of its caller, and the planner puts its statement in place of the call.
    assert found == ["reminders.doses_due(timestamp without time zone,timestamp without time zone)"]
    assert not await world.db.fetchval("select prosecdef from pg_proc where oid = 'reminders.doses_due'::regproc")


async def test_no_function_is_executable_by_default(world: World) -> None:
    found = [row[0] for row in await world.db.fetch(TO_PUBLIC, await with_applications(world))]
    assert found == ["reminders.input(reminders.patient)"]  # computes, and reads nothing


async def test_a_role_that_reads_doses_can_not_borrow_the_trigger_that_signs_patients_off(
    world: World, roles: Roles
) -> None:
    await with_applications(world)
    plan = '{"rules": [{"id": "a", "rule": "FREQ=DAILY", "start": "2026-01-01T08:00", "what": "x"}]}'
    await world.db.execute(
        "insert into reminders.patient (id, plan, zone, phone) values ('ann', $1, 'UTC', '+12025550100')", plan
    )
    name = await roles.make("reporter")
    await world.db.execute(
        f"grant usage on schema reminders to {name}; grant select on reminders.dose to {name}; "
        f"create schema {name} authorization {name}"
    )
    reporter = await roles.connect(name)
    await reporter.execute(f"create table {name}.mine (id text, signed_off boolean)")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await reporter.execute(
            f"create trigger tells after delete on {name}.mine for each row execute function reminders.signal_change()"
        )
    assert await world.db.fetchval("select count(*) from perdure.message") == 0


async def test_an_app_with_rights_on_the_table_of_patients_alone_signs_up_and_off(world: World, roles: Roles) -> None:
    await with_applications(world)
    name = await roles.make("clinic_app")
    await world.db.execute(
        f"grant usage on schema reminders to {name}; "
        f"grant select, insert, update, delete on reminders.patient to {name}"
    )
    app = await roles.connect(name)
    plan = '{"rules": [{"id": "a", "rule": "FREQ=DAILY", "start": "2026-01-01T08:00", "what": "x"}]}'
    await app.execute(
        "insert into reminders.patient (id, plan, zone, phone) values ('ann', $1, 'UTC', '+12025550100')", plan
    )
    await app.execute("update reminders.patient set signed_off = true where id = 'ann'")
    assert await world.db.fetchval("select name from perdure.message where id = 'ann'") == "sign_off"
