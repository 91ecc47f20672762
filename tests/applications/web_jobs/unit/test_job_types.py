"""The command line, a file and a row check a job type with the same model and the same one-line errors."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from activities.web_jobs import urls
from activities.web_jobs.job_type import JobType, problems
from workers.web_jobs.job_types.file import Entry, InvalidFile, read, write

GIVEN = {"name": "page", "url": "https://host/page"}


def said(**fields: Any) -> str:
    """What is said of a job type that can't be used."""
    with pytest.raises(ValidationError) as caught:
        JobType.model_validate(GIVEN | fields)
    return "\n".join(problems(caught.value))


@pytest.mark.parametrize(
    ("url", "names"),
    [
        ("https://old/dobillingstuff?rowid={rowid}", ["rowid"]),
        ("http://127.0.0.1:8080", []),
        ("https://[::1]:8443/a/{b}{?c,d*}{&e:3}", ["b", "c", "d", "e"]),
        ("https://host?a={a.b}", ["a.b"]),
        ("https://host/{path}/x", ["path"]),
    ],
)
def test_a_url_is_a_template_whose_params_are_known(url: str, names: list[str]) -> None:
    assert urls.names(JobType.model_validate(GIVEN | {"url": url}).url) == names


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("ftp://host/", "does not begin with http"),
        ("host/page", "does not begin with http"),
        ("https:///page", "no usable host"),
        ("https://host:99999/", "no usable host"),
        ("https://host:/", "no usable host"),
        ("https://{host}/", "template in its origin"),
        ("https://host{/path}", "template in its origin"),
        ("https://host/a b", "percent-encode"),
        ("https://host/ä", "percent-encode"),
        ("https://host\\@evil/", "names a user"),
        ("https://host\\evil/", "percent-encode"),
        ("https://host/#top", "fragment"),
        ("https://host/{#top}", "RFC 6570"),
        ("https://host/{a", "other half"),
        ("https://host/a}", "other half"),
        ("https://host/{}", "RFC 6570"),
        ("https://host/{a:x}", "RFC 6570"),
        ("https://host/{a,,b}", "RFC 6570"),
        ("https://host/" + "a" * 4000, "longer than 4,000"),
    ],
)
def test_a_url_that_cannot_be_called_is_refused(url: str, why: str) -> None:
    assert why in said(url=url)
    assert why in said(doubt=f"lookup:{url}")


def test_a_password_in_a_url_is_not_repeated() -> None:
    for url in ("https://ann:secret@host/", "https://ann:secret@host/a b", "https://ann:secret@{host}/#x"):
        assert said(url=url) == "url: it names a user: send a header, or sign the calls (signed_with)"


def test_a_value_that_may_be_a_secret_is_not_printed() -> None:
    told = said(signed_with="whsec_c2VjcmV0", headers={"x-a": "hushed\n"})
    assert "c2VjcmV0" not in told
    assert "hushed" not in told


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"timeout": 30}, "timeout: 30 is no duration: write 90s, 10m, 2h or 3d"),
        ({"timeout": "2h"}, "timeout: 2h is not between 0.1s and 1h"),
        ({"within": "0s"}, "within: 0s is not between 1s and 3650d"),
        ({"doubt": "dedupe"}, "doubt: say for how long the page remembers a key: dedupe:24h"),
        (
            {"doubt": "dedupe:90s"},
            "remembers: 90s leaves no time for a second call: more than timeout, 30s, and a minute",
        ),
        ({"doubt": "lookup"}, "doubt: say where the page can be asked: lookup:https://host/status?key={key}"),
        ({"doubt": "maybe:1"}, "doubt: 'maybe:1' is none of dedupe:24h, lookup:URL, repeat, escalate"),
        ({"doubt": "dedupe:24h", "remembers": "2h"}, "doubt: 'dedupe:24h' contains remembers, which is given as well"),
        (
            {"headers": {"Idempotency-key": "x"}},
            "headers: Idempotency-key is set by perdure, or by the client, for each call",
        ),
        ({"headers": {"Signature": "x"}}, "headers: Signature is set by perdure, or by the client, for each call"),
        ({"headers": {"a": "1", "A": "2"}}, "headers: one header is given twice: names differ in more than their case"),
        ({"name": "Page"}, "name: 1 to 63 of a-z 0-9 . _ -, of which the first is a letter or digit"),
        ({"timout": "30s"}, "timout: there is no such field"),
    ],
)
def test_an_unusable_field_is_named_in_one_line(fields: dict[str, Any], why: str) -> None:
    assert said(**fields) == why


