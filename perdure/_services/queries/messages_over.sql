-- Deletes messages that an end or a delivery has left behind, of up to 5000 after the key $1, $2, $3, $4: lifecycle, id, generation,
-- message id. Such a message was sent while its entity's end was being committed, or its row in the outbox was rejected. A row in
-- the outbox or in `rejected` still needs its message. Returns the last key if more may follow. It reads only primary keys, so
-- its cost does not depend on the number of entities; `offset 0` keeps the planner from reading all of `ident`.
with page as materialized (
    select m.lifecycle, m.id, m.generation, m.message_id from perdure.message m
    where (m.lifecycle, m.id, m.generation, m.message_id) > ($1, $2, $3, $4)
    order by m.lifecycle, m.id, m.generation, m.message_id
    limit 5000
), over as materialized (
    select p.* from page p cross join lateral (
        select from perdure.ident i
        where i.lifecycle = p.lifecycle and i.id = p.id and (i.final is not null or i.generation > p.generation)
        offset 0
    ) i
), free as materialized ( -- a message that another session holds stays until the next time
    select m.lifecycle, m.id, m.generation, m.message_id from over p join perdure.message m
        on m.lifecycle = p.lifecycle and m.id = p.id and m.generation = p.generation and m.message_id = p.message_id
    for update of m skip locked
), gone as (
    delete from perdure.message m using free p
    where m.lifecycle = p.lifecycle and m.id = p.id and m.generation = p.generation and m.message_id = p.message_id
        and not exists (
            select from perdure.outbox o where o.lifecycle = p.lifecycle and o.id = p.id and o.generation = p.generation
                and o.message_id = p.message_id)
        and not exists (
            select from perdure.rejected r where r.lifecycle = p.lifecycle and r.id = p.id and r.generation = p.generation
                and r.message_id = p.message_id)
)
select lifecycle, id, generation, message_id from page
order by lifecycle, id, generation, message_id
limit 1 offset 4999
