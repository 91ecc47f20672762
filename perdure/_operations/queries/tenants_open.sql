-- The tenants of open entities, largest first: the number of open entities, the oldest in its state, how many are stuck, and how
-- many need a person. $1 and $2 as in overview.sql, up to $3.
select e.tenant, count(*) as open, min(e.since) as oldest,
    count(*) filter (where e.stuck_at < clock_timestamp() and e.left_to is null) as stuck,
    count(*) filter (where e.attention is not null and e.left_to is null) as attention
from perdure.entity e
where $1::text[] is null or exists (
    select from unnest($1::text[], $2::text[]) as r (lifecycle, tenant)
    where (r.lifecycle is null or r.lifecycle = e.lifecycle) and (r.tenant is null or r.tenant = e.tenant))
group by e.tenant
order by count(*) desc, e.tenant
limit $3
