-- Brings times to the present that are in the future because the clock went back, as after a failover to a server whose clock is
-- behind. Perdure puts off no row by as much as a minute. What the app requested for later keeps its time, and so do the rows
-- behind it, which wait for the same time. At most 10000 rows; rows that other sessions hold are skipped.
with relays as (
    update perdure.relay r set seen_at = least(r.seen_at, clock_timestamp()), began_at = least(r.began_at, clock_timestamp())
    from (
        select x.id from perdure.relay x where x.seen_at > clock_timestamp() or x.began_at > clock_timestamp()
        for update skip locked
    ) ahead
    where r.id = ahead.id
)
update perdure.outbox o
set created_at = least(o.created_at, clock_timestamp()),
    not_before = greatest(least(o.not_before, clock_timestamp()), o.due_at)
from (
    select x.lifecycle, x.id, x.seq
    from perdure.outbox x, (select timestamptz '9999-12-31 00:00:00+00') l(last_time) -- as `lines` reads it
    where x.created_at > clock_timestamp()
        or (x.not_before > clock_timestamp() + interval '1 minute' and x.not_before is distinct from x.due_at and not exists (
            select from perdure.outbox s
            where s.lifecycle = x.lifecycle and s.id = x.id and least(s.due_at, l.last_time) = least(x.not_before, l.last_time)))
    limit 10000
    for update of x skip locked
) ahead
where o.lifecycle = ahead.lifecycle and o.id = ahead.id and o.seq = ahead.seq
