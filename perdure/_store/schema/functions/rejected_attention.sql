-- The attention that the newest rejected row of an entity needs, in this generation; null without one. The collation is the index's.
create or replace function perdure.rejected_attention(lifecycle text, entity_id text, generation int) returns text
language sql stable set search_path = perdure, pg_temp as $$
    select case r.kind when 'start' then 'rejected: ' else 'a message was rejected: ' end || r.reason
    from perdure.rejected r
    where r.lifecycle collate "C" = rejected_attention.lifecycle and r.id collate "C" = entity_id
        and r.generation = rejected_attention.generation
    order by r.seq desc
    limit 1
$$;
