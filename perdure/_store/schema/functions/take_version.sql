-- Takes a version for an act of a person, newer than each transition of the entity; null without the entity. The gate's version stays
-- unchanged, because an open run may write the next one. The caller holds the row of `ident`.
create or replace function perdure.take_version(lifecycle text, entity_id text) returns bigint
language sql set search_path = perdure, pg_temp as $$
    update perdure.ident i set noted = greatest(i.version, i.noted,
            (select max(t.version) from perdure.transition t where t.lifecycle = i.lifecycle and t.id = i.id)) + 1
        where i.lifecycle = take_version.lifecycle and i.id = entity_id returning i.noted
$$;
