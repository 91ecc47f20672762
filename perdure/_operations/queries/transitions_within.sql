-- The numbers after $1 of transitions of entities within reach: the lifecycles $2 and the tenants $3, pairwise; null in one = all.
select t.seq
from perdure.transition t
where t.seq > $1 and exists (
    select from unnest($2::text[], $3::text[]) as r (lifecycle, tenant)
    where (r.lifecycle is null or r.lifecycle = t.lifecycle)
      and (r.tenant is null or exists (
          select from perdure.ident i where i.lifecycle = t.lifecycle and i.id = t.id and i.tenant = r.tenant)))
