"""The record of lifecycles and their effects in a database, for the judge."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from perdure._wire.writes import EffectView, Move
from perdure.contracts.keys import Entity

_EFFECTS = "select key, perdure.effect_view(key) as view from perdure.effect"
_MOVES = (
    "select t.lifecycle, t.id, t.generation, t.state, t.attention, t.why, t.made_by, exists ("
    "  select from perdure.finished f where f.lifecycle = t.lifecycle and f.id = t.id and f.generation = t.generation "
    "  and f.state = t.state) and t.version = max(t.version) over (partition by t.lifecycle, t.id, t.generation) "
    "as final from perdure.transition t order by t.generation, t.version, t.at"
)
_VERSIONS = "select lifecycle, id, generation, version from perdure.ident"
_SNAPSHOTS = (
    "select lifecycle, id, generation, snapshot from perdure.entity union all "
    "select lifecycle, id, generation, snapshot from perdure.finished order by generation"
)


@dataclass(frozen=True)
class SqlRecord:
    """See the module.

    Attributes:
        effects: what the fence has, by key.
    """

    effects: dict[str, EffectView] = field(default_factory=dict)
    _moves: dict[Entity, list[Move]] = field(default_factory=dict)
    _versions: dict[Entity, int] = field(default_factory=dict)
    _snapshots: dict[tuple[str, str], Any] = field(default_factory=dict)

    @classmethod
    async def read(cls, connection: Any) -> SqlRecord:
        """Read all of it."""
        record = cls()
        for row in await connection.fetch(_EFFECTS):
            record.effects[row["key"]] = EffectView.model_validate_json(row["view"])
        for row in await connection.fetch(_MOVES):
            move = Move(
                state=row["state"], final=row["final"], attention=row["attention"], why=row["why"], by=row["made_by"]
            )
            record._moves.setdefault(Entity(row["lifecycle"], row["id"], row["generation"]), []).append(move)
        for row in await connection.fetch(_VERSIONS):
            record._versions[Entity(row["lifecycle"], row["id"], row["generation"])] = row["version"]
        for row in await connection.fetch(_SNAPSHOTS):
            record._snapshots[row["lifecycle"], row["id"]] = json.loads(row["snapshot"] or "null")
        return record

    def moves(self, entity: Entity) -> list[Move]:
        """All that the mirror has shown of an entity in its generation."""
        return self._moves.get(entity, [])

    def version(self, entity: Entity) -> int:
        """Of the newest write that shows a state of an entity, in this generation; 0 = there is none."""
        return self._versions.get(entity, 0)

    def snapshot(self, lifecycle: str, entity_id: str) -> Any:
        """The newest snapshot of an entity."""
        return self._snapshots.get((lifecycle, entity_id))
