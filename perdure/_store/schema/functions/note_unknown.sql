-- Notes the reason in rows that wait for an unknown name, at most 1000.
create or replace function perdure.note_unknown() returns void
language plpgsql set search_path = perdure, pg_temp as $$
begin
    with unknown as materialized ( -- each name is looked up once, even if many rows wait for it
        select u.lifecycle, u.signal, format('no running worker has %s', name_unknown(u.lifecycle, u.signal)) as why
        from unknown_names() u)
    update outbox o set error = x.why
        from (
            select y.lifecycle, y.id, y.seq, u.why
            from unknown u
            join outbox y on y.lifecycle = u.lifecycle
            left join message m on m.lifecycle = y.lifecycle and m.id = y.id and m.generation = y.generation
                and m.message_id = y.message_id and m.kind = 'signal'
            where m.name is not distinct from u.signal and (y.due_at is null or y.due_at <= clock_timestamp())
                and y.error is null
            limit 1000 for update of y skip locked) x
        where o.lifecycle = x.lifecycle and o.id = x.id and o.seq = x.seq;
end $$;
