-- Clears up to 1000 failures of earlier code, those recorded before the transaction $1. A run that still fails reports it again.
-- Rows that another session holds are left to the next look. Returns how many were cleared, and whether any were found.
with earlier as (
    select lifecycle, id from perdure.entity
    where attention like 'its code fails: %' and age(xmin) > age($1::xid)
    limit 1000
    for update skip locked
), cleared as (
    update perdure.entity e set attention = null from earlier
    where e.lifecycle = earlier.lifecycle and e.id = earlier.id
    returning 1
)
select
    (select count(*) from cleared) as cleared,
    exists (select from perdure.entity where attention like 'its code fails: %' and age(xmin) > age($1::xid)) as found
