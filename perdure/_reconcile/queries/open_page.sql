-- Open entities after ($1, $2), lifecycle and id, in the order of their keys, up to $3. It skips those that a copied database
-- leaves to its original.
select e.lifecycle, e.id, e.generation, i.version
from perdure.entity e join perdure.ident i using (lifecycle, id)
where (e.lifecycle, e.id) > ($1, $2) and e.left_to is null
order by e.lifecycle, e.id
limit $3
