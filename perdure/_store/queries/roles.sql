-- Roles by name, as statements name them: the role, its oid, and its policy; whether it owns the schema, and whether no
-- limit can hold for it. No two roles share the name of a policy. The name of a role is not enough for that: PostgreSQL cuts the end
-- off, and a renamed role keeps the policy with its old name. Nor is the oid: a restored dump has those of another server.
select quote_ident(r.rolname) as name, quote_literal(quote_ident(r.rolname)) || '::regrole' as oid,
    quote_ident(('perdure ' || r.oid || ' ' || r.rolname)::name) as policy,
    owns.it as owner, owns.it or r.rolsuper or r.rolbypassrls as unlimited
from pg_roles r, lateral (select exists (select from pg_namespace n where n.nspname = 'perdure' and n.nspowner = r.oid) as it) owns
where r.rolname = any($1::text[])
