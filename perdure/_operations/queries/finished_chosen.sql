-- Finished entities that were not restarted since. The caller adds filters, an order and a limit.
select f.lifecycle, f.id, f.generation, f.state, f.finished_at
from perdure.finished f
join perdure.ident i on i.lifecycle = f.lifecycle and i.id = f.id and i.generation = f.generation and i.final = f.state
