-- Whether a reconciliation could not record how the closed workflow of an entity has ended: $1 kind of the finding, $2 lifecycle,
-- $3 id, $4 generation.
select exists (
    select from perdure.finding where kind = $1 and lifecycle = $2 and id = $3 and generation = $4 and not mended
)
