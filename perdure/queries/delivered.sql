-- These rows are delivered: $1 lifecycles, $2 ids, $3 seqs. What was said stays, for recovery, until the entity's end.
with gone as (
    delete from perdure.outbox o using unnest($1::text[], $2::text[], $3::bigint[]) k(lifecycle, id, seq)
    where o.lifecycle = k.lifecycle and o.id = k.id and o.seq = k.seq
    returning o.lifecycle, o.id, o.round, o.message_id
)
update perdure.message m set delivered_at = clock_timestamp()
from gone where m.lifecycle = gone.lifecycle and m.id = gone.id and m.round = gone.round and m.message_id = gone.message_id
