select to_date(right(c.relname, 7), 'YYYY_MM') as month, left(c.relname, -8) as part, c.relname as name,
    i.inhrelid is not null as attached, pg_total_relation_size(c.oid) as bytes,
    case when c.reltuples < 0 then pg_stat_get_live_tuples(c.oid) else c.reltuples::bigint end as rows
from pg_class c left join pg_inherits i on i.inhrelid = c.oid
where c.relnamespace = 'perdure'::regnamespace and c.relkind = 'r' and c.relname ~ '^(finished|transition)_[0-9]{4}_[0-9]{2}$'
order by month, part
