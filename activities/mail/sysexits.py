"""The outcome of the mail for each exit status of a `sendmail` program: one table for all of them.

Sources: sysexits.h (4.4BSD), which names them; Postfix's global/sys_exits.c, which marks each as for later (4.x.x)
or for good (5.x.x); sendmail(1) of Postfix, whose program in fact ends with 0 or 75 only.
"""

from __future__ import annotations

import signal
from typing import Final

from activities.mail.smtp_outcomes import Verdict

# REFUSED only where the status speaks of this mail: refusing each mail for a wrong setting would turn one mistake into
# thousands of mails that somebody has to send again. DOUBT where something went wrong after it may have been taken.
TABLE: Final[dict[int, tuple[str, Verdict]]] = {
    64: ("EX_USAGE", Verdict.OURS),  # arguments that it does not know
    65: ("EX_DATAERR", Verdict.REFUSED),  # 5.6.0: the mail's form
    66: ("EX_NOINPUT", Verdict.OURS),
    67: ("EX_NOUSER", Verdict.REFUSED),  # 5.1.1
    68: ("EX_NOHOST", Verdict.OURS),  # the recipient's domain, or with a program such as msmtp our own mail server
    69: ("EX_UNAVAILABLE", Verdict.REFUSED),  # 5.3.0: refused for good, such as a mail that is too big
    70: ("EX_SOFTWARE", Verdict.DOUBT),  # a bug of its own, at whatever place
    71: ("EX_OSERR", Verdict.AGAIN),  # 4.3.0: no process, no memory
    72: ("EX_OSFILE", Verdict.OURS),
    73: ("EX_CANTCREAT", Verdict.OURS),
    74: ("EX_IOERR", Verdict.DOUBT),  # such as a connection that broke, at whatever place
    75: ("EX_TEMPFAIL", Verdict.AGAIN),  # 4.x.x; Postfix: whatever kept the mail out of the queue
    76: ("EX_PROTOCOL", Verdict.DOUBT),  # an answer that it did not understand
    77: ("EX_NOPERM", Verdict.OURS),  # this user may not send here
    78: ("EX_CONFIG", Verdict.OURS),
}


def verdict_of_status(status: int) -> tuple[str, Verdict]:
    """The end of the program in a few words, and the outcome of the mail.

    Args:
        status: other than 0; above 128, or below 0, a signal ended it (POSIX, 2.8.2).
    """
    number = status - 128 if status > 128 else -status
    if number > 0:
        known = number in {each.value for each in signal.Signals}
        return f"was ended by {signal.Signals(number).name if known else f'signal {number}'}", Verdict.DOUBT
    name, verdict = TABLE.get(status, ("which sysexits.h does not name", Verdict.DOUBT))
    return f"ended with {status} ({name})", verdict
