-- Rejects the rows that have waited for `patience` for a name that no relay has had for that time, or only those of one entity.
-- It waits for no other session: what one holds is left to the next call. Returns the number of rows, at most 100.
create or replace function perdure.reject_unknown(patience interval, lifecycle text default null, entity_id text default null) returns int
language plpgsql set search_path = perdure, pg_temp as $$
#variable_conflict use_column
declare
    w record;
    why text;
    put_aside int := 0;
begin
    for w in
        select o.lifecycle, o.id, o.seq, o.kind, u.signal
        from unknown_names(greatest(patience, interval '1 minute')) u
        join outbox o on o.lifecycle = u.lifecycle
        left join message m on m.lifecycle = o.lifecycle and m.id = o.id and m.generation = o.generation
            and m.message_id = o.message_id and m.kind = 'signal'
        where m.name is not distinct from u.signal and greatest(o.created_at, o.due_at) <= clock_timestamp() - patience
            and (reject_unknown.lifecycle is null or (o.lifecycle = reject_unknown.lifecycle and o.id = entity_id))
        order by o.seq
        limit 1000
    loop
        exit when put_aside = 100;
        if pg_try_advisory_xact_lock(hashtextextended(w.lifecycle || '/' || w.id, x'70657264'::bigint)) -- as a relay does
            and exists (select from outbox o where o.lifecycle = w.lifecycle and o.id = w.id and o.seq = w.seq for update skip locked)
            and (not exists (select from entity x where x.lifecycle = w.lifecycle and x.id = w.id)
                or exists (select from entity x where x.lifecycle = w.lifecycle and x.id = w.id for no key update skip locked))
        then
            why := format('no worker has %s', name_unknown(w.lifecycle, w.signal));
            with gone as (
                delete from outbox o where o.lifecycle = w.lifecycle and o.id = w.id and o.seq = w.seq returning *)
            insert into rejected (seq, lifecycle, id, generation, kind, body, reason, traceparent, priority, due_at, message_id, created_at)
            select g.seq, g.lifecycle, g.id, g.generation, g.kind, g.body, why, g.traceparent, g.priority, g.due_at, g.message_id,
                g.created_at
            from gone g;
            if found then
                put_aside := put_aside + 1;
                update entity x set attention = case w.kind when 'start' then 'rejected: ' else 'a message was rejected: ' end || why
                    where x.lifecycle = w.lifecycle and x.id = w.id
                        and (x.attention is null or x.attention ~ '^(a message was )?rejected: ');
                update outbox o set declined = '{}' where o.lifecycle = w.lifecycle and o.id = w.id and o.declined <> '{}';
            end if;
        end if;
    end loop;
    return put_aside;
end $$;
