with page as (
    select lifecycle, id, generation from perdure.{finished} where (lifecycle, id, generation) > ($1::text, $2::text, $3::int)
    order by lifecycle, id, generation limit $4
), settled as (
    select e.key from page join perdure.effect e using (lifecycle, id, generation)
    where e.status not in ('attempting', 'in_doubt') for update of e skip locked
), gone as (
    delete from perdure.effect e using settled where e.key = settled.key
), kept as (
    insert into perdure.kept_effect (key, month)
        select e.key, $5 from page join perdure.effect e using (lifecycle, id, generation)
        where not exists (select from settled where settled.key = e.key)
        on conflict do nothing
), rejected as (
    delete from perdure.rejected r using page
    where r.lifecycle collate "C" = page.lifecycle and r.id collate "C" = page.id and r.generation = page.generation
), behind as (
    delete from perdure.behind b using page join perdure.ident i using (lifecycle, id, generation)
    where b.lifecycle = page.lifecycle and b.id = page.id and i.final is not null
)
select lifecycle, id, generation from page order by lifecycle desc, id desc, generation desc limit 1
