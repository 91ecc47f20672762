"""Whether an entity that needs a person may need one for an effect in doubt: by the text of its attention.

An effect is on record as in doubt also while its policy is at work. If the entity needs a person for another reason
meanwhile, such as a state that the author declared so, nobody has to settle that doubt.
"""

from __future__ import annotations

import re

ABOUT_DOUBT = r" is in doubt: | can't be read: "
"""Matches the texts of a run that parks an effect, and those that may have replaced one: what today's code can't read.
An argument of queries, so it is a regular expression of PostgreSQL as well."""


def is_about_doubt(attention: str | None) -> bool:
    """Whether a person may be needed for an effect in doubt."""
    return attention is not None and re.search(ABOUT_DOUBT, attention) is not None


_OF_AN_EFFECT = r" is in doubt: | is done, and its receipt "
"""Matches the texts by which `Performance` needs a person."""


def is_of_an_effect(attention: str | None) -> bool:
    """Whether a run has given this reason for one of its effects: it is in doubt, or its receipt does not fit."""
    return attention is not None and re.search(_OF_AN_EFFECT, attention) is not None
