"""The application: which lifecycles run, and which bodies perform their effects."""

from activities.mail_log import find_in_mail_log
from activities.message_id import lifespan
from activities.smtp import send_mail
from perdure.app import App
from workflows.comment_notification import CommentNotification

app = App(lifecycles=[CommentNotification], effects=[send_mail, find_in_mail_log], lifespan=lifespan)
