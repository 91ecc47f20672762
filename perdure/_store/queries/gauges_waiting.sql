-- The number of rows in the outbox, the wait of the oldest, and the number of app rows that are behind. A row that the app requested
-- later counts once it is due.
select
    count(*) filter (where due) as waiting,
    count(*) filter (where not due) as later,
    coalesce(greatest(extract(epoch from clock_timestamp() - min(since) filter (where due)), 0), 0)::float as lag,
    (select count(distinct (lifecycle, id)) from perdure.behind) as behind,
    (select coalesce(sum(waiting), 0)::bigint from perdure.unknown_names()) as unknown
from (
    select due_at is null or due_at <= clock_timestamp() as due, greatest(created_at, due_at) as since
    from perdure.outbox
) o
