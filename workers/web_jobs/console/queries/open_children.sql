-- Of a family's open children, up to a limit: how many there are and in which state, the oldest one, and who is in doubt.
with opened as materialized (
    select j.id, j.state from web_job.job j
    where j.parent = $1 and j.state in ('scheduled', 'held', 'processing') limit $2)
select count(*) as children,
    count(*) filter (where o.state = 'held') as held,
    count(*) filter (where o.state = 'scheduled') as scheduled,
    count(*) filter (where o.state = 'processing') as processing,
    min(e.created_at) as oldest,
    (array_agg(o.id order by e.created_at nulls last))[1] as oldest_id,
    count(*) filter (where d.doubtful) as in_doubt,
    (array_agg(o.id order by e.created_at nulls last) filter (where d.doubtful))[:20] as doubtful
from opened o
left join perdure.entity e on e.lifecycle = 'web-job' and e.id = o.id
left join lateral (
    select true as doubtful from perdure.effect x
    where x.lifecycle = 'web-job' and x.id = o.id
        and (x.status = 'in_doubt' or (x.status = 'attempting' and x.deadline < now())) limit 1) d on true
