-- The messages to an open entity, oldest first: $1 lifecycle, $2 id, $3 with payloads.
select m.generation, m.message_id, m.kind, m.name, m.ordinal, m.created_at, m.delivered_at, o.due_at, o.tries, o.error,
    o.seq is not null as waits, m.ordinal <= e.acknowledged as in_snapshot, case when $3::boolean then m.payload::text end as payload
from perdure.message m
left join perdure.entity e on e.lifecycle = m.lifecycle and e.id = m.id
left join perdure.outbox o on o.lifecycle = m.lifecycle and o.id = m.id and o.generation = m.generation and o.message_id = m.message_id
where m.lifecycle = $1 and m.id = $2
order by m.ordinal nulls last, m.created_at
