-- Names in due rows of the outbox that no relay has which was seen within `lately`: lifecycles, and signals of lifecycles.
create or replace function perdure.unknown_names(lately interval default '1 minute')
returns table (lifecycle text, signal text, waiting bigint, since timestamptz)
language plpgsql stable set search_path = perdure, pg_temp as $$
#variable_conflict use_column
begin
    return query select x.lifecycle, x.name, x.waiting, x.since
        from (
            select o.lifecycle, m.name, count(*) as waiting, min(greatest(o.created_at, o.due_at)) as since
            from outbox o left join message m on m.lifecycle = o.lifecycle and m.id = o.id and m.generation = o.generation
                and m.message_id = o.message_id and m.kind = 'signal'
            where o.due_at is null or o.due_at <= clock_timestamp()
            group by o.lifecycle, m.name) x
        where not exists (
            select from relay r
            where r.seen_at > clock_timestamp() - lately and x.lifecycle = any(r.lifecycles)
                and (x.name is null or x.lifecycle || '.' || x.name = any(r.signals)));
end $$;
