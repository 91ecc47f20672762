"""The kinds of roles, and the rights of each in the schema: `perdure grant` gives them, a worker checks them when it
starts, and the site's reference lists them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

_ALL = ("select", "insert", "update", "delete")
_READ = ("select",)
_ADD = ("select", "insert")
_KEEP = ("select", "insert", "update")

DISPATCHED = frozenset(
    {
        *("start", "signal", "cancel", "status", "feed"),
        *("restart", "resolve", "note", "start_again", "import_row", "retry_rejected", "drop_rejected"),
    }
)
"""Functions that exist as NAME, NAME_any and NAME_scoped, in one file of `functions`."""
COLUMN = (
    *("follow", "show_in_app", "columns_due", "columns_waiting", "take_column"),
    *("column_state", "column_shown", "put_off_column", "path_of_session"),
)
_ACTS = (
    "cancel",
    "restart",
    "resolve",
    "note",
    "start_again",
    "retry_rejected",
    "drop_rejected",
    "import_row",
)
_LOOK = (
    *("status", "feed", "feed_position", "schema_version", "in_doubt_since", "unknown_names", "utc"),
    *("database_problem", "incarnation"),
)
_OPERATORS = ("resolve", "retry_rejected", "drop_rejected", "import_row", "forget")
_PRIVATE = ("permitted", "permit", "tenants", "send", "notify_relays")
"""Nobody but the owner needs these: functions with the rights of the owner, and a trigger, call them."""


class Kind(StrEnum):
    """What a role is for."""

    APP = "app"
    WORKER = "worker"
    RELAY = "relay"
    COLUMN = "column"
    OPERATOR = "operator"
    READER = "reader"
    CALLBACKS = "callbacks"
    CONSOLE = "console"


@dataclass(frozen=True, slots=True)
class Rights:
    """What a kind of role may do.

    Attributes:
        functions: names; None = every one that `but` does not name.
        but: names of functions, where `functions` is None.
        usual: its rights on each table that `tables` does not name.
        tables: its rights by table.
        scoped: whether it can be limited to lifecycles and tenants.
        sequences: whether it inserts into tables with generated numbers.
    """

    functions: tuple[str, ...] | None = ()
    but: frozenset[str] = frozenset()
    usual: tuple[str, ...] = ()
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    scoped: bool = False
    sequences: bool = False

    def names(self, known: Iterable[str]) -> list[str]:
        """Names of the functions that it needs, of those that are known."""
        if self.functions is None:
            scoped = {f"{name}_scoped" for name in DISPATCHED}
            return sorted(set(known) - self.but - {f"{name}_any" for name in self.but} - scoped)
        return sorted({*self.functions, *(f"{name}_any" for name in self.functions if name in DISPATCHED)} & set(known))


_FIXED = dict.fromkeys(
    (
        *("migration", "applied_function", "month", "kept_effect"),
        *("carried_transition", "feed_origin", "app_column"),
    ),
    _READ,
)

RIGHTS: dict[Kind, Rights] = {
    Kind.APP: Rights(("start", "signal", "cancel", "status", "feed", "feed_position", "schema_version"), scoped=True),
    Kind.WORKER: Rights(
        functions=None,
        but=frozenset((*_OPERATORS, *COLUMN, *_PRIVATE, "feed", "feed_position")) - {"path_of_session"},
        usual=_ALL,
        tables={
            **_FIXED,
            **dict.fromkeys(("transition", "finished"), _ADD),
            **dict.fromkeys(("ident", "effect"), _KEEP),
            "permission": (),
        },
        sequences=True,
    ),
    Kind.RELAY: Rights(
        functions=(
            *(
                "check_database",
                "database_problem",
                "incarnation",
                "epoch",
                "all_declined",
                "name_unknown",
                "nearest",
                "relay_seen",
            ),
            *("reopen_declined", "reject_unknown", "note_unknown", "unknown_names", "record_of", "make_months"),
            *("feed_here", "schema_version", "utc", "in_doubt_since", "asking_role"),
        ),
        usual=_READ,
        tables={
            **dict.fromkeys(("outbox", "message", "rejected", "relay", "database"), _ALL),
            **dict.fromkeys(("ident", "entity"), ("select", "update")),
            **dict.fromkeys(("transition", "behind"), _ADD),
            "permission": (),
        },
        sequences=True,
    ),
    Kind.COLUMN: Rights(COLUMN),
    Kind.OPERATOR: Rights((*_ACTS, *_LOOK), usual=_READ, tables={"permission": ()}, scoped=True),
    Kind.READER: Rights(_LOOK, usual=_READ, tables={"permission": ()}, scoped=True),
    Kind.CALLBACKS: Rights(("signal",), scoped=True),
    Kind.CONSOLE: Rights((*_ACTS[:-1], *_LOOK), usual=_READ, tables={"permission": ()}, scoped=True),
}
