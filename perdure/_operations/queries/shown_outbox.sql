-- The rows of an entity that wait for the relay: $1 lifecycle, $2 id.
select seq, kind, created_at, due_at, tries, error, coalesce(due_at > now(), false) as later,
    greatest(created_at, due_at) as since
from perdure.outbox where lifecycle = $1 and id = $2
order by kind <> 'start', seq
