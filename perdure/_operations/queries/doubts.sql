-- Effects of which nobody knows whether they happened, also where the entity has ended. Which of them, and how many, comes
-- with the caller.
select f.lifecycle, f.id, f.generation, f.effect, f.key, f.status, f.attempts, f.attempt_at as since, f.deadline, f.why,
    e.lifecycle is null as ended, coalesce(e.state, i.final) as state, i.tenant,
    e.lifecycle is null or (e.attention is not null and f.status = 'in_doubt') as waits_for_person
from perdure.effect f
join perdure.ident i on i.lifecycle = f.lifecycle and i.id = f.id
left join perdure.entity e on e.lifecycle = f.lifecycle and e.id = f.id and e.generation = f.generation
where (f.status = 'in_doubt' or (f.status = 'attempting' and f.deadline < now()))
