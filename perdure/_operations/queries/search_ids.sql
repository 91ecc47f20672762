-- Entities whose id is $2 or begins with it, of the lifecycles $1: at most $3 of each. Also those that are finished.
-- Only those within reach: the lifecycles $4 and the tenants $5, pairwise; null = all. Of each lifecycle, $6 ids are looked at.
select i.lifecycle, i.id, i.tenant, coalesce(e.state, i.final) as state, i.id = $2 as exact
from unnest($1::text[]) as n (lifecycle)
cross join lateral (
    select y.* from (
        select x.lifecycle, x.id, x.tenant, x.final from perdure.ident x
        where x.lifecycle = n.lifecycle collate "C" and x.id >= $2 collate "C" and x.id < ($2 || chr(1114111)) collate "C"
        order by x.id limit $6
    ) y
    where $4::text[] is null or exists (
        select from unnest($4::text[], $5::text[]) as r (lifecycle, tenant)
        where (r.lifecycle is null or r.lifecycle = y.lifecycle) and (r.tenant is null or r.tenant = y.tenant))
    order by y.id limit $3
) i
left join perdure.entity e on e.lifecycle = i.lifecycle and e.id = i.id
order by i.id <> $2, i.lifecycle, i.id
