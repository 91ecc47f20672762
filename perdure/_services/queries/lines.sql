-- The waiting rows of the entities $1, $2 (lifecycles, ids), up to $3 rows of each, in the order of delivery: a start, messages
-- with a place in the order, then messages without one. Every row can be read, whatever is stored: an orphan has no `ident`, or
-- its message is gone, and times that no client can represent are replaced by the last one that it can.
select
    o.seq, o.lifecycle, o.id, o.generation, o.kind, o.body, o.tries, o.traceparent, o.priority, o.message_id,
    o.declined <> '{}' as declined,
    least(o.not_before, timestamptz '9999-12-31 00:00:00+00') as not_before,
    o.not_before > now() as waits,
    coalesce(o.due_at > now(), false) as due_later,
    o.ordinal, o.message_kind, o.name, o.payload, now() as read_at,
    case when o.kind = 'start' then e.input end as input, i.version,
    o.body ? 'again' as again,
    case when o.kind = 'start' and e.workflow_id is not null -- its run has written, and Temporal may have lost that run
        then perdure.record_of(o.lifecycle, o.id, o.generation) end as record,
    o.kind = 'start' and exists (
        select from perdure.effect f where f.lifecycle = o.lifecycle and f.id = o.id and f.generation = o.generation) as attempted,
    e.epoch, perdure.epoch() as newest_epoch, e.created_at as born,
    least(greatest(e.created_at, o.due_at), timestamptz '9999-12-31 00:00:00+00') as started_at,
    i.id is null or (o.kind = 'message' and o.message_kind is null) as orphan,
    coalesce(i.generation <> o.generation or i.final is not null, false) as over
from unnest($1::text[], $2::text[]) k(lifecycle, id)
cross join lateral (
    select x.*, m.ordinal, m.kind as message_kind, m.name, m.payload
    from perdure.outbox x left join perdure.message m using (lifecycle, id, generation, message_id)
    where x.lifecycle = k.lifecycle and x.id = k.id
        -- Otherwise its time has not come. A message with a place was due once: if the clock went back since, the line waits for it.
        and (x.kind = 'start' or x.due_at is null or x.due_at <= now() or m.ordinal is not null)
    order by x.kind <> 'start', m.ordinal, x.seq
    limit $3
) o
left join perdure.ident i on i.lifecycle = o.lifecycle and i.id = o.id
left join perdure.entity e on e.lifecycle = o.lifecycle and e.id = o.id
order by o.lifecycle, o.id, o.kind <> 'start', o.ordinal, o.seq
