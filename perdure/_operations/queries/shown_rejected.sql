-- The rejected rows of an entity: $1 lifecycle, $2 id.
select seq, generation, kind, reason, rejected_at from perdure.rejected where lifecycle = $1 and id = $2 order by seq
