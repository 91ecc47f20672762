"""The example of docs/proof.md works as it stands there, in a project that has nothing but the wheel's own things."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer
from tests.nested import outside_pytest

PAGE = Path(__file__).parents[2] / "docs" / "proof.md"
FILE = re.compile(r"^<!-- file: ([\w.]+) -->\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


async def test_somebody_elses_lifecycle_is_proven_as_the_page_says(
    postgres: PostgresServer, temporal: TemporalServer, tmp_path: Path
) -> None:
    files = dict(FILE.findall(PAGE.read_text()))
    assert set(files) == {"shop.py", "test_shop.py"}
    for name, code in files.items():
        (tmp_path / name).write_text(code)
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    pytest = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pytest", "-q", "-rP", "-p", "no:cacheprovider", "test_shop.py"),
        cwd=tmp_path,
        env={
            **outside_pytest(),
            "PERDURE_DATABASE_URL": postgres.dsn("perdure_template"),
            "TEMPORAL_ADDRESS": temporal.address,
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said = (await pytest.communicate())[0].decode()
    assert pytest.returncode == 0, said
    assert "1 passed" in said
    assert "after the call of ship: the worker is killed" in said
    assert "before the commit of mirror: shipped: the connection breaks" in said
