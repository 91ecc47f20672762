-- The kinds of the findings: $1 and $2 as in overview.sql.
select f.kind, count(*) filter (where not f.mended) as left_over, count(*) filter (where f.mended) as mended
from perdure.finding f
where $1::text[] is null or exists (
    select from unnest($1::text[], $2::text[]) as r (lifecycle, tenant)
    where (r.lifecycle is null or r.lifecycle = f.lifecycle) and (r.tenant is null or r.tenant = (
        select i.tenant from perdure.ident i where i.lifecycle = f.lifecycle and i.id = f.id)))
group by f.kind
order by f.kind
