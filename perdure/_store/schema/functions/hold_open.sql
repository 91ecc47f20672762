-- Locks an entity that is open, belongs to this database, and was not written since `version`; null if there is none.
create or replace function perdure.hold_open(lifecycle text, entity_id text, generation int, version bigint) returns perdure.ident
language plpgsql set search_path = perdure, pg_temp as $$
#variable_conflict use_column
declare
    i ident;
begin
    select * into i from ident x where x.lifecycle = hold_open.lifecycle and x.id = entity_id for no key update;
    if i.final is null and i.generation = hold_open.generation and i.version = hold_open.version and not exists (
        select from entity e where e.lifecycle = i.lifecycle and e.id = i.id and e.left_to is not null)
    then
        return i;
    end if;
    return null;
end $$;
