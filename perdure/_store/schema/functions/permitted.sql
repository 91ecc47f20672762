-- Whether the asking role has a permission of one of these kinds for an entity.
create or replace function perdure.permitted(kinds text[], lifecycle text, tenants text[]) returns boolean
language plpgsql stable security definer set search_path = perdure, pg_temp as $$
begin
    return exists (select from permission p
        where p.kind = any(kinds) and (p.lifecycle is null or p.lifecycle = permitted.lifecycle)
            and (p.tenant is null or p.tenant = any(permitted.tenants))
            and exists (select from pg_roles r where r.oid = p.role_oid and r.rolname = p.role
                and pg_has_role(asking_role(), r.oid, 'usage')));
end $$;
