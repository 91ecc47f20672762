-- A new epoch has begun: each open entity is started again, behind all else, lest its run ended in commits that are lost.
-- One whose run is open goes on with that. It may have heard messages that are lost, too: those that come now get places
-- behind all that it can have heard, else it would take them for these.
with gap as (
    insert into perdure.message (lifecycle, id, generation, message_id, kind, name, ordinal, delivered_at)
    select e.lifecycle, e.id, e.generation, 'epoch ' || perdure.epoch(), 'dropped', '', last.ordinal + 1000000, clock_timestamp()
    from perdure.entity e cross join lateral (
        select coalesce(max(m.ordinal), 0) as ordinal from perdure.message m
        where m.lifecycle = e.lifecycle and m.id = e.id and m.generation = e.generation
    ) last
    where e.epoch < perdure.epoch() and e.left_to is null
    on conflict do nothing
)
select count(perdure.deliver_again(e.lifecycle, e.id)) from perdure.entity e where e.epoch < perdure.epoch() and e.left_to is null
