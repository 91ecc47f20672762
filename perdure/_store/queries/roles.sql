-- Roles by name, as statements name them: the role, its oid, and its policy; and whether it owns the schema. No two roles share the
-- name of a policy. The name of a role is not enough for that: PostgreSQL cuts the end off, and a renamed role keeps the policy with
-- its old name. Nor is the oid: a restored dump has those of another server.
select quote_ident(r.rolname) as name, quote_literal(quote_ident(r.rolname)) || '::regrole' as oid,
    quote_ident(('perdure ' || r.oid || ' ' || r.rolname)::name) as policy,
    exists (select from pg_namespace n where n.nspname = 'perdure' and n.nspowner = r.oid) as owner
from pg_roles r where r.rolname = any($1::text[])
