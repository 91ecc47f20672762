-- What was rejected, the oldest first: $1 lifecycle or null, $2 a part of the reason or null, $3 at most so many, or null.
select seq, lifecycle, id, generation, kind, reason, rejected_at
from perdure.rejected
where ($1::text is null or lifecycle = $1) and ($2::text is null or position($2 in reason) > 0)
order by seq
limit $3
