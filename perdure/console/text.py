"""How pages show what comes from data: as text alone, with what can't be seen made visible."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PackageLoader, PrefixLoader, StrictUndefined
from markupsafe import Markup, escape

from perdure._operations.durations import shown
from perdure._text.shown import UNSEEN, lines, one_line
from perdure.console.evidence import outcome
from perdure.console.figures import bar, spark, state_diagram
from perdure.console.security import IN_PAGE
from perdure.console.stacks import columns, stack


def safe(value: object, most: int | None = None) -> str:
    r"""In one line, escaped by the template as all text is; each character that can't be seen is a �.

    Args:
        most: characters, after which it is cut.

    >>> safe("two\nlines \u202e<b>")
    'two lines �<b>'
    """
    text = one_line("" if value is None else value)
    return text if most is None or len(text) <= most else text[: most - 1] + "…"


def visible(value: object) -> Markup:
    r"""An id, exactly: a character that can't be seen is shown as its code point, so that two ids never look alike.

    >>> str(visible("a\u200bb<"))
    'a<span class="unseen">U+200B</span>b&lt;'
    """
    parts, at, text = [], 0, str(value)
    for found in UNSEEN.finditer(text):
        parts += [
            escape(text[at : found.start()]),
            Markup('<span class="unseen">U+{:04X}</span>').format(ord(found[0])),
        ]
        at = found.end()
    return Markup("").join([*parts, escape(text[at:])])


def moment(when: datetime | None) -> Markup:
    """A time to the second, which machines can read, too."""
    if when is None:
        return Markup("")
    utc = when.astimezone(UTC)
    return Markup('<time datetime="{}">{} UTC</time>').format(utc.isoformat(), f"{utc:%Y-%m-%d %H:%M:%S}")


def duration(seconds: float | None) -> str:
    """In at most two units."""
    return "" if seconds is None else shown(seconds)


def number(value: int | float | None) -> str:
    """With separators of thousands."""
    return "" if value is None else f"{value:,}"


def counted(count: int, one: str, many: str | None = None) -> str:
    """With the noun in singular or plural.

    >>> counted(1, "effect"), counted(2000, "effect"), counted(2, "entity", "entities")
    ('1 effect', '2,000 effects', '2 entities')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def environment(folders: Mapping[str, Path]) -> Environment:
    """The templates of the console, and those of an application, whose names begin with the name of its pages.

    Args:
        folders: of the application's templates, by that name.
    """
    own = PrefixLoader({name: FileSystemLoader(folder) for name, folder in folders.items()})
    made = Environment(
        loader=ChoiceLoader([PackageLoader("perdure.console"), own]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Any] = {
        "safe_text": safe,
        "visible": visible,
        "moment": moment,
        "duration": duration,
        "number": number,
        "lines_of": lines,
        "outcome": outcome,
    }
    made.filters.update(filters)
    made.globals.update(
        policy=IN_PAGE, counted=counted, spark=spark, bar=bar, state_diagram=state_diagram, stack=stack, columns=columns
    )
    del made.filters["safe"]  # no template puts text into a page as markup
    return made
