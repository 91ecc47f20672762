-- Moves all rows of the outbox to `rejected`, with the reason $1: another database owns them.
with gone as (delete from perdure.outbox returning *)
insert into perdure.rejected (
    seq, lifecycle, id, generation, kind, body, reason, traceparent, priority, due_at, message_id, created_at)
select seq, lifecycle, id, generation, kind, body, $1, traceparent, priority, due_at, message_id, created_at from gone
