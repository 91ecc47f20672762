-- What applications made for a kind of roles, by the first word of its comment: tables and views to read, functions to call. Without
-- what the role $2 owns, which needs no right there.
select x.mark, quote_ident(n.nspname) as schema, x.what, x.may
from (
    select split_part(obj_description(oid, 'pg_proc'), ' ', 1), pronamespace, proowner, 'function ' || oid::regprocedure, 'execute'
    from pg_proc
    union all
    select split_part(obj_description(oid, 'pg_class'), ' ', 1), relnamespace, relowner,
        (select format('%I.%I', nspname, relname) from pg_namespace where oid = relnamespace), 'select'
    from pg_class where relkind in ('r', 'p', 'v', 'm')
) x (mark, namespace, owner, what, may)
join pg_namespace n on n.oid = x.namespace join pg_roles r on r.oid = x.owner
where x.mark = any ($1::text[]) and r.rolname <> $2
order by x.may, x.what
