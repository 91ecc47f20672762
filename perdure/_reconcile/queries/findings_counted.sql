-- By kind, what the reconciliation $1 has mended, and what is left for a person: $2 $3 of one entity, or of all where null.
select
    kind, count(*) filter (where mended and run = $1)::int as mended, count(*) filter (where not mended)::int as left
from perdure.finding
where (not mended or run = $1) and ($2::text is null or (lifecycle, id) = ($2, $3))
group by kind
order by kind
