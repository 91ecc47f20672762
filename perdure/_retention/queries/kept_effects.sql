with settled as (
    select e.key from perdure.kept_effect k join perdure.effect e using (key)
    where e.status not in ('attempting', 'in_doubt') limit $1 for update of e skip locked
), gone as (
    delete from perdure.effect e using settled where e.key = settled.key
)
delete from perdure.kept_effect k
where k.key in (select key from settled) or not exists (select from perdure.effect e where e.key = k.key)
