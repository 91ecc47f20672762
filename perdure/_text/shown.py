"""Makes text from an application's data safe for the place where it is shown.

An entity's id, an attention, a reason or a note can contain anything that a person typed or another system answered.
Unchanged, it could move a terminal's cursor, add a line to a log, become a link in Temporal's Web UI, or be an option
of a command that is printed for a shell.
"""

from __future__ import annotations

import re
import shlex

UNSEEN = re.compile(
    "["
    "\\x00-\\x1f\\x7f-\\xa0\\xad"  # controls, the no-break space, the soft hyphen
    "\\u034f\\u061c\\u115f\\u1160\\u1680\\u17b4\\u17b5\\u180b-\\u180f"  # fillers, joiners, marks of direction
    "\\u2000-\\u200f\\u2028-\\u202f\\u205f-\\u206f"  # spaces, zero-width characters, directions, separators of lines
    "\\u2800\\u3000\\u3164\\ud800-\\udfff\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff9-\\ufffb"
    "\\U0001bca0-\\U0001bca3\\U0001d173-\\U0001d17a\\U000e0000-\\U000e0fff"
    "]"
)
"""Characters that are invisible, or change the display of the text around them; as in `perdure.check_entity`."""

_ACTIVE = re.compile(r"([\\`*_\[\]<>&~|!@])|(?<=[a-z]):(?=//)|(?<=\bwww)\.", re.IGNORECASE)
"""Characters with a meaning in a line of Markdown, and those that make an address a link."""
_WORD = re.compile(r'[^=|"]*')


def one_line(value: object) -> str:
    r"""The text in one line, with � for each invisible character.

    >>> one_line("two\nlines and \x1b[31mred")
    'two lines and �[31mred'
    """
    text = " ".join(str(value).split())
    if text.isascii() and text.isprintable():
        return text
    return UNSEEN.sub("\N{REPLACEMENT CHARACTER}", text)


def lines(value: object) -> str:
    """The same for text of several lines, which are kept."""
    return "\n".join(UNSEEN.sub("\N{REPLACEMENT CHARACTER}", each) for each in str(value).split("\n"))


def field(value: object) -> str:
    """The value of a field in a line of a log, quoted if it could be taken for another field.

    >>> field("sold out")
    'sold out'
    >>> field("lost | outcome=done")
    '"lost | outcome=done"'
    """
    text = one_line(value)
    return text if _WORD.fullmatch(text) else '"' + text.replace('"', "'") + '"'


def entity_name(lifecycle: str, entity_id: str) -> str:
    r"""The name of an entity whose id somebody has given, in quotes and with escapes if it has invisible characters.

    >>> entity_name("order", "7")
    'order/7'
    >>> print(entity_name("order", "a\nb"))
    'order/a\nb'
    """
    name = f"{lifecycle}/{entity_id}"
    return ascii(name) if UNSEEN.search(name) else name


def command(verb: str, lifecycle: str, entity_id: str, *options: str) -> str:
    """The command `perdure VERB` about one entity, quoted for a shell. An id that begins with `-` stands behind the
    options and `--`.

    >>> command("retry", "order", "a b", "--by", "YOU")
    "perdure retry order 'a b' --by YOU"
    >>> command("retry", "order", "-7", "--by", "YOU")
    'perdure retry --by YOU -- order -7'
    """
    entity = [lifecycle, entity_id]
    arguments = [*options, "--", *entity] if entity_id.startswith("-") else [*entity, *options]
    return shlex.join(["perdure", verb, *arguments])


def json_text(text: str) -> str:
    """JSON in whose strings invisible characters are escaped."""
    return UNSEEN.sub(lambda found: _escaped(found[0]), text)


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def markdown(value: object) -> str:
    r"""The text as plain text in a line of Markdown.

    >>> markdown("see [here](https://x.example) or *there*")
    'see \\[here\\](https\\://x.example) or \\*there\\*'
    """
    return _ACTIVE.sub(lambda found: "\\" + found[0], one_line(value))


def cut(text: str, most: int = 120) -> str:
    """The beginning of a text, for a summary, which Temporal takes 400 bytes of: `most` bytes.

    >>> cut("no such card", 7)
    'no such...'
    """
    data = text.encode()
    return text if len(data) <= most else f"{data[:most].decode(errors='ignore')}..."


def code(value: object) -> str:
    """The text as code in a line of Markdown.

    >>> code("order/7"), code("a`b")
    ('`order/7`', '`` a`b ``')
    """
    text = one_line(value)
    if "`" not in text:
        return f"`{text}`"
    fence = "`" * (max(map(len, re.findall("`+", text))) + 1)
    return f"{fence} {text} {fence}"
