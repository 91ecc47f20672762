-- Whether anything of an entity is on record: it was started, and what it was is not erased, or its first start was dropped.
select exists (select from perdure.ident where lifecycle = $1 and id = $2)
    or exists (select from perdure.transition where lifecycle = $1 and id = $2)
