"""For `perdure doctor`: whether the mail log can be read here, by which doubts are settled."""

from __future__ import annotations

import getpass
import shlex

from activities.mail.settings import mail_settings
from perdure.contracts import Problem


def check_server_log() -> list[Problem]:
    """For mail by SMTP: the same, and whether the log is that of the mail server."""
    settings = mail_settings()
    if not settings.logs_here:
        what = f"it is not known where the mail server {settings.host} logs: each mail in doubt waits for a person"
        return [Problem(what, "export PERDURE_MAIL_LOG=FILE, if its log can be read here")]
    return check_mail_log()


def check_mail_log() -> list[Problem]:
    """The obstacle to look-ups in the mail log, if any. With one, each doubt would wait for a person."""
    log = mail_settings().log
    try:
        with log.open("rb") as opened:
            opened.read(1)
    except PermissionError:
        what = f"the mail log {log} can't be read by {getpass.getuser()}: each mail in doubt waits for a person"
        return [Problem(what, f"adduser {shlex.quote(getpass.getuser())} adm, if Debian's Postfix writes it")]
    except OSError as error:
        what = f"there is no mail log at {log} ({error.strerror}): each mail in doubt waits for a person"
        return [Problem(what, "export PERDURE_MAIL_LOG=FILE")]
    return []
