-- Moves a row to `rejected`, where it delays no other: $1 lifecycle, $2 id, $3 seq, $4 reason.
with gone as (delete from perdure.outbox where lifecycle = $1 and id = $2 and seq = $3 returning *)
insert into perdure.rejected (
    seq, lifecycle, id, generation, kind, body, reason, traceparent, priority, due_at, message_id, created_at)
select seq, lifecycle, id, generation, kind, body, $4, traceparent, priority, due_at, message_id, created_at from gone
