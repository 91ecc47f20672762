-- Records the begin of a reconciliation: $1 who requested it, $2 its summary so far, $3 run id of its workflow, $4 grace time in
-- seconds, $5 hours between two. It will signal workflows that have written since the begin of the last whole one, or since the
-- time at which that was due.
with begun as (
    insert into perdure.reconciliation (asked_by, summary)
    select $1, $2::jsonb where not exists (select from perdure.reconciliation c where c.summary->>'execution' = $3)
    returning run, began_at
), this as (
    select run, began_at from begun
    union all
    select run, began_at from perdure.reconciliation c where c.summary->>'execution' = $3
), before as (
    select max(c.began_at) as began_at from perdure.reconciliation c
    where c.ended_at is not null and c.summary->>'only' is null and not coalesce(c.summary->'failed', '{}') ? 'open-entities'
)
select
    this.run, this.began_at - make_interval(secs => $4) as younger_than,
    coalesce(before.began_at, this.began_at - make_interval(hours => greatest(ceil($5), 24)::int))
        - make_interval(secs => greatest($4, 600)) as asked_since
from this, before
