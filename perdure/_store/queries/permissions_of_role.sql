select p.kind, p.lifecycle, p.tenant from perdure.permission p join pg_roles r on r.oid = p.role_oid and r.rolname = p.role
where p.role = $1 and p.kind <> $2
