-- Changes whenever an entity comes to need a person, an effect comes to be in doubt, or a row is rejected, and when that is over. $1
-- and $2 as in overview.sql.
select concat_ws(' ',
    (select sum(hashtextextended(concat_ws(' ', e.id, e.attention), 0)) from perdure.entity e
        where e.attention is not null and ($1::text[] is null or exists (
            select from unnest($1::text[], $2::text[]) as r (lifecycle, tenant)
            where (r.lifecycle is null or r.lifecycle = e.lifecycle) and (r.tenant is null or r.tenant = e.tenant)))),
    (select sum(hashtextextended(f.key, f.attempts)) from perdure.effect f
        where f.status in ('attempting', 'in_doubt') and (f.status = 'in_doubt' or f.deadline < clock_timestamp())
            and ($1::text[] is null or exists (
                select from unnest($1::text[], $2::text[]) as r (lifecycle, tenant)
                where (r.lifecycle is null or r.lifecycle = f.lifecycle) and (r.tenant is null or r.tenant = (
                    select i.tenant from perdure.ident i where i.lifecycle = f.lifecycle and i.id = f.id))))),
    (select sum(j.seq) from perdure.rejected j
        where $1::text[] is null or exists (
            select from unnest($1::text[], $2::text[]) as r (lifecycle, tenant)
            where (r.lifecycle is null or r.lifecycle = j.lifecycle) and (r.tenant is null or r.tenant = (
                select i.tenant from perdure.ident i where i.lifecycle = j.lifecycle and i.id = j.id)))))
