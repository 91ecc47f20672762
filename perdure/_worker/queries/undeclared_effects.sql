-- Effects of open lifecycles named $1 that are attempted or in doubt now, and that are none of $2, each with one that has it.
select distinct on (split_part(f.effect, '/', 1)) split_part(f.effect, '/', 1) as effect, f.id
from perdure.effect f
join perdure.ident i on i.lifecycle = f.lifecycle and i.id = f.id and i.generation = f.generation
where f.lifecycle = $1 and f.status in ('attempting', 'in_doubt') and i.final is null
    and split_part(f.effect, '/', 1) <> all ($2::text[])
order by 1, f.id
