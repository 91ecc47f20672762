-- What reconciliations saw, by kind: what is left for a person, and what was mended.
select kind, count(*) filter (where not mended) as left_over, count(*) filter (where mended) as mended,
    min(first_seen) filter (where not mended) as since
from perdure.finding
group by kind
order by kind
