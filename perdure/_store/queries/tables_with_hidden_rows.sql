-- The tables of this transaction whose policies of row-level security may hide rows from this role. A table that it has written needs a
-- policy USING (true) for changes as well, and no policy may restrict that one.
with used as (
    select l.relation as id, bool_or(l.mode = 'RowExclusiveLock') as written from pg_catalog.pg_locks l
    where l.pid = pg_catalog.pg_backend_pid() and l.locktype = 'relation' group by l.relation
), policy as (
    select p.polrelid, p.polcmd, p.polpermissive, pg_catalog.pg_get_expr(p.polqual, p.polrelid) = 'true' as shows_all
    from pg_catalog.pg_policy p
    where exists (select from unnest(p.polroles) r where r = 0 or pg_catalog.pg_has_role(r, 'usage'))
)
select u.id::regclass::text as name from used u
where pg_catalog.row_security_active(u.id) and exists (
    select from (values ('r'::"char"), ('w'), ('d')) needed(cmd)
    where (needed.cmd = 'r' or u.written) and (
        not exists (select from policy p
            where p.polrelid = u.id and p.polcmd in ('*', needed.cmd) and p.polpermissive and p.shows_all)
        or exists (select from policy p
            where p.polrelid = u.id and p.polcmd in ('*', needed.cmd) and not p.polpermissive and not p.shows_all)))
order by 1
