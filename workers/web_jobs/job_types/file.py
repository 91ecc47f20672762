"""Job types in a YAML file: a list, checked as a whole before anything is changed, and written again."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import yaml
from pydantic import ValidationError

from activities.web_jobs.catalogue import FIELDS
from activities.web_jobs.durations import written
from activities.web_jobs.job_type import JobType, problems
from perdure.cli.printing import lines
from perdure.contracts.states import suggestion
from perdure.errors import PerdureError

_DEFAULTS = {name: field.default for name, field in JobType.model_fields.items()}


class InvalidFile(PerdureError, ValueError):
    """A file that cannot be used.

    Attributes:
        lines: the problems, one a line, each with its line number in the file.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = list(lines)
        super().__init__("\n".join(self.lines))


@dataclass(frozen=True, slots=True)
class Entry:
    """One job type of a file.

    Attributes:
        type: the job type.
        says_disabled: whether the file has the field `disabled`. Otherwise it is not changed.
    """

    type: JobType
    says_disabled: bool


def read(text: str, name: str) -> list[Entry]:
    """The job types of a file.

    Args:
        name: the name of the file, for messages.

    Raises:
        InvalidFile: with all that is wrong.
    """
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if root is None:
            return []
        if not isinstance(root, yaml.SequenceNode):
            raise InvalidFile([f"{name}:{_line(root)}: it has to be a list of job types: - name: ..."])
        return _entries(root, name)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}" if mark else name
        raise InvalidFile([f"{where}: it is no YAML: {error.problem or error.context}"]) from None
    except yaml.YAMLError as error:
        raise InvalidFile([f"{name}: it is no YAML: {' '.join(str(error).split())}"]) from None


def write(types: Iterable[JobType]) -> str:
    """The YAML that `read` reads, without fields that have their defaults."""
    plain = [_plain(each) for each in types]
    if not plain:
        return "[]\n"
    text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=1000)
    if lines(text) != text:  # it has invisible characters, which are written as escapes
        text = yaml.safe_dump(plain, sort_keys=False, width=1000)
    return text


def _entries(root: yaml.SequenceNode, file: str) -> list[Entry]:
    found: dict[str, tuple[Entry, int]] = {}
    wrong: list[str] = []
    for node in root.value:
        entry, problems = _entry(node)
        wrong += [f"{file}:{line}: {what}" for line, what in problems]
        if entry is None:
            continue
        first = found.setdefault(entry.type.name, (entry, _line(node)))[1]
        if first != _line(node):
            wrong.append(f"{file}:{_line(node)}: {entry.type.name}: it stands in line {first} already")
    if wrong:
        raise InvalidFile(wrong)
    return [entry for entry, _ in found.values()]


def _entry(node: yaml.Node) -> tuple[Entry | None, list[tuple[int, str]]]:
    """The job type, or its problems with their line numbers."""
    if not isinstance(node, yaml.MappingNode):
        return None, [(_line(node), "a job type has to be fields with values: name: ...")]
    given = yaml.SafeLoader("")
    fields: dict[str, Any] = {}
    lines: dict[str, int] = {}
    wrong: list[tuple[int, str]] = []
    for key, value in node.value:
        name = str(given.construct_object(key, deep=True))
        if name not in FIELDS:
            wrong.append((_line(key), f"{name}: there is no such field{suggestion(name, FIELDS)}"))
        elif name in fields:
            wrong.append((_line(key), f"{name}: it stands in line {lines[name]} already"))
        else:
            fields[name], lines[name] = given.construct_object(value, deep=True), _line(key)
    called = f"{fields['name']}: " if isinstance(fields.get("name"), str) else ""
    try:
        entry = Entry(JobType.model_validate(fields), "disabled" in fields)
    except ValidationError as error:
        wrong += [(lines.get(_field(each, lines), _line(node)), each) for each in problems(error)]
    else:
        if not wrong:
            return entry, []
    return None, [(line, called + what) for line, what in sorted(wrong)]


def _field(problem: str, given: Container[str]) -> str:
    name = problem.partition(":")[0].partition(".")[0]
    return name if name in given else "doubt"  # which may hold two values


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _plain(type_: JobType) -> dict[str, Any]:
    """Its fields as a person writes them."""
    given: dict[str, Any] = {}
    for name in FIELDS:
        value = getattr(type_, name)
        if value != _DEFAULTS[name]:
            given[name] = _value(value)
    of_doubt = {"dedupe": "remembers", "lookup": "status_url"}.get(type_.doubt)
    if of_doubt is not None:
        given["doubt"] = f"{type_.doubt}:{given.pop(of_doubt)}"
    return given


def _value(value: Any) -> Any:
    return written(value) if isinstance(value, timedelta) else list(value) if isinstance(value, tuple) else value
