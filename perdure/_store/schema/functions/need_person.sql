-- Notes that an open entity needs a person. False, and nothing is changed, if the entity was written since `version`.
create or replace function perdure.need_person(lifecycle text, entity_id text, generation int, version bigint, attention text, made_by text)
returns boolean language plpgsql security definer set search_path = perdure, pg_temp as $$
#variable_conflict use_column
declare
    i ident;
begin
    i := perdure.hold_open(need_person.lifecycle, entity_id, need_person.generation, need_person.version);
    if i.id is null then
        return false;
    end if;
    update entity e set attention = need_person.attention where e.lifecycle = i.lifecycle and e.id = i.id;
    perform perdure.note(i.lifecycle, i.id, need_person.made_by, need_person.attention);
    return true;
end $$;
