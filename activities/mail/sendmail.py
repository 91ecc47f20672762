"""Pipes a mail to `sendmail`: one process, one recipient, no retry of its own; and looks a mail up.

The mail is handed over when the program ends with 0. It may go on when the worker is gone, but not past the attempt's
deadline.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
from concurrent.futures import Future
from contextlib import ExitStack
from subprocess import STDOUT, Popen
from tempfile import TemporaryFile
from threading import Thread
from typing import IO

from activities.mail.contracts.mail import Accepted, Mail
from activities.mail.contracts.sendmail import FIND_SENT_MAIL, SENDMAIL
from activities.mail.mail_log import ask_log
from activities.mail.mail_queue import QueueAnswer, QueueUnusable, ask_queue
from activities.mail.message import message_bytes, wire_address
from activities.mail.settings import mail_settings
from activities.mail.smtp_outcomes import OURS_PAUSE, masked, outcome
from activities.mail.sysexits import verdict_of_status
from perdure import Attempt, LookupContext, NotDone

_NEEDED = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "MAIL_CONFIG")
"""The environment of the program, without the worker's secrets."""
_MOST = 4096  # bytes of the end of the output that are read


@SENDMAIL.performs
async def send_by_sendmail(mail: Mail, attempt: Attempt) -> Accepted:
    """Pipe `mail` to the program, with a Message-ID made of the key.

    Raises:
        NotDone: it did not take the mail, or could not be run.
        Refused: it will not take this mail; see `sysexits`.
        InDoubt: a signal ended it, as at the attempt's deadline, or its exit status decides nothing.
    """
    settings = mail_settings()
    content = message_bytes(mail, attempt.key, attempt.first_at, settings.message_id_domain)
    program, *options = shlex.split(settings.sendmail)
    command = [_runnable(program, "see PERDURE_MAIL_SENDMAIL"), *options, "-f", wire_address(mail.sender)]
    with ExitStack() as files:
        try:
            message, output = files.enter_context(TemporaryFile()), files.enter_context(TemporaryFile())
            # Whole before the process exists, and no pipe: when a worker dies that writes into a pipe, the
            # program takes the end of it for the end of the mail, and sends the half.
            message.write(content.replace(b"\r\n", b"\n"))  # Unix programs expect Unix line ends
            message.seek(0)
            process = _started(command, message, output, attempt)
        except OSError as error:
            raise NotDone(f"{program} could not be started: {error.strerror}") from error
        # If this wait is cancelled, the program continues: most likely it hands the mail over, and a look-up finds it.
        status = await _end_of(process)
        words = _last_words(output, mail)
    if status == 0:
        return Accepted(queue_id="", reply=words)
    what, verdict = verdict_of_status(status)
    raise outcome(verdict, f"{program} {what}: {words}".removesuffix(": "))


@FIND_SENT_MAIL.answers
async def find_sent_mail(mail: Mail, question: LookupContext) -> Accepted | None:
    """The receipt of a mail that Postfix has, or had; None if it certainly never had it.

    Raises:
        LogUnusable, QueueUnusable: if one of them can't answer and the other does not show the mail.
    """
    # The queue first: a mail that leaves it meanwhile is in the log by then. In the other order, both could miss it.
    waiting, unanswered = QueueAnswer(None), None
    try:
        waiting = await ask_queue(mail, question)
    except QueueUnusable as error:
        unanswered = error
    found = waiting.receipt or await ask_log(mail, question, waiting.unread)
    if found is None and unanswered is not None:
        raise unanswered
    return found


def _started(command: list[str], message: IO[bytes], output: IO[bytes], attempt: Attempt) -> Popen[bytes]:
    """The program, running until its end or the attempt's deadline, also when this process is killed or frozen."""
    keeper = _runnable("timeout", "it is in the package coreutils")
    environment = {name: os.environ[name] for name in _NEEDED if name in os.environ}
    limit = attempt.remaining
    attempt.before_first_byte()
    # Not a process of asyncio, which from Python 3.12 kills it when the loop is closed: that would be `timeout` alone,
    # and the program would be left without a deadline.
    return Popen(
        # By SIGKILL, which no program can put off (invariant 5); 0 would mean without limit. It makes a process
        # group of its own, so that no Ctrl-C and no signal to ours tears a mail apart.
        [keeper, "-s", "KILL", f"{max(limit, 0.001):.3f}", *command],
        stdin=message,
        stdout=output,
        stderr=STDOUT,
        env=environment | {"LC_ALL": "C"},
    )


async def _end_of(process: Popen[bytes]) -> int:
    """Its exit status; negative if a signal ended it."""
    ended: Future[int] = Future()
    ended.set_running_or_notify_cancel()  # so that a wait that is cancelled leaves it alone
    # A daemon, so that a worker can stop before the program does.
    Thread(target=lambda: ended.set_result(process.wait()), name=f"wait for process {process.pid}", daemon=True).start()
    return await asyncio.wrap_future(ended)


def _runnable(program: str, hint: str) -> str:
    if (found := shutil.which(program)) is None:
        raise NotDone(f"no program {program} that can be run: {hint}", retry_after=OURS_PAUSE)
    return found


def _last_words(output: IO[bytes], mail: Mail) -> str:
    """The last line of the program's output, without addresses."""
    output.seek(max(output.seek(0, os.SEEK_END) - _MOST, 0))
    lines = output.read().decode(errors="replace").split("\n")
    last = next((line for line in reversed(lines) if line.strip()), "")
    return masked(last, mail.sender, mail.recipient)
