-- A reconciliation begins: $1 who asked for it, $2 what is on record of it, $3 run id of its workflow, $4 grace in seconds, $5
-- hours between two. Asked are workflows that wrote since the last whole one had begun, or since it should have.
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
