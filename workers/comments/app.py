"""The application: which lifecycles run, and which bodies perform their effects."""

from activities.mail.log_check import check_server_log
from activities.mail.mail_log import find_in_mail_log
from activities.mail.message_id import lifespan
from activities.mail.smtp import send_mail
from perdure import App
from workflows.comments.comment_notification import CommentNotification

app = App(
    lifecycles=[CommentNotification],
    effects=[send_mail, find_in_mail_log],
    lifespan=lifespan,
    checks=[check_server_log],
)
