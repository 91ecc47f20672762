-- Records, as a transition, that an effect has changed after the end of its entity, whose month may have been exported or dropped.
-- An effect without a record has not changed. The caller holds the row of `ident`.
create or replace function perdure.note_effect(i perdure.ident, e perdure.effect) returns void
language plpgsql set search_path = perdure, pg_temp as $$
declare
    newest bigint;
begin
    if e.key is null then
        return;
    end if;
    newest := take_version(i.lifecycle, i.id);
    insert into transition (lifecycle, id, generation, version, state, attention, why, made_by, effect)
        select i.lifecycle, i.id, i.generation, newest,
            coalesce(x.state, i.final, 'starting'), x.attention, -- a row without a state: its run has entered none yet
            left(format('%s %s %s', e.effect, case when e.settled_by is null then 'became known as' else 'resolved as' end, e.status)
                || coalesce(': ' || nullif(e.why, ''), ''), 2100),
            e.settled_by, to_jsonb(e)
        from (select) one left join entity x on x.lifecycle = i.lifecycle and x.id = i.id;
end $$;
