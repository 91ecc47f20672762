"""`sendmail` gets a mail whole or not at all, and its exit status decides the outcome of the attempt."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
import tempfile
from email import message_from_bytes
from pathlib import Path

import psutil
import pytest

from activities.mail.contracts.mail import Accepted, Mail
from activities.mail.message import message_bytes
from activities.mail.sendmail import send_by_sendmail
from activities.mail.settings import mail_settings
from activities.mail.smtp_outcomes import OURS_PAUSE, Verdict
from activities.mail.sysexits import TABLE
from perdure import Attempt, InDoubt, NotDone, Refused
from perdure.errors import InvalidSetting
from tests.applications.mail.fixtures import LETTER, attempt, settings
from tests.deadline import DEADLINE, until
from tests.mail_secret import token_of

ROOT = Path(__file__).parents[4]


def script(folder: Path, body: str) -> str:
    """A `sendmail` that runs `body` in a shell, in `folder`; the command that the setting wants."""
    program = folder / "sendmail"
    program.write_text(f"#!/bin/sh\ncd {shlex.quote(str(folder))}\n{body}\n")
    program.chmod(0o755)
    return f"{shlex.quote(str(program))} -i -t"


async def verdict_of(command: str, given: Attempt | None = None, mail: Mail = LETTER) -> tuple[Verdict | None, str]:
    """What piping a mail to `command` comes to, and why; None = accepted."""
    with settings(sendmail=command):
        try:
            async with asyncio.timeout(DEADLINE):
                return None, (await send_by_sendmail(mail, given or attempt())).reply
        except NotDone as no:
            return {None: Verdict.AGAIN, OURS_PAUSE: Verdict.OURS}[no.retry_after], no.why
        except Refused as no:
            return Verdict.REFUSED, no.why
        except InDoubt as doubt:
            return Verdict.DOUBT, doubt.why


async def test_the_whole_mail_is_piped_and_says_which_it_is(tmp_path: Path) -> None:
    mail = LETTER.model_copy(update={"body": "Grüße\n.\nafter a lone dot\n" + "x" * 300_000})
    sent = attempt()
    assert await verdict_of(script(tmp_path, 'cat > mail; echo "$@" > arguments'), sent, mail) == (None, "")
    piped = (tmp_path / "mail").read_bytes()
    assert piped == message_bytes(mail, sent.key, sent.first_at).replace(b"\r\n", b"\n")
    assert message_from_bytes(piped)["message-id"] == f"<{token_of(sent.key)}@app.example>"
    assert (tmp_path / "arguments").read_text() == "-i -t -f news@app.example\n"


async def test_a_mail_that_was_taken_has_a_receipt_without_addresses(tmp_path: Path) -> None:
    with settings(sendmail=script(tmp_path, "echo 'mail to jo.doe@reader.example waits' >&2")):
        assert await send_by_sendmail(LETTER, attempt()) == Accepted(queue_id="", reply="mail to <...> waits")


MEANINGS = {
    Verdict.AGAIN: (os.EX_TEMPFAIL, os.EX_OSERR),
    Verdict.OURS: (
        *(os.EX_USAGE, os.EX_NOINPUT, os.EX_NOHOST, os.EX_OSFILE, os.EX_CANTCREAT, os.EX_NOPERM, os.EX_CONFIG),
    ),
    Verdict.REFUSED: (os.EX_DATAERR, os.EX_NOUSER, os.EX_UNAVAILABLE),
    Verdict.DOUBT: (os.EX_SOFTWARE, os.EX_IOERR, os.EX_PROTOCOL, 1, 2, 63, 79, 125, 126, 127, 128),
}


@pytest.mark.parametrize(
    ("status", "expected"), [(status, verdict) for verdict, statuses in MEANINGS.items() for status in statuses]
)
async def test_each_exit_status_means_what_is_documented(tmp_path: Path, status: int, expected: Verdict) -> None:
    name = TABLE[status][0] if status in TABLE else "which sysexits.h does not name"
    verdict, why = await verdict_of(script(tmp_path, f"cat > /dev/null; exit {status}"))
    assert (verdict, why) == (expected, f"{tmp_path}/sendmail ended with {status} ({name})")


def test_the_statuses_are_those_of_sysexits() -> None:
    assert {status: name for status, (name, _) in TABLE.items()} == {
        getattr(os, name): name for name in dir(os) if name.startswith("EX_") and name not in ("EX_OK", "EX_NOTFOUND")
    }


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGXFSZ])
async def test_a_program_that_a_signal_ended_may_have_taken_the_mail(tmp_path: Path, number: signal.Signals) -> None:
    verdict, why = await verdict_of(script(tmp_path, f"cat > /dev/null; kill -{number.value} $$"))
    assert verdict is Verdict.DOUBT
    assert f"was ended by {number.name}" in why


async def test_the_last_line_that_it_says_is_told_without_addresses(tmp_path: Path) -> None:
    lines = "postdrop: warning: x\\nsendmail: fatal: jo.doe@reader.example (jo.doe): no room\\n\\n"
    verdict, why = await verdict_of(script(tmp_path, f"printf '{lines}' >&2; exit 75"))
    assert verdict is Verdict.AGAIN
    assert why.endswith("ended with 75 (EX_TEMPFAIL): sendmail: fatal: <...> (<...>): no room")


@pytest.mark.parametrize("there", [False, True])
async def test_a_program_that_can_not_be_run_has_not_sent_it_and_the_setting_is_named(
    tmp_path: Path, there: bool
) -> None:
    program = tmp_path / "sendmail"
    if there:
        program.write_text("#!/bin/sh\n")
    expected = f"no program {program} that can be run: see PERDURE_MAIL_SENDMAIL"
    assert await verdict_of(f"{program} -i -t") == (Verdict.OURS, expected)


@pytest.mark.parametrize(
    ("name", "command", "why"),
    [("SENDMAIL", "sendmail -o 'x", "can't be taken apart"), ("POSTQUEUE", " ", "names no program")],
)
def test_a_worker_with_a_command_that_can_not_be_read_does_not_start(name: str, command: str, why: str) -> None:
    with settings(**{name.lower(): command}), pytest.raises(InvalidSetting, match=f"PERDURE_MAIL_{name}: {why}"):
        mail_settings()


async def test_without_the_program_that_keeps_the_deadline_nothing_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = script(tmp_path, "echo > sent")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert await verdict_of(command) == (
        Verdict.OURS,
        "no program timeout that can be run: it is in the package coreutils",
    )
    assert not (tmp_path / "sent").exists()


async def test_without_room_for_the_message_nothing_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = script(tmp_path, "echo > sent")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    verdict, why = await verdict_of(command)
    assert (verdict, (tmp_path / "sent").exists()) == (Verdict.AGAIN, False)
    assert why == f"{tmp_path}/sendmail could not be started: No such file or directory"


async def test_past_its_deadline_nothing_is_started(tmp_path: Path) -> None:
    verdict, _ = await verdict_of(script(tmp_path, "echo > sent"), attempt(0))
    assert (verdict, (tmp_path / "sent").exists()) == (Verdict.AGAIN, False)


async def test_a_program_that_hangs_is_killed_at_the_deadline(tmp_path: Path) -> None:
    command = script(tmp_path, "trap '' TERM INT HUP; echo $$ > pid; sleep 1000")
    seconds = 0.3
    while not (tmp_path / "pid").exists():  # a busy machine needs more time to run it
        sent = attempt(seconds)
        verdict, why = await verdict_of(command, sent)
        assert (verdict, "was ended by SIGKILL" in why) == (Verdict.DOUBT, True)
        assert sent.remaining == 0.0
        seconds *= 2
    await until(lambda: _is_gone(tmp_path / "pid"), "its end")


async def test_a_program_is_told_nothing_of_our_own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_DATABASE_URL", "postgresql://app:secret@localhost/shop")
    monkeypatch.setenv("TEMPORAL_API_KEY", "secret")
    monkeypatch.setenv("MAIL_CONFIG", "/etc/postfix-out")
    assert await verdict_of(script(tmp_path, "env > environment")) == (None, "")
    told = (tmp_path / "environment").read_text()
    assert ("secret" in told, "MAIL_CONFIG=/etc/postfix-out\n" in told) == (False, True)


async def test_a_program_under_way_when_the_wait_is_given_up_goes_on_to_its_end(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    with settings(sendmail=script(tmp_path, "echo > begun; read x < gate; cat > mail")):
        sending = asyncio.create_task(send_by_sendmail(LETTER, attempt(DEADLINE)))
        await until((tmp_path / "begun").exists, "the program runs")
        sending.cancel()
        await asyncio.wait({sending})
        assert sending.cancelled()
        await asyncio.to_thread((tmp_path / "gate").write_text, "go\n")
        await until(lambda: (tmp_path / "mail").exists() and b"Hello" in (tmp_path / "mail").read_bytes(), "the mail")


WORKER = """
import asyncio, sys
if sys.version_info < (3, 12):  # how later versions watch processes
    asyncio.set_child_watcher(asyncio.PidfdChildWatcher())
