"""Each package imports only packages below it, and no application uses a private name."""

from __future__ import annotations

import ast
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("perdure", "workflows", "activities", "workers", "tests", "bench", "infra")
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "perdure": (),
    "activities": ("perdure", "activities"),
    "workflows": ("perdure", "workflows"),
    "workers": ("perdure", "activities", "workflows", "workers"),
}


INSIDE = (
    ("errors",),
    ("servers",),
    ("_text", "_faults", "_loading", "_pulse"),
    ("logs", "contracts"),
    ("settings", "_wire"),
    ("_crypto", "telemetry"),
    ("_store", "_workflow"),
    ("app", "database", "encryption"),
    ("_activity", "_services", "_retention", "client"),
    ("_reconcile", "temporal"),
    ("_worker",),
    ("_operations", "_dev", "_machine", "testing"),
    ("console",),
    ("cli", "__init__"),
)
"""The rooms of `perdure`, the lowest first: each knows only rooms that stand before its own line."""


def _imports(file: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in found if name.partition(".")[0] in ROOMS}


def _is_contract(name: str) -> bool:
    """Whether a module, or a name in one, belongs to the contracts of an application."""
    return name.startswith("activities.") and "contracts" in name.split(".")


def _breaches(room: str, allowed: tuple[str, ...]) -> list[str]:
    return [
        f"{file.relative_to(ROOT)} imports {name}"
        for file in (ROOT / room).rglob("*.py")
        for name in sorted(_imports(file))
        if not any(name == each or name.startswith(each + ".") for each in _allowed(file, allowed))
        and not (_is_contract(name) and room != "perdure")
    ]


def _allowed(file: Path, allowed: tuple[str, ...]) -> tuple[str, ...]:
    """Contracts know other contracts, and the library: workflows import them."""
    module = ".".join(file.relative_to(ROOT).with_suffix("").parts)
    return ("perdure",) if _is_contract(module) or module.startswith("perdure.") else allowed


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_a_room_knows_only_the_rooms_below_it(room: str) -> None:
    assert _breaches(room, MAY_IMPORT[room]) == []


def test_an_arrow_that_points_up_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "wrong.py"
    file.write_text("from workers.comments.app import app\nimport activities.mail.smtp\n")
    assert _imports(file) == {"workers.comments.app.app", "activities.mail.smtp"}


def test_shared_code_of_applications_imports_none_of_them() -> None:
    room = ROOT / "activities"
    shared = [*room.glob("*.py"), *(room / "http").glob("*.py")]
    outside = ("perdure", "activities.environment", "activities.secrets", "activities.http")
    assert [
        each
        for file in shared
        for each in _imports(file)
        if not each.startswith(outside) and "." in each and each.startswith(("activities", "workflows", "workers"))
    ] == []


def _room(name: str) -> str:
    """The room of a module, or of a name in one; `__init__` for what the package itself exports."""
    _, _, rest = name.partition(".")
    room = rest.partition(".")[0]
    return room if any(room in floor for floor in INSIDE) else "__init__"


def _arrows(file: Path, root: Path) -> list[tuple[str, str]]:
    """The room of a file, and each name of another room that it imports, for type checkers included."""
    own = _room(".".join(file.relative_to(root).with_suffix("").parts))
    return [(own, name) for name in sorted(_imports(file)) if name.startswith("perdure") and _room(name) != own]


def _upward(file: Path, root: Path) -> list[str]:
    height = {room: number for number, floor in enumerate(INSIDE) for room in floor}
    return [
        f"{file.relative_to(root)} imports {name}: {own} must not know {_room(name)}"
        for own, name in _arrows(file, root)
        if height[_room(name)] >= height[own]
    ]


def test_inside_the_library_all_arrows_point_down() -> None:
    assert [each for file in (ROOT / "perdure").rglob("*.py") for each in _upward(file, ROOT)] == []


def test_each_room_of_the_library_has_its_floor() -> None:
    there = {
        path.stem for path in (ROOT / "perdure").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert there == {room for floor in INSIDE for room in floor}


def test_an_arrow_inside_the_library_that_points_up_is_named(tmp_path: Path) -> None:
    file = tmp_path / "perdure" / "contracts" / "wrong.py"
    file.parent.mkdir(parents=True)
    file.write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from perdure._store.postgres import Pool\n"
        "from perdure.errors import NotNow\n"
    )
    why = "contracts must not know _store"
    assert _upward(file, tmp_path) == [f"perdure/contracts/wrong.py imports perdure._store.postgres.Pool: {why}"]


APPLICATIONS = ("workflows", "activities", "workers", "infra")
"""The rooms that hold what a user of the library would write: they are examples, too."""


