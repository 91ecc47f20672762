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
SENT_AGAIN = """
    insert into perdure.effect
        (key, lifecycle, id, generation, effect, token, status, digest, first_at, attempt_at, deadline)
    select 'booking/again/charge/' || suffix, 'booking', 'again', 0, 'charge/' || split_part(suffix, '~', 1), 't',
        'done', '', now(), now(), now()
    from unnest('{twice,twice~1,twice~2,twice~99999999999,once}'::text[]) suffix
"""
MESSAGES = """
    insert into perdure.message (lifecycle, id, generation, message_id, kind, name, ordinal)
    values ('booking', 'again', 0, 'last', 'signal', 'add', 7), ('booking', 'again', 0, 'gone', 'dropped', '', 8),
        ('booking', 'again', 0, 'rejected', 'signal', 'add', 9);
    insert into perdure.rejected (seq, lifecycle, id, generation, kind, body, reason, message_id)
    values (0, 'booking', 'again', 0, 'message', '{}', 'a test', 'rejected')
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


async def test_the_run_counts_what_was_sent_with_new_keys_and_awaits_messages_that_can_come(
    store: PostgresStore,
) -> None:
    for statement in (ENTITY, EFFECTS):
        await store.pool.execute(statement, STATUSES)
    await store.pool.execute(SENT_AGAIN)
    await store.pool.execute(MESSAGES)
    record = Record.model_validate_json(await store.pool.fetchval("select perdure.record_of('booking', 'again', 0)"))
    assert record.again == {"charge/twice": 2}
    assert record.expects == 7
