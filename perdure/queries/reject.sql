-- Out of the way, with the reason: $1 seq, $2 reason.
with gone as (delete from perdure.outbox where seq = $1 returning *)
insert into perdure.rejected (seq, lifecycle, id, round, kind, body, reason)
select seq, lifecycle, id, round, kind, body, $2 from gone
