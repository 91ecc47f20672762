"""What the Message-IDs of all mails in tests are made with."""

from activities.mail.message_id import token_with
from perdure.contracts import Key

MAIL_SECRET = "a-secret-that-only-the-workers-of-tests-have"


def token_of(key: Key) -> str:
    """What is before the @ of a Message-ID."""
    return token_with(MAIL_SECRET, key)
