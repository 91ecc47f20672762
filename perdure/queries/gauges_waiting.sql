-- What waits in the outbox, how long its oldest row has, and how many app rows are behind.
select
    (select count(*) from perdure.outbox) as waiting,
    coalesce((
        select greatest(extract(epoch from clock_timestamp() - created_at), 0) from perdure.outbox order by seq limit 1
    ), 0)::float as lag,
    (select count(*) from perdure.behind) as behind
