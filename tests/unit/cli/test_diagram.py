"""`perdure diagram` prints a lifecycle as Mermaid, whatever its states are called."""

from __future__ import annotations

from enum import StrEnum

from temporalio import workflow
from typer.testing import CliRunner

from perdure import Lifecycle, state
from perdure._operations.diagram import diagram
from perdure.cli import cli

NOTIFICATION = """\
---
title: "comment-notification"
---
stateDiagram-v2
    s0 : pending
    s1 : sending (at most 5 min)
    s2 : sent
    s3 : error (needs a person)
    s4 : cancelled (when cancelled)
    [*] --> s0
    s0 --> s1
    s0 --> s2
    s0 --> s3
    s0 --> s4
    s1 --> s2
    s1 --> s3
    s1 --> s4
    s2 --> [*]
    s3 --> s1
    s3 --> s2
    s3 --> s4
    s4 --> [*]
    note right of s0
        effect send-mail, in doubt AskFirst by find-in-mail-log, otherwise Escalate
    end note
    classDef attention stroke-dasharray: 4 3
    class s3 attention
"""


class Odd(StrEnum):
    """Names that mean something in Mermaid."""

    END = "end"
    MARKS = state('a: "x" --> [*]', final=True)


@workflow.defn(name="null")
class Awkward(Lifecycle[str, Odd]):
    """Its name means something in YAML."""

    @workflow.run
    async def run(self, given: str) -> None:
        """Never run."""


def test_a_lifecycle_is_drawn_with_its_states_and_effects() -> None:
    end = CliRunner().invoke(cli, ["diagram", "comment-notification", "--app", "workers.comments.app:app"])
    assert (end.exit_code, end.stdout) == (0, NOTIFICATION)


def test_no_name_is_taken_for_syntax_and_a_state_can_be_marked() -> None:
    assert diagram(Awkward, "end") == (
        '---\ntitle: "null"\n---\nstateDiagram-v2\n    s0 : end\n'
        "    s1 : a#58; #34;x#34; --#62; #91;#42;#93;\n    [*] --> s0\n    s0 --> s1\n    s1 --> [*]\n"
        "    classDef here stroke-width:4px,font-weight:bold\n    class s0 here\n"
    )


def test_an_unknown_lifecycle_is_refused_with_what_was_perhaps_meant() -> None:
    end = CliRunner().invoke(cli, ["diagram", "comment-notifcation", "--app", "workers.comments.app:app"])
    assert (end.exit_code, end.stdout) == (2, "")
    assert end.stderr == (
        "perdure: no lifecycle is named 'comment-notifcation'; did you mean 'comment-notification'? [PERDURE-1102]\n"
    )
