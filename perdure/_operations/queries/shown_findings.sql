-- The findings about an entity: $1 lifecycle, $2 id.
select kind, about, generation, what, advice, mended, first_seen, last_seen
from perdure.finding where lifecycle = $1 and id = $2
order by mended, first_seen
