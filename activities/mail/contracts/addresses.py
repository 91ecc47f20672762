"""The valid content of a mail's address, header and text. Messages name the fault, never the (personal) value.

Sources: RFC 5321 (4.1.2, 4.5.3.1), RFC 5322 (3.2.3, 3.6.8), RFC 6531 (non-ASCII addresses), RFC 5890 (domain
    names).
"""

import re

_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\-\u0080-\U0010ffff]+"
_LOCAL = re.compile(rf"{_ATOM}(?:\.{_ATOM})*")
_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,75}")
_NOT_LINE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_NOT_TEXT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_OURS = re.compile(
    r"(?i)from|sender|to|cc|bcc|subject|date|message-id|reply-to|return-path|received|mime-version|(content|resent)-.*"
    r"|(apparently|delivered|errors|return-receipt)-to"
)


def check_address(address: str) -> str:
    """Return `address` if it is `local@domain`, else raise `ValueError`."""
    local, at, domain = address.rpartition("@")
    if not at:
        raise ValueError("a mail address needs an @")
    if not address.isprintable() or not _LOCAL.fullmatch(local):
        raise ValueError(
            "before its @ a mail address has letters, digits, single dots and !#$%&'*+/=?^_`{|}~-; no quotes or blanks"
        )
    if len(local.encode()) > 64 or len(address.encode()) > 254:
        raise ValueError("a mail address has at most 64 bytes before its @ and 254 in all")
    ascii_domain(domain)
    return address


def ascii_domain(domain: str) -> str:
    """`domain` as the DNS has it: non-ASCII labels as `xn--...`.

    Raises:
        ValueError: if it is no domain name, or one whose ASCII form would name another domain.
    """
    try:
        encoded = domain.encode("idna").decode("ascii").lower()
        # Python's codec is IDNA 2003, which turns German eszett into ss: the mail would go to another domain.
        faithful = domain.isascii() or encoded.encode().decode("idna") == domain.lower()
    except UnicodeError:
        raise ValueError("after its @ a mail address has a domain name") from None
    if not all(_LABEL.fullmatch(label) for label in encoded.split(".")):
        raise ValueError("after its @ a mail address has a domain name")
    if not faithful:
        raise ValueError("this domain has more than one reading: write it in its ASCII form (xn--...)")
    return encoded


def check_line(line: str) -> str:
    """Return `line` if it is one line of printable text, else raise `ValueError`."""
    if _NOT_LINE.search(line):
        raise ValueError("must be one line without control characters: a line break would begin another header")
    return line


def check_text(text: str) -> str:
    """Return `text` if it holds no control characters but tab and line breaks, else raise `ValueError`."""
    if _NOT_TEXT.search(text):
        raise ValueError("has control characters other than tab and line breaks")
    return text


def check_header_name(name: str) -> str:
    """Return `name` if it can name a further header, else raise `ValueError`."""
    if not _HEADER.fullmatch(name):
        raise ValueError("the name of a header has letters, digits and hyphens, and begins with a letter")
    if _OURS.fullmatch(name):
        raise ValueError("this header is made from the mail's other fields: don't give it in headers")
    return name
