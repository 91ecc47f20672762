-- What is left for a person, the oldest first: $1 $2 of one entity, or of all where null; at most $3.
select kind, lifecycle, id, generation, about, what, advice, first_seen, last_seen
from perdure.finding
where not mended and ($1::text is null or (lifecycle, id) = ($1, $2))
order by first_seen, kind, lifecycle, id, about
limit $3
