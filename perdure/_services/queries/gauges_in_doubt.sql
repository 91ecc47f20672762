-- Effects in doubt, and attempts past their deadline without an outcome, including those of ended entities: $1 lifecycles.
-- `effect` is the contract's name, without the suffix.
select
    lifecycle, split_part(effect, '/', 1) as effect, count(*) as in_doubt,
    greatest(extract(epoch from clock_timestamp() - min(deadline)), 0)::float as oldest
from perdure.effect
where status in ('attempting', 'in_doubt') and lifecycle = any($1)
    and (status = 'in_doubt' or deadline < clock_timestamp())
group by 1, 2
