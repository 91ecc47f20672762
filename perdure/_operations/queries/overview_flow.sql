-- Counters of begun lifecycles, begun effects and ended lifecycles, from PostgreSQL's statistics of tables. The difference of two
-- readings is the number in between. The counters start at the last reset of the statistics, and include rolled-back rows.
select
    clock_timestamp() as at,
    coalesce(sum(n_tup_ins) filter (where relname = 'entity'), 0)::bigint as started,
    coalesce(sum(n_tup_del) filter (where relname = 'entity'), 0)::bigint as ended,
    coalesce(sum(n_tup_ins) filter (where relname = 'effect'), 0)::bigint as effects
from pg_stat_all_tables
where schemaname = 'perdure' and relname in ('entity', 'effect')
