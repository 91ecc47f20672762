-- Whether the entity is another one than that whose start was recorded at `born`: a restore lost that start, and the app gave the id
-- again. Null: the entity was not started through Perdure.
create or replace function perdure.is_other_entity(i perdure.ident, born timestamptz) returns boolean
language plpgsql stable set search_path = perdure, pg_temp as $$
begin
    if born is null or perdure.epoch() = 0 then
        return false;
    elsif i.final is null then
        return exists (select from entity x where x.lifecycle = i.lifecycle and x.id = i.id and x.created_at <> born);
    end if;
    return exists (
        select from finished x where x.lifecycle = i.lifecycle and x.id = i.id and x.generation = i.generation and x.created_at <> born);
end $$;
