-- What a reconciliation did not see again is over: $1 its run, $2 kinds that it looked for, $3 lifecycles that it knows, $4 what
-- was written since it left alone, $5 $6 the one entity that it looked at or null. What was mended stands for 30 days.
delete from perdure.finding f
where (f.mended and f.last_seen < clock_timestamp() - interval '30 days')
    or (
        not f.mended and f.run < $1 and f.kind = any($2) and (f.lifecycle = '' or f.lifecycle = any($3))
        and ($5::text is null or (f.lifecycle, f.id) = ($5, $6))
        and not exists (
            select from perdure.ident i
            where i.lifecycle = f.lifecycle and i.id = f.id and i.final is null and to_timestamp(i.version / 1e6) >= $4)
    )
