-- The tables of the app that this transaction has read so far, and whether it locks their rows.
select l.relation::regclass::text as name, bool_or(l.mode = 'RowShareLock') as locked
from pg_catalog.pg_locks l join pg_catalog.pg_class c on c.oid = l.relation
where l.pid = pg_catalog.pg_backend_pid() and l.locktype = 'relation' and c.relkind in ('r', 'p', 'f')
    and c.relnamespace::regnamespace::text not in ('pg_catalog', 'information_schema', 'perdure')
group by l.relation order by 1
