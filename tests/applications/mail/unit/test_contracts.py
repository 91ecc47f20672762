"""The contracts of mail: durations that a deployment can set, and nothing that talks to a network."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta

import pytest

from activities.mail.contracts.mail import mail_contracts
from perdure import AskFirst

SHOW = """
import sys
from activities.mail.contracts.mail import FIND_IN_MAIL_LOG, SEND_MAIL
doubt = SEND_MAIL.doubt
print(SEND_MAIL.timeout.total_seconds(), doubt.visibility_delay.total_seconds(), SEND_MAIL.lookup is FIND_IN_MAIL_LOG)
print(sorted({"aiosmtplib", "smtplib"} & set(sys.modules)))
"""


def imported(**environment: str) -> subprocess.CompletedProcess[str]:
    """What a new process sees of the contracts."""
    given = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_MAIL_")}
    return subprocess.run(
        [sys.executable, "-c", SHOW], env=given | environment, capture_output=True, text=True, check=False
    )


def test_the_durations_come_from_the_environment_and_importing_them_loads_no_mail_client() -> None:
    assert imported().stdout == "20.0 30.0 True\n[]\n"
    assert imported(PERDURE_MAIL_TIMEOUT="3", PERDURE_MAIL_VISIBILITY_DELAY="0.5").stdout == "3.0 0.5 True\n[]\n"


@pytest.mark.parametrize("value", ["soon", "0", "-1", "nan", "1e300"])
def test_a_duration_that_can_not_be_used_is_told_in_one_line(value: str) -> None:
    ended = imported(PERDURE_MAIL_TIMEOUT=value)
    assert ended.returncode != 0
    assert ended.stderr.strip().splitlines()[-1] == (
        f"perdure.errors.InvalidSetting: PERDURE_MAIL_TIMEOUT={value!r}: give seconds above zero, such as 20"
    )


def test_a_pair_can_be_made_for_running_inline() -> None:
    effect, find = mail_contracts(timeout=timedelta(seconds=3), visibility_delay=timedelta(seconds=1), inline=True)
    assert (effect.inline, find.inline, effect.lookup) == (True, True, find)
    assert isinstance(effect.doubt, AskFirst)
    assert effect.doubt.visibility_delay == timedelta(seconds=1)
