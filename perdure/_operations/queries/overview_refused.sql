-- The entity whose state its row of the app has refused for longest, with the reason. $1 and $2 as in overview.sql.
select b.lifecycle, b.id, b.app_table, b.error
from perdure.behind b
where b.error is not null and ($1::text[] is null or exists (
    select from unnest($1::text[], $2::text[]) as r (lifecycle, tenant)
    where (r.lifecycle is null or r.lifecycle = b.lifecycle) and (r.tenant is null or r.tenant = (
        select i.tenant from perdure.ident i where i.lifecycle = b.lifecycle and i.id = b.id))))
order by b.version limit 1
