-- The findings by kind: those left for a person and since when, and the mended ones. $1 and $2 as in overview.sql.
select f.kind, count(*) filter (where not f.mended) as left_over, count(*) filter (where f.mended) as mended,
    min(f.first_seen) filter (where not f.mended) as since
from perdure.finding f
where $1::text[] is null or exists (
    select from unnest($1::text[], $2::text[]) as r (lifecycle, tenant)
    where (r.lifecycle is null or r.lifecycle = f.lifecycle) and (r.tenant is null or r.tenant = (
        select i.tenant from perdure.ident i where i.lifecycle = f.lifecycle and i.id = f.id)))
group by f.kind
order by f.kind