def test_the_short_form_of_a_policy_says_two_things() -> None:
    deduped = JobType.model_validate(GIVEN | {"doubt": "dedupe:24h"})
    asked = JobType.model_validate(GIVEN | {"doubt": "lookup:https://host/s?k={key}"})
    assert (deduped.doubt, deduped.remembers) == ("dedupe", timedelta(days=1))
    assert (asked.doubt, asked.status_url) == ("lookup", "https://host/s?k={key}")


WRITTEN = """\
- name: send-invoice
  url: https://billing/jobs/send-invoice?row={row}
  method: PUT
  headers:
    X-Tenant: '7'
  timeout: 0.25s
  within: 90m
  doubt: lookup:https://billing/status?key={key}
  visibility_delay: 5s
  otherwise: repeat
  not_done:
  - 503
  - 599
  tries: 3
  at_once: 2
  signed_with: env:NEW file:/run/old
  callback: true
  disabled: under repair
- name: other
  url: https://old/page
  doubt: dedupe:1d
  status_url: https://old/status
"""


def test_a_written_file_is_read_as_the_same_job_types() -> None:
    entries = read(WRITTEN, "x")
    assert [each.says_disabled for each in entries] == [True, False]
    assert write(each.type for each in entries) == WRITTEN
    assert read(write([]), "x") == []


def test_all_that_is_wrong_with_a_file_is_said_with_its_lines() -> None:
    wrong = """\
- name: send-invoice
  url: https://billing/jobs
  timout: 30s
  headers: {Host: x}
- name: second
  url: https://billing/{a b}
  doubt: dedupe:10s
- name: second
  url: https://billing/
  url: https://billing/
- nothing
- name: good
  url: https://billing/
- name: good
  url: https://billing/
"""
    with pytest.raises(InvalidFile) as caught:
        read(wrong, "types.yaml")
    assert [line.partition(": ")[0] + ": " + line.split(": ", 2)[2][:24] for line in caught.value.lines] == [
        "types.yaml:3: timout: there is no such",
        "types.yaml:4: headers: Host is set by ",
        "types.yaml:6: url: 'https://billing/{a",
        "types.yaml:10: url: it stands in line 9",
        "types.yaml:11: name: ...",
        "types.yaml:14: it stands in line 12 alr",
    ]
    assert "did you mean 'timeout'?" in caught.value.lines[0]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("types: []", "f:1: it has to be a list of job types"),
        ("- [", "f:1: it is no YAML"),
        ("- name: a\n  url: !!python/object/apply:os.getcwd []\n", "f:2: it is no YAML: could not determine"),
        ("\x00", "f: it is no YAML"),
    ],
)
def test_a_file_without_a_list_of_job_types_is_refused(text: str, why: str) -> None:
    with pytest.raises(InvalidFile, match=f"^{why}"):
        read(text, "f")


def test_an_empty_file_says_nothing_of_any_type() -> None:
    assert read("", "f") == read("# nothing yet\n", "f") == []


def test_a_type_says_if_it_is_disabled_only_where_the_field_stands() -> None:
    [silent, enabled] = read("- {name: a, url: https://h/}\n- {name: b, url: https://h/, disabled: }\n", "f")
    assert (silent, enabled.says_disabled) == (Entry(silent.type, False), True)
    assert enabled.type.disabled is None
