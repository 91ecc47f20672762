-- Effects in doubt, including those of ended entities, without those that a copied database leaves to its original. The caller
-- adds filters, or counts. $1: `ABOUT_DOUBT`.
select f.lifecycle, f.id, f.generation, f.effect, f.key, f.status, f.attempts, f.attempt_at as since, f.deadline, f.why,
    e.lifecycle is null as ended, coalesce(e.state, i.final) as state, i.tenant,
    e.lifecycle is null or (coalesce(e.attention ~ $1, false) and f.status = 'in_doubt') as waits_for_person
from perdure.effect f
left join perdure.ident i on i.lifecycle = f.lifecycle and i.id = f.id
-- `offset 0`: for one after the other. How many of them wait for a person PostgreSQL can't know, so it would often read all of them.
left join lateral (
    select x.lifecycle, x.state, x.attention, x.left_to from perdure.entity x
    where x.lifecycle = f.lifecycle and x.id = f.id and x.generation = f.generation offset 0) e on true
where e.left_to is null and (f.status = 'in_doubt' or (f.status = 'attempting' and f.deadline < now()))
