"""`perdure new`: the files of a new project, from the templates that come with the wheel."""

from __future__ import annotations

import importlib.util
import keyword
import re
import shutil
import tempfile
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path

from perdure.errors import InvalidSetting
from perdure.servers.ports import free_port

_TEMPLATES = Path(__file__).parent / "templates"
_SUFFIX = "-tmpl"
"""So that no tool takes the files for code of this package, as Django's templates have it."""
_OF_THE_PROJECT = ("tests",)


class Template(StrEnum):
    """The kinds of projects."""

    PLAIN = "plain"
    FASTAPI = "fastapi"
    DJANGO = "django"


@dataclass(frozen=True)
class _Kind:
    """What differs between the kinds beside files of their own; `{{...}}` as in the files."""

    dependencies: tuple[str, ...]
    order: str
    web: str | None
    files: tuple[tuple[str, str], ...]


_HTTP = (
    "$ curl -X POST http://127.0.0.1:{{web_port}}/orders -H 'content-type: application/json' "
    """-d '{"item": "book", "cents": 1250}'"""
)
_KINDS = {
    Template.PLAIN: _Kind(
        ("asyncpg>=0.31", "httpx>=0.28"),
        "$ python -m {{package}}.buy book 1250",
        None,
        (("{{package}}/buy.py", "commits an order and starts its lifecycle in one transaction"),),
    ),
    Template.FASTAPI: _Kind(
        ("asyncpg>=0.31", "fastapi>=0.120", "httpx>=0.28", "sqlalchemy[asyncio]>=2.0.44", "uvicorn>=0.38"),
        _HTTP,
        "uvicorn {{package}}.web:app --port {{web_port}} --reload --reload-dir {{package}}",
        (("{{package}}/web.py", "the web application: commits an order and starts its lifecycle in one transaction"),),
    ),
    Template.DJANGO: _Kind(
        ("django>=5.2", "httpx>=0.28", "psycopg[binary]>=3.3"),
        _HTTP,
        "python manage.py runserver {{web_port}}",
        (
            ("{{package}}/views.py", "the views: an order and its lifecycle are committed in one transaction"),
            ("{{package}}/models.py, migrations/", "the table of orders"),
        ),
    ),
}


def make(name: str, template: Template, parent: Path) -> Path:
    """Write a new project into the folder `name`, all of it or nothing.

    Args:
        name: of the project; its package has `_` for `-`.
        template: which kind.
        parent: where the folder is made.

    Raises:
        InvalidSetting: the name can't be used, or something with that name exists; the message has the reason.
        OSError: a file could not be written; nothing is left.
    """
    package = _package(name)
    folder = parent / name
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidSetting(f"{folder} exists already: choose another name, or remove it")
    words = _words(name, package, template)
    made = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=parent))
    try:
        for source in (_TEMPLATES / "base", _TEMPLATES / template):
            for file in sorted(source.rglob(f"*{_SUFFIX}")):
                target = made / _place(file.relative_to(source), package)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(_filled(file.read_text(), words))
        made.chmod(0o755)
        made.replace(folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return folder


def _package(name: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9]*([_-][a-z0-9]+)*", name):
        raise InvalidSetting(
            f"{name!r}: the name of a project has small letters, digits and single hyphens, as my-shop"
        )
    package = name.replace("-", "_")
    if keyword.iskeyword(package) or package in _OF_THE_PROJECT or importlib.util.find_spec(package) is not None:
        raise InvalidSetting(f"{name!r}: Python has another module {package!r}: choose another name")
    return package


def _place(file: Path, package: str) -> Path:
    named = file.with_name(file.name.removesuffix(_SUFFIX))
    if named.name == "gitignore":
        return named.with_name(".gitignore")
    return Path(package, *named.parts[1:]) if named.parts[0] == "package" else named


def _words(name: str, package: str, template: Template) -> dict[str, str]:
    kind = _KINDS[template]
    beside = ["python -m {{package}}.payments", *([kind.web] if kind.web else [])]
    release = ".".join(version("perdure").split(".")[:2])
    return {
        "dependencies": "\n".join(f'    "{each}",' for each in (f"perdure>={release}", *kind.dependencies)),
        "beside": " \\\n\t    ".join(f"--beside '{each}'" for each in beside),
        "order": kind.order,
        "files": "\n".join(f"| `{file}` | {content} |" for file, content in kind.files),
        # Free ones, so that a second project runs beside this one.
        "payments_port": str(free_port()),
        "web_port": str(free_port()),
        "package": package,
        "name": name,
    }


def _filled(text: str, words: dict[str, str]) -> str:
    for word, value in words.items():  # a value may have words that come later
        text = text.replace(f"{{{{{word}}}}}", value)
    return text
