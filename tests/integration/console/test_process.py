"""`perdure console` runs as a process of its own, as a role of the database that may do what the console does and no
more, and ends in order."""

from __future__ import annotations

import asyncio
import re
import secrets
import signal
import sys

import httpx

from perdure.console import InsecureLocal, console
from tests.command import perdure
from tests.deadline import in_time
from tests.integration.console.browsing import readable, serving
from tests.integration.operations.test_list import ENTITIES
from tests.world import World


async def test_it_serves_as_its_own_role_until_it_is_told_to_stop(world: World) -> None:
    folder = str(world.folder / "console")
    role = f"console_{secrets.token_hex(4)}"
    await world.db.execute(ENTITIES)
    await world.db.execute(f"create role {role} login")
    try:
        end = await perdure(world, "grant", role, "--as", "console")
        assert end.exit_code == 0, end.output
        url = world.config.database_url.replace("postgres@", f"{role}@", 1)
        environment = {**world.environment(), "PERDURE_DATABASE_URL": url, "PERDURE_LOG": "text"}
        environment["PERDURE_CONSOLE_FOLDER"] = folder
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "perdure.cli", "console", "--insecure-local", "--port", "0"),
            *("--app", "tests.apps.bodies:app"),
            env=environment,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stderr is not None
        try:
            address = ""
            while not address:
                line = (await in_time(process.stderr.readline())).decode()
                assert line, "it ended"
                address = (re.findall(r"url=(http://\S+)", line) or [""])[0]
            async with httpx.AsyncClient(base_url=address, timeout=120) as http:
                for path in ("/", "/inbox", "/list", "/entity/order?id=4", "/act/resolve?lifecycle=order&id=4"):
                    answer = await http.get(path)
                    assert answer.status_code == 200, (path, answer.text)
                page = (await http.get("/act/cancel?lifecycle=order&id=4")).text
                token = re.findall(r'name="form_token" value="([^"]+)"', page)[0]
                fields = {"form_token": token, "lifecycle": "order", "id": "4", "note": "n"}
                done = await http.post("/act/cancel", data=fields)
                assert done.status_code == 303, "also of a lifecycle that the app does not declare"
        finally:
            process.send_signal(signal.SIGTERM)
        assert await in_time(process.wait()) == 0
        rest = (await process.stderr.read()).decode()
        assert "stopped" in rest
        assert "Traceback" not in rest
        await world.db.execute(f"drop owned by {role}")
        await perdure(world, "grant", role, "--as", "reader")
        made = console(InsecureLocal(), config=world.config.model_copy(update={"database_url": url}), folder=folder)
        async with serving(made) as site:
            reader = site.browser(None)
            for sent in (
                ("/act/cancel?lifecycle=order&id=5", "/act/cancel"),
                ("/act/retry?lifecycle=order&id=5", "/act/retry"),
            ):
                refused = await reader.send(*sent, note="n")
                assert refused.status_code == 503
                assert f"run `perdure grant {role} --as operator`" in readable(refused.text).replace("runs", "run")
        acted = await world.db.fetch("select id, why from perdure.transition where made_by is not null")
        assert [tuple(each) for each in acted] == [("4", "cancel requested: n")], "none by the reader"
    finally:
        await world.db.execute(f"drop owned by {role}")
        await world.db.execute(f"delete from perdure.permission where role = '{role}'")
        await world.db.execute(f"drop role {role}")
