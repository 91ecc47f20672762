-- The number of findings by kind that the reconciliation $1 mended, or left for a person: of the entity $2, $3, or of all if
-- these are null.
select
    kind, count(*) filter (where mended and run = $1)::int as mended, count(*) filter (where not mended)::int as left
from perdure.finding
where (not mended or run = $1) and ($2::text is null or (lifecycle, id) = ($2, $3))
group by kind
order by kind
