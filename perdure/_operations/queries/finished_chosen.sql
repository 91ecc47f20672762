-- Entities that are finished, to which filters, an order and a limit are added; who was restarted meanwhile is none.
select f.lifecycle, f.id, f.generation, f.state, f.finished_at
from perdure.finished f
join perdure.ident i on i.lifecycle = f.lifecycle and i.id = f.id and i.generation = f.generation and i.final = f.state
