-- Notes that the column shows the entity's state of this version, or that there is no row to show it.
create or replace function perdure.column_shown(lifecycle text, entity_id text, upto bigint) returns void
language sql security definer set search_path = perdure, pg_temp as $$
    delete from behind b where b.lifecycle = $1 and b.id = $2 and b.version <= $3
$$;
