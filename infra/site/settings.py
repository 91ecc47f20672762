"""The page of the settings: `python -m infra.site.settings` writes docs/settings.md from the class `Settings`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from infra.site.reference import code, table
from perdure.settings import Settings

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"
_HEAD = """# Settings

Perdure reads its settings from environment variables. A worker and a client read the variables of this table. A value
that can't be used ends the process at its start, with one error that names the variable.

"""
_TAIL = """
The connection to Temporal comes from [Temporal's environment
configuration](https://docs.temporal.io/develop/environment-configuration): `TEMPORAL_ADDRESS` (`localhost:7233` if it
is not set), `TEMPORAL_NAMESPACE`, TLS, an API key or a profile.
"""
_MORE = {
    "column_database_url": "[Security](security.md#database-roles)",
    "erasure_database_url": "[Archive and erasure](archive.md#what-else-belongs-to-an-entity)",
    "scope": "[Security](security.md#databases-that-share-a-namespace)",
    "task_queue": "[Writing an effect](effects.md)",
    "workflow_sandbox": "[Deterministic code](lifecycles.md#deterministic-code)",
    "deployment": "[Upgrading](upgrading.md#worker-versioning)",
    "traces": "[Telemetry](telemetry.md)",
    "metrics": "[Telemetry](telemetry.md)",
    "health": "[Operating](operating.md#health)",
    "reconciliation": "[Operating](operating.md#running-workers)",
    "search_attributes": "[Operating](operating.md#in-temporals-web-ui)",
    "relay": "[Operating](operating.md#running-workers)",
    "retention": "[Archive and erasure](archive.md)",
    "archive_to": "[Archive and erasure](archive.md)",
    "reconciliation_every": "[The reconciliation](reconciliation.md)",
    "console_folder": "[The console](console.md)",
    "keys": "[Encryption](encryption.md)",
    "key_service": "[Encryption](encryption.md#keys-that-vault-or-a-kms-wraps)",
    "seal": "[Encryption](encryption.md)",
}
"""The page with more about a setting."""


def page() -> str:
    """Return docs/settings.md."""
    return f"{_HEAD}{table(('setting', 'default', 'meaning'), setting_rows())}{_TAIL}"


def setting_rows() -> list[tuple[str, str, str]]:
    """Variable, default and meaning of each setting; the meaning ends with the permitted values."""
    described, hints = attributes(inspect.getdoc(Settings) or ""), get_type_hints(Settings)
    rows = []
    for name, field in Settings.model_fields.items():
        parts = (_meaning(described[name]), _values(hints[name], field.metadata), _more(name))
        rows.append((code(variable(name)), _default(field.default), " ".join(filter(None, parts))))
    return rows


def variable(name: str) -> str:
    """The environment variable of a setting."""
    return f"PERDURE_{name.upper()}"


def attributes(docstring: str) -> dict[str, str]:
    """The entries of the section Attributes of a docstring in Google's style."""
    section = re.search(r"^Attributes:\n((?:    .*\n?|\n)+)", docstring, re.MULTILINE)
    found = re.findall(r"^    (\w+): (.*(?:\n {8,}.*)*)", section[1] if section else "", re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in found}


def _meaning(text: str) -> str:
    """The text of the docstring in terms of the environment."""
    fields = Settings.model_fields
    text = re.sub(r"`(\w+)`", lambda word: code(variable(word[1])) if word[1] in fields else word[0], text)
    text = re.sub(r"[;.] None = ", ". Not set: ", text)
    return f"{text[:1].upper()}{text[1:].removesuffix('.')}."


def _more(name: str) -> str:
    return f"See {_MORE[name]}." if name in _MORE else ""


def _default(value: Any) -> str:
    match value:
        case None:
            return "not set"
        case bool():
            return code(str(value).lower())
        case float():
            return code(f"{value:g}")
        case _:
            return code(str(value))


def _values(hint: Any, metadata: Sequence[Any]) -> str:
    """The permitted values in a sentence; nothing for a text."""
    kind = next((each for each in get_args(hint) if each is not NoneType), hint) if NoneType in get_args(hint) else hint
    if get_origin(kind) is Literal:
        *others, last = map(code, get_args(kind))
        return f"{', '.join(others)} or {last}." if others else ""
    if kind is bool:
        return "`true` or `false`."
    words = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
    bounds = [
        f"{word} {value:g}"
        for each in metadata
        for bound, word in words.items()
        if (value := getattr(each, bound, None)) is not None
    ]
    return f"{' and '.join(bounds).capitalize()}." if bounds else ""


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
