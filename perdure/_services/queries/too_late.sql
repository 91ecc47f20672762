-- Deletes messages that came after the entity's end, or for an earlier generation: $1 lifecycles, $2 ids, $3 generations,
-- $4 message ids.
delete from perdure.message m using unnest($1::text[], $2::text[], $3::int[], $4::text[]) k(lifecycle, id, generation, message_id)
where m.lifecycle = k.lifecycle and m.id = k.id and m.generation = k.generation and m.message_id = k.message_id
