-- The findings left for a person, oldest first: of the entity $1, $2, or of all if these are null; up to $3.
select kind, lifecycle, id, generation, about, what, advice, first_seen, last_seen
from perdure.finding
where not mended and ($1::text is null or (lifecycle, id) = ($1, $2))
order by first_seen, kind, lifecycle, id, about
limit $3
