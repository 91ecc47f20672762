-- Since when the oldest rows are due that nobody has looked at since $1, and how many of them there are, 1000 of each
-- priority at most. By the index: what is due later is not read.
select min(o.not_before) as since, count(*) as many
from generate_series(1, 5) p cross join lateral (
    select x.not_before from perdure.outbox x
    where x.priority = p and x.not_before < $1
    order by x.not_before, x.seq
    limit 1000
) o
