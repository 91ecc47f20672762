-- Of these entities: those that are open, and those with an effect in doubt.
select e.lifecycle, e.id, i.final is null as open, x.key
from unnest($1::text[], $2::text[]) e (lifecycle, id)
join perdure.ident i on i.lifecycle = e.lifecycle and i.id = e.id
left join lateral (
    select key from perdure.effect f where f.lifecycle = e.lifecycle and f.id = e.id and f.status in ('attempting', 'in_doubt')
    limit 1) x on true
where i.final is null or x.key is not null
order by i.final is null desc, e.lifecycle, e.id
