-- Starts each open entity again, after all other rows, because a new epoch has begun and its run may have ended in commits that
-- are lost. A run that is still open continues. It may have received messages that are lost too, so new messages get places
-- behind all that it can have received. Otherwise it would take them for those.
with gap as (
    insert into perdure.message (lifecycle, id, generation, message_id, kind, name, ordinal, delivered_at)
    select e.lifecycle, e.id, e.generation, 'perdure-epoch ' || perdure.epoch(), 'dropped', '', last.ordinal + 1000000, clock_timestamp()
    from perdure.entity e cross join lateral (
        select coalesce(max(m.ordinal), 0) as ordinal from perdure.message m
        where m.lifecycle = e.lifecycle and m.id = e.id and m.generation = e.generation
    ) last
    where e.left_to is null
    on conflict do nothing
)
select count(perdure.deliver_again(e.lifecycle, e.id)) from perdure.entity e where e.left_to is null
