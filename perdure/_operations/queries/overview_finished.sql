-- How many ended, of those that are on record still: counted up to $1, beyond that as many as PostgreSQL estimates.
with counted as (select count(*) as n from (select from perdure.finished limit $1::bigint + 1) x)
select case when n <= $1 then n else greatest(n, (
        select sum(greatest(c.reltuples, 0))::bigint from pg_inherits i join pg_class c on c.oid = i.inhrelid
        where i.inhparent = 'perdure.finished'::regclass)) end as finished,
    n > $1 as estimated
from counted
