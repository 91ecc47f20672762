"""A command that the role may not run is refused in one line with the grant, or the owner, that it needs."""

from __future__ import annotations

import pytest
from typer.testing import Result

from tests.apps.contracts import Booking
from tests.apps.talking import Rest, Ring, app
from tests.command import perdure
from tests.integration.operations.acts import LOST, parked
from tests.integration.retention.months import NAME, finished
from tests.world import World

pytestmark = pytest.mark.world(app)

NOTE = "--by ann --note x"
IMPORT = "import tests.apps.talking:app rest --waiting new --table booking --column state"
OWNER = "run it as the owner of the schema"
WORKER, OPERATOR, READER = (f"`perdure grant {{role}} --as {kind}`" for kind in ("worker", "operator", "reader"))
OF_READER = {
    "archive list": OWNER,
    f"archive export {NAME} --to .": OWNER,
    f"archive drop {NAME} --yes --without-export": OWNER,
    "grant {role} --as app": "run `perdure grant` as its owner",
    "forget rest over --by ann --yes --app tests.apps.talking:app": OWNER,
    f"recover --yes --put-back {NOTE}": WORKER,
    "database claim --as moved --yes": WORKER,
}
OF_NOBODY = {
    **OF_READER,
    f"recover --yes {NOTE}": WORKER,
    "grant {role} --as app": OWNER,
    "reconcile": READER,
    "rejected list": READER,
    f"{IMPORT} --dry-run": OPERATOR,
}


async def run(world: World, role: str, line: str) -> Result:
    url = world.dsn.replace("postgres@", f"{role}@")
    return await perdure(world, *line.format(role=role).split(), PERDURE_DATABASE_URL=url)


@pytest.mark.parametrize("granted", [None, "reader"])
async def test_what_a_role_may_not_do_is_one_line_with_the_way_out(
    world: World, role: str, granted: str | None, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(str(tmp_path))
    async with world.worker(app):
        await world.client.start(Rest, "over", Booking())
        assert await world.ended("rest", "over") == "done"
    await finished(world.db, "long-ago")
    if granted:
        assert (await perdure(world, "grant", role, "--as", granted)).exit_code == 0
    for line, way_out in (OF_READER if granted else OF_NOBODY).items():
        stopped = None if line.startswith("forget") else "it is a copy"
        await world.db.execute("update perdure.database set stopped = $1", stopped)
        end = await run(world, role, line)
        text = end.stderr or f"{end.exception} [{getattr(end.exception, 'code', None)}]\n"
        assert (end.exit_code, text.count("\n")) == (1, 1), (line, end.output, end.exception)
        assert text.endswith(f"{way_out.format(role=role)} [PERDURE-2105]\n"), (line, text)
        assert await world.db.fetchval("select stopped from perdure.database") == stopped


async def test_the_grant_that_is_named_is_enough(world: World, role: str) -> None:
    async with world.worker(app):
        await world.client.start(Rest, "open", Booking(seconds=3600))
        await world.is_in("rest", "open", "doing")
    await world.db.execute("update perdure.database set stopped = 'it is a copy'")
    assert (await perdure(world, "grant", role, "--as", "worker")).exit_code == 0
    for line in ("database claim --as moved --yes", f"recover --yes --put-back {NOTE}"):
        end = await run(world, role, line)
        assert end.exit_code == 0, (line, end.output, end.exception)


async def test_a_limited_role_is_told_that_the_grant_it_lacks_widens_what_it_sees(world: World, role: str) -> None:
    wider = "this needs a grant without --lifecycle and --tenant, which widens what the role sees: "
    assert (await perdure(world, "grant", role, "--as", "app", "--lifecycle", "ring")).exit_code == 0
    for kind in ("app", "reader", "operator"):
        assert (await perdure(world, "grant", role, "--as", kind, "--lifecycle", "ring")).exit_code == 0
        for line in ("status", "reconcile"):
            end = await run(world, role, line)
            told = f"{'' if kind == 'app' else wider}an owner of the schema runs `perdure grant {role} --as reader`"
            assert (end.exit_code, str(end.exception).endswith(f": {told}")) == (1, True), (kind, end.exception)
            assert (wider in str(end.exception)) == (kind != "app")
        limits = await run(world, role, "limit --app tests.apps.limited:app")
        assert (limits.exit_code, wider in limits.stderr) == (0, kind == "reader"), (kind, limits.output)


async def test_an_operator_of_one_lifecycle_acts_on_its_entities_alone(world: World, role: str) -> None:
    world.counterparty.replies_to = {"a": [LOST], "b": [LOST]}
    assert (await perdure(world, "grant", role, "--as", "operator", "--lifecycle", "ring")).exit_code == 0
    async with world.worker(app):
        await world.client.start(Rest, "other", Booking(seconds=3600))
        for entity_id in "ab":
            await world.client.start(Ring, entity_id, Booking())
        await parked(world, 2)
        for line, said in {
            f"resolve ring a --as abandoned {NOTE}": "ring/a: resolved as abandoned",
            f"send-again ring a {NOTE}": "ring/a: do-ring goes anew",
            f"cancel ring b {NOTE}": "ring/b: its end is requested",
        }.items():
            end = await run(world, role, line)
            assert (end.exit_code, end.stdout[: len(said)]) == (0, said), (line, end.output, end.exception)
        for line in (f"cancel rest other {NOTE}", f"retry rest other {NOTE}"):
            end = await run(world, role, line)
            assert (end.exit_code, end.stdout) == (1, ""), (line, end.output)
    assert await world.db.fetchval("select count(*) from perdure.message where lifecycle = 'rest'") == 0
