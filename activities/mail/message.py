"""A mail as bytes: the same for every attempt, on every worker, today and after a restart.

Written out by hand: a library chooses dates, ids and boundaries anew, and folds or encodes a long Message-ID.
"""

import quopri
from datetime import UTC, datetime
from email.header import Header
from email.utils import format_datetime, quote

from activities.mail.contracts.addresses import ascii_domain
from activities.mail.contracts.mail import Mail
from activities.mail.message_id import token_of
from perdure.contracts import Key


def message_bytes(mail: Mail, key: Key, first_at: datetime, domain: str | None = None) -> bytes:
    """`mail` in the form of RFC 5322, 7 bit unless an address needs SMTPUTF8.

    Args:
        key: the Message-ID is made of it, by which queue and log are searched.
        first_at: when the first attempt began; becomes `Date:`.
        domain: right side of the Message-ID; by default the sender's domain.

    Raises:
        NotDone: there is no secret to make the Message-ID with.
    """
    head = {
        "Message-ID": message_id(mail, key, domain),
        "Date": format_datetime(first_at.astimezone(UTC)),
        "From": _mailbox(mail.sender_name, mail.sender),
        "To": wire_address(mail.recipient),
        "Subject": _words("Subject", mail.subject),
        "MIME-Version": "1.0",
        "Content-Type": 'text/plain; charset="utf-8"',
        "Content-Transfer-Encoding": "quoted-printable",
        **mail.headers,
    }
    if mail.reply_to is not None:
        head["Reply-To"] = wire_address(mail.reply_to)
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    return lines.encode() + b"\r\n" + _quoted_printable(mail.body)


def message_id(mail: Mail, key: Key, domain: str | None = None) -> str:
    """`<token@domain>`; look-ups search for the token alone, so that `domain` may change between attempts."""
    return f"<{token_of(key)}@{domain or ascii_domain(mail.sender.rpartition('@')[2])}>"


def wire_address(address: str) -> str:
    """`address` with its domain in ASCII, so that only a non-ASCII local part needs SMTPUTF8."""
    local, _, domain = address.rpartition("@")
    return f"{local}@{ascii_domain(domain)}"


def needs_smtputf8(mail: Mail) -> bool:
    """Whether an address of `mail` can't be written in ASCII (RFC 6531)."""
    addresses = (mail.sender, mail.recipient, mail.reply_to or "")
    return not all(address.rpartition("@")[0].isascii() for address in addresses)


def _mailbox(name: str | None, address: str) -> str:
    if not name:
        return wire_address(address)
    shown = f'"{quote(name)}"' if _is_read_as_written(name) else _words("From", name)
    return f"{shown} <{wire_address(address)}>"


def _words(header: str, text: str) -> str:
    """`text` folded, and as encoded words (RFC 2047) where it would not be read as it is."""
    charset = "us-ascii" if _is_read_as_written(text) else "utf-8"
    return Header(text, charset, header_name=header).encode(linesep="\r\n")


def _is_read_as_written(text: str) -> bool:
    """Whether `text` is ASCII and has no begin of an encoded word, which a recipient would see decoded, also between
    quotation marks."""
    return text.isascii() and "=?" not in text


def _quoted_printable(body: str) -> bytes:
    unix = body.replace("\r\n", "\n").replace("\r", "\n")
    encoded = quopri.encodestring(unix.encode()).replace(b"\n", b"\r\n")
    return encoded if encoded.endswith(b"\r\n") else encoded + b"\r\n"
