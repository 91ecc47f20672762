-- Records the act of a person, and shows the other rejected rows of the entity. The caller holds its row of `ident`.
create or replace function perdure.note_rejected(r perdure.rejected, generation int, state text, made_by text, why text) returns void
language plpgsql set search_path = perdure, pg_temp as $$
#variable_conflict use_column
declare
    newest bigint;
begin
    update entity x set attention = rejected_attention(r.lifecycle, r.id, r.generation)
        where x.lifecycle = r.lifecycle and x.id = r.id
            and x.attention ~ '^(a message was )?rejected: ';
    newest := take_version(r.lifecycle, r.id);
    insert into transition (lifecycle, id, generation, version, state, attention, why, made_by)
        select r.lifecycle, r.id, note_rejected.generation, newest, note_rejected.state,
            (select x.attention from entity x where x.lifecycle = r.lifecycle and x.id = r.id), why, note_rejected.made_by
        where newest is not null;
end $$;
