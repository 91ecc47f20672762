-- What was rejected, the oldest first: $1 lifecycle or null, $2 at most so many.
select seq, lifecycle, id, round, kind, reason, rejected_at
from perdure.rejected
where $1::text is null or lifecycle = $1
order by seq
limit $2
