select lifecycle, id from perdure.entity e
where exists (
    select from perdure.{transition} t where t.lifecycle = e.lifecycle and t.id = e.id and t.generation = e.generation)
limit $1
