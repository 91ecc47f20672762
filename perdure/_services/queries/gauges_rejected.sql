-- Rejected rows that nobody has retried or dropped yet, without those that a copied database leaves to its original.
select j.lifecycle, j.kind, count(*) as rejected
from perdure.rejected j
left join perdure.entity e on e.lifecycle = j.lifecycle and e.id = j.id and e.generation = j.generation
where e.left_to is null
group by j.lifecycle, j.kind
