"""The search attributes by which Temporal's lists find a run: names and values. They are not encrypted, so a value is a
word of Perdure's and a name that the author declared, never a text."""

from __future__ import annotations

from temporalio.common import SearchAttributeKey

ATTENTION = SearchAttributeKey.for_keyword("PerdureAttention")
"""Why a person is needed: `in doubt: <effect>`, `state: <state>`, `stands still`, `receipt: <effect>`; unset where none
is. So a run that needs nobody costs nothing."""
STATE = SearchAttributeKey.for_keyword("PerdureState")
KEYS = {"none": (), "attention": (ATTENTION,), "state": (ATTENTION, STATE)}
"""Those that PERDURE_SEARCH_ATTRIBUTES requests."""
