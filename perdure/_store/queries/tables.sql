-- The tables of the schema, whether their rows are of entities, and whether they have the tenant; without the months, whose rights
-- are those of their parents. `columns` has all columns but `session_role`, which PostgreSQL fills in; `grantees` has the other roles than
-- $1 with a right on the table and without a policy; `policies` has those that grants made for $1, by any name.
select quote_ident(c.relname) as name, c.relrowsecurity as secured,
    (select count(*) from pg_attribute a where a.attrelid = c.oid and a.attname in ('lifecycle', 'id')) = 2 as of_entity,
    exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'tenant') as of_tenant,
    (select string_agg(quote_ident(a.attname), ', ' order by a.attnum) from pg_attribute a
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attname <> 'session_role') as columns,
    array(select distinct r.rolname::text from aclexplode(c.relacl) g join pg_roles r on r.oid = g.grantee
        where r.rolname <> $1::text and r.oid <> c.relowner and not exists (
            select from pg_policy p where p.polrelid = c.oid and p.polroles = array[r.oid])) as grantees,
    array(select quote_ident(p.polname) from pg_policy p join pg_roles r on p.polroles = array[r.oid]
        where p.polrelid = c.oid and p.polname ^@ 'perdure ' and r.rolname = $1::text order by 1) as policies
from pg_class c
where c.relnamespace = to_regnamespace('perdure') and c.relkind in ('r', 'p') and not c.relispartition
    and c.relname !~ '^(finished|transition)_[0-9]{4}_[0-9]{2}$' -- a month that is being dropped is no partition any more
order by c.relname
