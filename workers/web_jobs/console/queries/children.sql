-- A page of a family's children in one state, by id, with the reason why their master could not start them again, of their last
-- state, or of what they wait for.
select j.id, j.type, j.state, coalesce(j.why, f.why, e.attention) as why, coalesce(f.finished_at, e.since) as since,
    exists (select from web_job.family m where m.master = j.id) as leads
from (
    select id, type, state, why from web_job.job
    where parent = $1 and state = $2 and id > $3 order by id limit $4) j
left join perdure.entity e on e.lifecycle = 'web-job' and e.id = j.id
left join lateral (
    select x.why, x.finished_at from perdure.finished x
    where e.id is null and x.lifecycle = 'web-job' and x.id = j.id order by x.finished_at desc limit 1) f on true
order by j.id
