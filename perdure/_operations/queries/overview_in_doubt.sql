-- Effects in doubt, and attempts past their deadline without an outcome, including those of ended entities, without those that a
-- copied database leaves to its original; how many of their entities wait for a person and since when, and how many have ended.
-- `effect` is the contract's name, without the suffix. $1 to $3 as in overview.sql.
select
    f.lifecycle, split_part(f.effect, '/', 1) as effect, count(*) as in_doubt,
    greatest(extract(epoch from clock_timestamp() - min(f.deadline)), 0)::float as oldest_seconds,
    greatest(extract(epoch from clock_timestamp() - min(f.deadline) filter (where e.attention ~ $3 and f.status = 'in_doubt')),
        0)::float as oldest_parked_seconds,
    count(distinct e.id) filter (where e.attention ~ $3 and f.status = 'in_doubt') as parked,
    count(*) filter (where e.id is null) as ended
from perdure.effect f
left join perdure.entity e on e.lifecycle = f.lifecycle and e.id = f.id and e.generation = f.generation
where f.status in ('attempting', 'in_doubt') and (f.status = 'in_doubt' or f.deadline < clock_timestamp()) and e.left_to is null
    and ($1::text[] is null or exists (
        select from perdure.ident i, unnest($1::text[], $2::text[]) as r (lifecycle, tenant)
        where i.lifecycle = f.lifecycle and i.id = f.id
            and (r.lifecycle is null or r.lifecycle = i.lifecycle) and (r.tenant is null or r.tenant = i.tenant)))
group by 1, 2
order by 1, 2
