-- Puts an open entity's start, unless it was rejected, and the messages since its snapshot, into the outbox again. An open run
-- continues, and processes no message twice. The plan is kept to the primary key of the outbox, as in `start_again`.
create or replace function perdure.deliver_again(lifecycle text, entity_id text) returns void
language plpgsql set search_path = perdure, pg_temp set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off as $$
#variable_conflict use_column
begin
    insert into outbox (lifecycle, id, generation, kind, body, priority)
        select e.lifecycle, e.id, e.generation, 'start', '{"again": true}', 5 from entity e
        where e.lifecycle = deliver_again.lifecycle and e.id = entity_id and (
            select o.seq from outbox o where o.lifecycle = e.lifecycle and o.id = e.id and o.kind = 'start' order by o.seq limit 1) is null
            and not exists (
                select from rejected r where r.lifecycle = e.lifecycle and r.id = e.id and r.generation = e.generation and r.kind = 'start');
    insert into outbox (lifecycle, id, generation, kind, message_id, priority)
        select m.lifecycle, m.id, m.generation, 'message', m.message_id, 5
        from entity e join message m on m.lifecycle = e.lifecycle and m.id = e.id and m.generation = e.generation
        where e.lifecycle = deliver_again.lifecycle and e.id = entity_id
            and m.ordinal > e.acknowledged and m.kind <> 'dropped'
            and (
                select o.seq from outbox o where o.lifecycle = m.lifecycle and o.id = m.id and o.generation = m.generation
                    and o.message_id = m.message_id order by o.seq limit 1) is null
            and not exists (
                select from rejected r where r.lifecycle = m.lifecycle and r.id = m.id and r.generation = m.generation
                    and r.message_id = m.message_id);
end $$;
