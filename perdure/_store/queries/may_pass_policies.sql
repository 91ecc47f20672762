-- What the policies of row-level security of a table $1 let no role of this session do to any row: `read` or `update`; null = neither.
select m.act from (values (1, 'read', 'r'::"char"), (2, 'update', 'w')) m(n, act, cmd)
where row_security_active($1::text::regclass) and not exists (
    select from pg_policy p where p.polrelid = $1::text::regclass and p.polpermissive and p.polcmd in ('*', m.cmd)
        and exists (select from unnest(p.polroles) r where r = 0 or pg_has_role(r, 'usage')))
order by m.n limit 1
