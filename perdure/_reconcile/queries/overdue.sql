-- The oldest due time, and the number, of rows of the lifecycles $2 that no relay has tried since $1; up to 1000 of each lifecycle
-- and priority. It uses the index, so rows that are due later are not read.
select min(o.not_before) as since, count(*) as many
from unnest($2::text[]) l(name) cross join generate_series(1, 5) p cross join lateral (
    select x.not_before from perdure.outbox x
    where x.lifecycle = l.name and x.priority = p and x.not_before < $1
    order by x.not_before, x.seq
    limit 1000
) o
