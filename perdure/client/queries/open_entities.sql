-- Open entities, the longest in their state first: $1 lifecycle, $2 state or null, $3 only those that need a person, $4 only
-- those in their state since before that time or null, up to $5.
select lifecycle, id, generation, state, since, attention, tenant
from perdure.entity
where lifecycle = $1
    and ($2::text is null or state = $2)
    and (not $3 or attention is not null)
    and ($4::timestamptz is null or since < $4)
order by since, id
limit $5
