"""The application of mails that are piped to `sendmail`: one lifecycle, and the bodies of its effects."""

from activities.mail.log_check import check_mail_log
from activities.mail.message_id import lifespan
from activities.mail.sendmail import find_sent_mail, send_by_sendmail
from perdure import App
from workflows.mail.mailing import Mailing

app = App(
    lifecycles=[Mailing],
    effects=[send_by_sendmail, find_sent_mail],
    lifespan=lifespan,
    checks=[check_mail_log],
)
