"""The search attributes by which Temporal's lists find a run: names and values. They are not encrypted, so a value is a
word of Perdure's and a name that the author declared, never a text."""

from __future__ import annotations

from typing import Any

from temporalio.common import SearchAttributeKey

from perdure.contracts.states import States

ATTENTION = SearchAttributeKey.for_keyword("PerdureAttention")
"""Why a person is needed: `in doubt: <effect>`, `state: <state>`, `stands still`, `receipt: <effect>`; unset where none
is. So a run that needs nobody costs nothing."""
STATE = SearchAttributeKey.for_keyword("PerdureState")
KEYS = {"none": (), "attention": (ATTENTION,), "state": (ATTENTION, STATE)}
"""Those that PERDURE_SEARCH_ATTRIBUTES requests."""


def need_a_person(states: States[Any]) -> list[str]:
    """The states that need a person, by all their names, as a run carries them in `indexed`."""
    return [name for name in states.names if name in states and states[name].attention]
