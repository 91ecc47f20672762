-- The number of finished entities on record: counted up to $1, estimated by PostgreSQL beyond that.
with counted as (select count(*) as n from (select from perdure.finished limit $1::bigint + 1) x)
select case when n <= $1 then n else greatest(n, (
        select sum(greatest(c.reltuples, 0))::bigint from pg_inherits i join pg_class c on c.oid = i.inhrelid
        where i.inhparent = 'perdure.finished'::regclass)) end as finished,
    n > $1 as estimated
from counted
