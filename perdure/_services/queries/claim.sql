-- Locks up to $1 entities with due rows, of the lifecycles $2, until the transaction ends; the most urgent first. It skips rows
-- that the relay $3 has declined, and entities that other sessions hold: up to 10000 rows, which are only read if they are held,
-- because an operator may hold an entity for long for which many messages wait. The next statement must read the rows to deliver:
-- the snapshot of this one is older than its locks, and may contain rows that another relay has delivered since.
-- A copied or restored database delivers nothing (invariant 11).
with due as materialized (
    select o.lifecycle, o.id
    from (
        select p.p, l.name from generate_series(1, 5) p(p) cross join unnest($2::text[]) with ordinality l(name, n)
        order by p.p, l.n
    ) k
    cross join lateral (
        select x.lifecycle, x.id from perdure.outbox x
        where x.lifecycle = k.name and x.priority = k.p and x.not_before <= now() and $3 <> all(x.declined)
        order by x.not_before, x.seq
        limit 10000
    ) o
    where (select perdure.check_database())
    limit 10000
), mine as (
    select lifecycle, id from due
    where pg_try_advisory_xact_lock(hashtextextended(lifecycle || '/' || id, 1885696612))
    limit $1
)
select distinct lifecycle, id from mine
