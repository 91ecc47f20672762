-- The findings by kind: those left for a person, and the mended ones.
select kind, count(*) filter (where not mended) as left_over, count(*) filter (where mended) as mended,
    min(first_seen) filter (where not mended) as since
from perdure.finding
group by kind
order by kind
