"""Identities of entities, generations and effects. They come from the app, and are never random.

The key of an effect is the same for every attempt, after a reset, on a new cluster (invariant 4).
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote
from uuid import UUID

from perdure._text.shown import UNSEEN
from perdure.contracts.scopes import scope_of_workflow, workflow_prefix
from perdure.errors import InvalidEntity, InvalidInput

LONGEST_ID = 900
"""Bytes of UTF-8. Temporal refuses workflow ids over 1,000; lifecycle and scope use the rest."""

LONGEST_ENCODED_ID = 1500
"""Bytes of an id in a key, where `%`, `/` and `~` take three bytes each. An index holds no key over 2,700."""
LONGEST_SUFFIX = 500
"""Bytes of an effect's suffix in its key, where `%` and `~` take three bytes each."""

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_ORDINARY_ID = re.compile(r"[A-Za-z0-9_.:-]{1,100}")
"""An id with which nothing can be wrong. Most ids are such, and each order to an activity is checked."""
_IN_ID = str.maketrans({mark: f"%{ord(mark):02X}" for mark in "%/~"})
_IN_SUFFIX = str.maketrans({mark: f"%{ord(mark):02X}" for mark in "%~"})
"""The special characters of a key, percent-encoded, so that no two effects share a key."""


def check_name(kind: str, name: str) -> str:
    """Return `name` if it can name a lifecycle, effect or scope, else raise `InvalidEntity`."""
    given: Any = name
    if not (isinstance(given, str) and _NAME.fullmatch(given)):
        raise InvalidEntity(
            f"{kind} {name!r} can't be used as a name: use a lower-case letter, then up to 62 of a-z 0-9 _ -"
        )
    return name


def id_text(lifecycle: str, entity_id: object) -> str:
    """The text of a caller's id for an entity of `lifecycle`. The id is a string, an integer or a UUID.

    Raises:
        InvalidEntity: the id is of another type, whose text may differ from that in the database.
    """
    if isinstance(entity_id, str):
        return str.__str__(entity_id)  # also the value of a member of an enumeration
    if isinstance(entity_id, int) and not isinstance(entity_id, bool):
        return int.__repr__(entity_id)
    if isinstance(entity_id, UUID):
        return str(entity_id)
    if entity_id is None:
        raise InvalidEntity(f"the id of {lifecycle} is None: write the row first (an ORM does so when it is flushed)")
    raise InvalidEntity(
        f"the id of {lifecycle} is {repr(entity_id)[:60]}, a {type(entity_id).__name__}: "
        "give a str, an int or a UUID, with the text that the key of the row has in PostgreSQL"
    )


def check_entity_id(entity_id: str) -> str:
    """Return `entity_id` if it can name an entity, else raise `InvalidEntity` with the reason."""
    if not isinstance(entity_id, str):
        raise InvalidEntity(f"the entity id {entity_id!r} is a {type(entity_id).__name__}: give a str")
    if _ORDINARY_ID.fullmatch(entity_id):
        return entity_id
    if not entity_id:
        raise InvalidEntity("the entity id is empty: give the id of the row that the lifecycle is for")
    if (length := len(entity_id.encode("utf-8", "surrogatepass"))) > LONGEST_ID:
        raise InvalidEntity(
            f"the entity id {entity_id[:40]!r}... has {length} bytes; {LONGEST_ID} is the most: "
            "use the row's own key or a digest of it"
        )
    if (length := len(entity_id.translate(_IN_ID).encode("utf-8", "surrogatepass"))) > LONGEST_ENCODED_ID:
        raise InvalidEntity(
            f"the entity id {entity_id[:40]!r}... has {length} bytes in keys of effects, where each %, / and ~ counts "
            f"as three; {LONGEST_ENCODED_ID} is the most: use the row's own key or a digest of it"
        )
    if UNSEEN.search(entity_id) or entity_id != entity_id.strip(" "):
        raise InvalidEntity(
            f"the entity id {entity_id!a} has characters that can't be seen, or blanks at an end: "
            "use the row's own key without them"
        )
    return entity_id


