-- Makes rows that were due before $1, and have failed so far, due before all others, so that their delay by an outage that has
-- just ended is not taken for their own fault: $2 at most, $3 lifecycles. Rows that a relay holds are skipped.
with failing as (
    select o.lifecycle, o.id, o.seq
    from unnest($3::text[]) l(name) cross join generate_series(1, 5) p cross join lateral (
        select x.lifecycle, x.id, x.seq from perdure.outbox x
        where x.lifecycle = l.name and x.priority = p and x.not_before < now() + interval '1 minute'
            and x.error is not null and greatest(x.created_at, x.due_at) < $1
        order by x.not_before, x.seq
        limit $2
        for update skip locked
    ) o
    limit $2
)
update perdure.outbox o set not_before = least(o.not_before, $1 - interval '1 second')
from failing f where o.lifecycle = f.lifecycle and o.id = f.id and o.seq = f.seq
returning o.seq
