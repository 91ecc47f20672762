-- The recorded tenants of an entity, also after its months were dropped.
create or replace function perdure.tenants(lifecycle text, entity_id text) returns text[]
language sql stable security definer set search_path = perdure, pg_temp as $$
    select array(select tenant from entity e where e.lifecycle = $1 and e.id = $2 and tenant is not null
        union select tenant from ident i where i.lifecycle = $1 and i.id = $2 and tenant is not null
        union select tenant from finished f where f.lifecycle = $1 and f.id = $2 and tenant is not null)
$$;
