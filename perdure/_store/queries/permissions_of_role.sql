-- What was granted to a role, by kind, and whether it counts. It counts if it is on record under the role's name and its oid. Under
-- one of the two it may still be what gave the role its rights: before it was renamed, or on the server that a dump is from.
select p.kind, r.rolname = p.role and r.oid = p.role_oid as counts,
    coalesce(array_agg(distinct p.lifecycle) filter (where p.lifecycle is not null), '{}') as lifecycles,
    coalesce(array_agg(distinct p.tenant) filter (where p.tenant is not null), '{}') as tenants
from perdure.permission p join pg_roles r on r.rolname = p.role or r.oid = p.role_oid
where r.rolname = $1
group by 1, 2
order by 1, 2
