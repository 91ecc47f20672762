select lifecycle, id from perdure.entity e
where exists (
    select from perdure.{transition} t where t.lifecycle = e.lifecycle and t.id = e.id and t.round = e.round)
limit $1