def _inner_names(file: Path, root: Path) -> list[str]:
    """What of perdure's inside an application uses: private modules and names that it imports, for type checkers
    included, and private attributes of objects that are not its own."""
    tree = ast.parse(file.read_text())
    found = [
        f"{file.relative_to(root)} imports {name}"
        for name in sorted(_imports(file))
        if name.startswith("perdure.") and any(part.startswith("_") for part in name.split("."))
    ]
    attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and _is_private(node.attr)]
    found += [
        f"{file.relative_to(root)}:{node.lineno} uses {ast.unparse(node)}"
        for node in attributes
        if ast.unparse(node.value) not in ("self", "cls", "super()")
    ]
    return found


def _is_private(name: str) -> bool:
    documented = ("_replace", "_exit")  # of named tuples, and of `os`
    return name.startswith("_") and not name.startswith("__") and name not in documented


@pytest.mark.parametrize("room", APPLICATIONS)
def test_an_application_uses_public_names_only(room: str) -> None:
    generators = ROOT / "infra" / "site"  # the reference of what the library has inside
    files = [file for file in (ROOT / room).rglob("*.py") if not file.is_relative_to(generators)]
    assert [each for file in files for each in _inner_names(file, ROOT)] == []


def test_an_inner_name_that_an_application_uses_is_named(tmp_path: Path) -> None:
    file = tmp_path / "wrong.py"
    file.write_text(
        "from typing import TYPE_CHECKING\nimport perdure._text.shown\nfrom perdure import _wire, errors\n"
        "if TYPE_CHECKING:\n    from perdure._store.postgres import Pool\n"
        "def given(client):\n    from perdure.client.client import _known\n    return client._pool\n"
    )
    assert _inner_names(file, tmp_path) == [
        "wrong.py imports perdure._store.postgres.Pool",
        "wrong.py imports perdure._text.shown",
        "wrong.py imports perdure._wire",
        "wrong.py imports perdure.client.client._known",
        "wrong.py:8 uses client._pool",
    ]


def test_the_library_does_not_know_what_its_first_application_does() -> None:
    words = ("mail", "smtp", "comment_notification", "web_job", "web job", "job type")
    guilty = [
        f"{file.relative_to(ROOT)}:{number}"
        for file in (ROOT / "perdure").rglob("*")
        if file.suffix in (".py", ".sql")
        for number, line in enumerate(file.read_text().lower().splitlines(), start=1)
        if any(word in line for word in words)
    ]
    assert guilty == []


LIGHT = (
    *("activities.mail.contracts.mail", "workflows.comments.comment_notification", "workflows.mail.mailing"),
    *("workflows.web_jobs.web_job", "perdure.testing"),
)
HEAVY = (
    *("pytest", "asyncpg", "aiohttp", "aiosmtplib", "aiosmtpd", "typer"),
    *("perdure._store.postgres", "activities.mail.smtp"),
)


def test_imports_of_workflows_load_no_client_library() -> None:
    code = f"""
import importlib, sys
for module in {LIGHT!r}:
    importlib.import_module(module)
    for heavy in {HEAVY!r}:
        if heavy in sys.modules:
            print(module, "imports", heavy)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == []


OF_WORKERS = {"temporalio", "asyncpg", "pydantic", "pydantic_settings", "google", "typer", "rich", "opentelemetry.sdk"}


@pytest.mark.parametrize(
    ("app", "rooms"),
    [
        ("import perdure", set()),
        # What they start is named by a string; a class brings the SDK with it.
        ("from perdure import Client, SyncClient, PerdureError", {"client", "contracts", "telemetry"}),
    ],
)
def test_an_app_that_only_starts_lifecycles_imports_nothing_of_a_worker(app: str, rooms: set[str]) -> None:
    """What it imports decides how long it takes, whatever the machine does meanwhile."""
    done = subprocess.run(
        [sys.executable, "-c", f"{app}; import sys; print(*sys.modules)"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    found = set(done.stdout.split())
    assert OF_WORKERS & found == set()
    public = {
        name.split(".")[1] for name in found if name.startswith("perdure.") and (ROOT / name.replace(".", "/")).is_dir()
    }
    assert {each for each in public if not each.startswith("_")} == rooms


def test_the_wheel_installs_one_name_only(tmp_path: Path) -> None:
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(tmp_path),
        str(ROOT),
    ]
    subprocess.run(build, check=True, capture_output=True)
    names = zipfile.ZipFile(next(tmp_path.glob("*.whl"))).namelist()
    assert {name.partition("/")[0] for name in names if ".dist-info" not in name} == {"perdure"}
    assert {
        "perdure/py.typed",
        "perdure/_store/schema/0001_base.sql",
        "perdure/_store/schema/functions/start.sql",
        "perdure/_docs/effects.md",
    } <= set(names)
