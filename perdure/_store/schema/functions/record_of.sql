-- The record from which a run without a history continues; see perdure/_store/record.py. Null: the entity is not open in that generation.
create or replace function perdure.record_of(lifecycle text, entity_id text, generation int) returns jsonb
language plpgsql stable set search_path = perdure, pg_temp as $$
#variable_conflict use_column
begin
    return (select jsonb_build_object(
        'at', clock_timestamp(), 'state', e.state, 'since', e.since, 'created_at', e.created_at, 'snapshot', e.snapshot,
        'acknowledged', e.acknowledged, 'memory', e.memory,
        'expects', (
            select coalesce(max(m.ordinal), 0) from message m
            where m.lifecycle = e.lifecycle and m.id = e.id and m.generation = e.generation and m.ordinal > e.acknowledged and m.kind <> 'dropped'
                and not exists (
                    select from rejected r where r.lifecycle = m.lifecycle and r.id = m.id and r.generation = m.generation
                        and r.message_id = m.message_id)),
        'again', (
            select coalesce(jsonb_object_agg(x.effect, x.again), '{}') from (
                select f.effect, max(substring(f.key from '~([0-9]{1,6})$')::int) as again from effect f
                where f.lifecycle = e.lifecycle and f.id = e.id and f.generation = e.generation group by f.effect) x
            where x.again > 0),
        'doubts', (
            select coalesce(jsonb_agg(jsonb_build_object('key', f.key, 'view', perdure.effect_view(f.key))), '[]') from effect f
            where f.lifecycle = e.lifecycle and f.id = e.id and f.generation = e.generation and f.status in ('attempting', 'in_doubt')),
        'done', (
            select coalesce(jsonb_agg(f.key), '[]') from effect f
            where f.lifecycle = e.lifecycle and f.id = e.id and f.generation = e.generation and f.status = 'done' and e.memory -> 'ended' ? f.key))
        from entity e where e.lifecycle = record_of.lifecycle and e.id = entity_id and e.generation = record_of.generation);
end $$;
