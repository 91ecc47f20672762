-- Who requested the end of an entity last, and why that was rejected, if it was: $1 lifecycle, $2 id, $3 id of the message.
select
    (select t.made_by from perdure.transition t
        where t.lifecycle = i.lifecycle and t.id = i.id and t.generation = i.generation and starts_with(t.why, 'cancel requested')
        order by t.version desc limit 1) as made_by,
    (select r.reason from perdure.rejected r where r.lifecycle = i.lifecycle and r.id = i.id and r.message_id = $3) as rejected
from perdure.ident i where i.lifecycle = $1 and i.id = $2
