-- Deletes findings that a part of a reconciliation did not report again: $1 its run, $2 the kinds that the part looked for, $3 the
-- lifecycles of the worker that executed it, $4 the time since which it skipped entities with newer writes, $5 and $6 its only
-- entity, or null. Mended findings are kept for 30 days.
delete from perdure.finding f
where (f.mended and f.last_seen < clock_timestamp() - interval '30 days')
    or (
        -- Not by `f.run`: the watch may have found it during the reconciliation, and have begun before that.
        not f.mended and f.last_seen < (select r.began_at from perdure.reconciliation r where r.run = $1)
        and f.kind = any($2) and (f.lifecycle = '' or f.lifecycle = any($3))
        and ($5::text is null or (f.lifecycle, f.id) = ($5, $6))
        and not exists (
            select from perdure.ident i
            where i.lifecycle = f.lifecycle and i.id = f.id and i.final is null and to_timestamp(i.version / 1e6) >= $4)
    )