from activities.mail.sendmail import send_by_sendmail
from activities.mail.settings import mail_settings
from perdure.contracts import Key
from tests.applications.mail.fixtures import LETTER, attempt
mail = LETTER.model_copy(update={"body": "x" * 900_000})
asyncio.run(send_by_sendmail(mail, attempt(6.0, Key(sys.argv[1]))))
"""


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
async def test_a_worker_that_ends_in_the_middle_leaves_no_torn_mail_and_no_program_past_the_deadline(
    tmp_path: Path, end: signal.Signals
) -> None:
    """The program has read no byte when the worker is killed or stops; then it reads, and hangs."""
    os.mkfifo(tmp_path / "gate")
    command = script(tmp_path, "echo $$ > pid; read x < gate; cat > part; mv part mail; exec sleep 1000")
    worker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", WORKER, str(attempt().key)),
        env={**os.environ, "PERDURE_MAIL_SENDMAIL": command},
        cwd=ROOT,
        start_new_session=True,
    )
    await until(lambda: "\n" in _text(tmp_path / "pid"), "the program runs")
    os.killpg(worker.pid, end)  # and whatever else is in its process group
    await worker.wait()
    await asyncio.to_thread((tmp_path / "gate").write_text, "go\n")
    await until((tmp_path / "mail").exists, "what the program made of it")
    assert (tmp_path / "mail").read_bytes().count(b"x") >= 900_000
    await until(lambda: _is_gone(tmp_path / "pid"), "the program's end")


def _text(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def _is_gone(file: Path) -> bool:
    """Whether the process has ended whose number is in `file`; a zombie only waits to be counted."""
    try:
        return psutil.Process(int(file.read_text())).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
