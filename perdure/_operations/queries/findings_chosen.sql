-- Findings, those left for a person first: $1 kind, $2 lifecycle, $3 mended or not, $4 and $5 as in overview.sql; after the
-- finding ($6 mended, $7 first seen, $8 kind, $9 lifecycle, $10 id, $11 about), up to $12. Null = no filter.
select f.kind, f.lifecycle, f.id, f.about, f.generation, f.what, f.advice, f.mended, f.first_seen, f.last_seen, f.run, i.tenant
from perdure.finding f
-- `offset 0`: for the rows that are shown, and not by a join with all entities.
left join lateral (select x.tenant from perdure.ident x where x.lifecycle = f.lifecycle and x.id = f.id offset 0) i on true
where ($1::text is null or f.kind = $1) and ($2::text is null or f.lifecycle = $2) and ($3::boolean is null or f.mended = $3)
    and ($4::text[] is null or exists (
        select from unnest($4::text[], $5::text[]) as r (lifecycle, tenant)
        where (r.lifecycle is null or r.lifecycle = f.lifecycle) and (r.tenant is null or r.tenant = i.tenant)))
    and ($6::boolean is null or (f.mended, f.first_seen, f.kind, f.lifecycle, f.id, f.about) > ($6, $7::timestamptz, $8::text, $9::text,
        $10::text, $11::text))
order by f.mended, f.first_seen, f.kind, f.lifecycle, f.id, f.about
limit $12
