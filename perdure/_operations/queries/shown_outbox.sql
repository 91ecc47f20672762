-- The rows of an entity that wait for the relay: $1 lifecycle, $2 id.
select seq, kind, created_at, wanted_at, tries, error, coalesce(wanted_at > now(), false) as later,
    greatest(created_at, wanted_at) as since
from perdure.outbox where lifecycle = $1 and id = $2
order by kind <> 'start', seq
