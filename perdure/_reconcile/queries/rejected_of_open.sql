-- Rejected rows of open entities that no copy leaves to its original, oldest first: $1 lifecycle or null, $2 id or null, up to $3.
select r.seq, r.lifecycle, r.id, r.generation, r.kind, r.reason
from perdure.rejected r join perdure.entity e using (lifecycle, id, generation)
where e.left_to is null and ($1::text is null or (r.lifecycle = $1 and r.id = $2))
order by r.seq
limit $3
