-- Open entities behind ($1, $2), lifecycle and id, in the order of their keys: $3 at most. Not those that a copied
-- database leaves to its original.
select e.lifecycle, e.id, e.generation, i.version
from perdure.entity e join perdure.ident i using (lifecycle, id)
where (e.lifecycle, e.id) > ($1, $2) and e.left_to is null
order by e.lifecycle, e.id
limit $3
