-- Effects in doubt, and attempts past their deadline without an outcome, including those of ended entities, but not those that a
-- copied database leaves to its original: $1 lifecycles. `effect` is the contract's name, without the suffix.
select
    f.lifecycle, split_part(f.effect, '/', 1) as effect, count(*) as in_doubt,
    greatest(extract(epoch from clock_timestamp() - min(f.deadline)), 0)::float as oldest
from perdure.effect f
left join perdure.entity e on e.lifecycle = f.lifecycle and e.id = f.id and e.generation = f.generation
where f.status in ('attempting', 'in_doubt') and f.lifecycle = any($1)
    and (f.status = 'in_doubt' or f.deadline < clock_timestamp()) and e.left_to is null
group by 1, 2
