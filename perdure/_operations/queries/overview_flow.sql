-- How many lifecycles and effects have begun, and how many lifecycles have ended, as PostgreSQL counts changes of tables: two of these
-- tell how many in between. Since its statistics were reset, and with what was rolled back.
select
    clock_timestamp() as at,
    coalesce(sum(n_tup_ins) filter (where relname = 'entity'), 0)::bigint as started,
    coalesce(sum(n_tup_del) filter (where relname = 'entity'), 0)::bigint as ended,
    coalesce(sum(n_tup_ins) filter (where relname = 'effect'), 0)::bigint as effects
from pg_stat_all_tables
where schemaname = 'perdure' and relname in ('entity', 'effect')
