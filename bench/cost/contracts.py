"""The application's contracts twice: with the effect as an activity, and inline."""

from datetime import timedelta

from activities.mail.contracts.mail import mail_contracts

SEND, FIND = mail_contracts(timeout=timedelta(seconds=20), visibility_delay=timedelta(seconds=30))
SEND_INLINE, FIND_INLINE = mail_contracts(
    timeout=timedelta(seconds=5), visibility_delay=timedelta(seconds=30), inline=True
)