@dataclass(frozen=True, slots=True)
class Entity:
    """One entity of the app in one generation of its lifecycle.

    Attributes:
        lifecycle: name of the lifecycle.
        id: the app's own id of the entity, printable, at most 900 bytes of UTF-8.
        generation: how often the entity was restarted after its end, 0 at first.

    Example:
        >>> str(Entity("order", "17")), str(Entity("order", "17", generation=1))
        ('order/17', 'order/17~1')
    """

    lifecycle: str
    id: str
    generation: int = 0

    def __post_init__(self) -> None:
        check_name("lifecycle", self.lifecycle)
        check_entity_id(self.id)

    def __str__(self) -> str:
        return f"{self.lifecycle}/{self.id}" + (f"~{self.generation}" if self.generation else "")

    def workflow_id(self, scope: str | None) -> str:
        """Workflow id in Temporal. `scope` names the app database if several share a namespace."""
        return workflow_prefix(self.lifecycle, scope) + self.id

    @classmethod
    def of_workflow(cls, workflow_id: str, lifecycle: str, generation: int) -> Entity:
        """The entity of a workflow of type `lifecycle`.

        Raises:
            InvalidEntity: the workflow id is not `[<scope>:]<lifecycle>/<entity id>`.
        """
        prefix = workflow_prefix(lifecycle, scope_of_workflow(workflow_id))
        if not workflow_id.startswith(prefix) or workflow_id == prefix:
            raise InvalidEntity(
                f"workflow id {workflow_id!r} does not name an entity of {lifecycle!r}: "
                f"start it as '{lifecycle}/<entity id>' or '<scope>:{lifecycle}/<entity id>'"
            )
        return cls(lifecycle, workflow_id.removeprefix(prefix), generation)


def checked_suffix(suffix: str, whose: str) -> str:
    """The suffix of an effect's performance, if a key may have it.

    Args:
        suffix: the suffix.
        whose: the entity or workflow, and the effect, for the error.

    Raises:
        InvalidInput: it is no text, is empty or too long for a key, or PostgreSQL cannot store it.
    """
    if not isinstance(suffix, str):
        raise InvalidInput(
            f"{whose}: the suffix {repr(suffix)[:60]} is of type {type(suffix).__name__}: "
            f"give a str, such as {str(suffix)[:60]!r}"
        )
    if not suffix:
        raise InvalidInput(
            f"{whose}: the suffix '' is empty, so the key would be the one without a suffix: give an id, or no suffix"
        )
    try:
        length = len(suffix.translate(_IN_SUFFIX).encode())
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{whose}: the suffix {suffix[:40]!r} is no text: {error}") from None
    if length > LONGEST_SUFFIX or "\0" in suffix:
        raise InvalidInput(
            f"{whose}: the suffix {suffix[:40]!r}... can't be part of a key: it has {length} bytes, "
            f"{LONGEST_SUFFIX} without NUL is the most: use an id, or a digest"
        )
    return suffix


def slot_of(effect: str, suffix: str | None) -> str:
    """Name of an effect with the suffix of its performance, as in the fence and in displays."""
    return f"{effect}/{suffix}" if suffix else effect


class Key(str):
    """Key of one effect: `lifecycle/id[~generation]/effect[/suffix][~n]`. Give it to the other side.

    In the id `%`, `/` and `~` are percent-encoded, in the suffix `%` and `~`.

    `token` is a short ASCII digest of the key, for systems that limit the length.

    Example:
        >>> Key.of(Entity("order", "17"), "charge")
        'order/17/charge'
    """

    __slots__ = ()

    @classmethod
    def of(cls, entity: Entity, effect: str, suffix: str | None = None, again: int = 0) -> Key:
        """Key of `effect` for `entity`. `again` counts how often the effect was sent with a new key.

        Raises:
            InvalidInput: the suffix is no text, is empty or too long for a key, or PostgreSQL cannot store it.
        """
        generation = f"~{entity.generation}" if entity.generation else ""
        tail = ""
        if suffix is not None:
            tail = "/" + checked_suffix(suffix, f"{entity}: {effect}").translate(_IN_SUFFIX)
        anew = f"~{again}" if again else ""
        return cls(f"{entity.lifecycle}/{entity.id.translate(_IN_ID)}{generation}/{effect}{tail}{anew}")

    @property
    def performance(self) -> tuple[str, str | None, int]:
        """Effect, suffix, and how often the effect was sent with a new key."""
        what, _, again = self.split("/", 2)[2].partition("~")
        effect, _, suffix = what.partition("/")
        return effect, unquote(suffix) or None, int(again or 0)

    @property
    def token(self) -> str:
        """A digest of this key, for systems that limit the length: 40 characters of [0-9a-f] (SHA-256, 160 bits)."""
        return hashlib.sha256(self.encode()).hexdigest()[:40]
