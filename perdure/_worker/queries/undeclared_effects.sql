-- Effects of open entities of the lifecycle $1 that are attempting or in doubt and not among $2, each with one entity as an
-- example.
select distinct on (split_part(f.effect, '/', 1)) split_part(f.effect, '/', 1) as effect, f.id
from perdure.effect f
join perdure.ident i on i.lifecycle = f.lifecycle and i.id = f.id and i.generation = f.generation
where f.lifecycle = $1 and f.status in ('attempting', 'in_doubt') and i.final is null
    and split_part(f.effect, '/', 1) <> all ($2::text[])
order by 1, f.id
