"""Settings of the outside systems, from the environment: `PERDURE_MAIL_HOST`.

A worker reads them once, when it imports the bodies: with a wrong one it does not start, and says which in one line.
"""

from activities.settings.mail import MailSettings, StartTls, mail_settings

__all__ = [
    "MailSettings",
    "StartTls",
    "mail_settings",
]
