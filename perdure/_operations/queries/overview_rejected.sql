-- Rejected rows that nobody has retried or dropped yet, without those that a copied database leaves to its original. $1 and $2 as in
-- overview.sql.
select count(*)
from perdure.rejected j
left join perdure.entity e on e.lifecycle = j.lifecycle and e.id = j.id and e.generation = j.generation
where e.left_to is null and ($1::text[] is null or exists (
    select from unnest($1::text[], $2::text[]) as r (lifecycle, tenant)
    where (r.lifecycle is null or r.lifecycle = j.lifecycle) and (r.tenant is null or r.tenant = (
        select i.tenant from perdure.ident i where i.lifecycle = j.lifecycle and i.id = j.id))))
