-- Everything that needs a person, in groups: doubts by effect and reason, other attention by its text, rejected rows by reason,
-- and doubts of ended entities; without what a copied database leaves to its original. $1 and $2 as in overview.sql; $3 lifecycle
-- and $4 effect, null = all; up to $5 groups of each kind, the largest first. `alike` and `waiting_alike` count all groups of the
-- same kind, lifecycle and effect. $6: `ABOUT_DOUBT`.
with groups as (
    select 'doubt' as kind, f.lifecycle, split_part(f.effect, '/', 1) as effect, coalesce(f.why, '') as reason,
        array_agg(distinct e.state) as states, count(*) as waiting, min(f.attempt_at) as oldest
    from perdure.effect f
    join perdure.entity e on e.lifecycle = f.lifecycle and e.id = f.id and e.generation = f.generation
    where f.status = 'in_doubt' and e.attention ~ $6 and e.left_to is null and ($1::text[] is null or exists (
        select from unnest($1::text[], $2::text[]) as r (lifecycle, tenant)
        where (r.lifecycle is null or r.lifecycle = e.lifecycle) and (r.tenant is null or r.tenant = e.tenant)))
    group by 2, 3, 4
    union all
    select 'attention', e.lifecycle, null, e.attention, array_agg(distinct e.state), count(*), min(e.since)
    from perdure.entity e
    where e.attention is not null and e.left_to is null and ($1::text[] is null or exists (
        select from unnest($1::text[], $2::text[]) as r (lifecycle, tenant)
        where (r.lifecycle is null or r.lifecycle = e.lifecycle) and (r.tenant is null or r.tenant = e.tenant)))
        and (e.attention !~ $6 or not exists (
            select from perdure.effect f
            where f.lifecycle = e.lifecycle and f.id = e.id and f.generation = e.generation and f.status = 'in_doubt'))
    group by 2, 4
    union all
    select 'rejected', j.lifecycle, j.kind, j.reason, '{}', count(*), min(j.rejected_at)
    from perdure.rejected j
    left join perdure.entity e on e.lifecycle = j.lifecycle and e.id = j.id and e.generation = j.generation
    where e.left_to is null and ($1::text[] is null or exists (
        select from unnest($1::text[], $2::text[]) as r (lifecycle, tenant)
        where (r.lifecycle is null or r.lifecycle = j.lifecycle) and (r.tenant is null or r.tenant = (
            select i.tenant from perdure.ident i where i.lifecycle = j.lifecycle and i.id = j.id))))
    group by 2, 3, 4
    union all
    select 'ended', f.lifecycle, split_part(f.effect, '/', 1), coalesce(f.why, ''), array_agg(distinct i.final), count(*),
        min(f.attempt_at)
    from perdure.effect f
    join perdure.ident i on i.lifecycle = f.lifecycle and i.id = f.id
    where (f.status = 'in_doubt' or (f.status = 'attempting' and f.deadline < now()))
        and ($1::text[] is null or exists (
            select from unnest($1::text[], $2::text[]) as r (lifecycle, tenant)
            where (r.lifecycle is null or r.lifecycle = i.lifecycle) and (r.tenant is null or r.tenant = i.tenant)))
        and not exists (
            select from perdure.entity e
            where e.lifecycle = f.lifecycle and e.id = f.id and e.generation = f.generation)
    group by 2, 3, 4
), ranked as (
    select g.*, row_number() over (partition by g.kind order by g.waiting desc, g.lifecycle, g.effect, g.reason) as place,
        count(*) over (partition by g.kind) > $5 as more,
        count(*) over (partition by g.kind, g.lifecycle, g.effect) as alike,
        (sum(g.waiting) over (partition by g.kind, g.lifecycle, g.effect))::bigint as waiting_alike
    from groups g
    where ($3::text is null or g.lifecycle = $3) and ($4::text is null or g.effect = $4)
)
select kind, lifecycle, effect, reason, states, waiting, oldest, more, alike, waiting_alike
from ranked
where place <= $5
order by array_position('{doubt,attention,rejected,ended}', kind), place
