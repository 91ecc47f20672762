"""The record from which a run without a history continues knows which ends were outdated by a later attempt."""

from __future__ import annotations

from perdure._store.postgres import PostgresStore
from perdure._store.record import Record

ENTITY = """
    insert into perdure.entity (lifecycle, id, generation, state, memory)
    select 'booking', 'again', 0, 'held', jsonb_build_object('ended', jsonb_object_agg(
        'booking/again/' || status, '{"slot": "charge", "kind": "GaveUp", "why": "busy"}'::jsonb))
    from unnest($1::text[]) status
"""
EFFECTS = """
    insert into perdure.effect
        (key, lifecycle, id, generation, effect, token, status, digest, first_at, attempt_at, deadline)
    select 'booking/again/' || status, 'booking', 'again', 0, status, 't', status, '', now(), now(), now()
    from unnest($1::text[]) status
"""
STATUSES = ["attempting", "in_doubt", "done", "not_done", "refused"]


async def test_an_end_is_outdated_by_an_attempt_that_is_done_or_that_nobody_knows_the_outcome_of(
    store: PostgresStore,
) -> None:
    await store.pool.execute(ENTITY, STATUSES)
    await store.pool.execute(EFFECTS, STATUSES)
    record = Record.model_validate_json(await store.pool.fetchval("select perdure.record_of('booking', 'again', 0)"))
    assert {*record.ended} == {"booking/again/not_done", "booking/again/refused"}
    assert record.done == ["booking/again/done"]
