-- The effects of an entity in the fence, of all its generations: $1 lifecycle, $2 id, $3 with payloads.
select generation, key, effect, status, attempts, first_at, attempt_at, deadline, why, settled_by, deadline < now() as over,
    octet_length(receipt::text) as receipt_bytes, case when $3::boolean then receipt::text end as receipt
from perdure.effect where lifecycle = $1 and id = $2
order by first_at, key
