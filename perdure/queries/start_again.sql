-- A new epoch has begun: each open entity is started again, behind all else, lest its run ended in commits that are lost.
-- One whose run is open goes on with that.
insert into perdure.outbox (lifecycle, id, round, kind, priority)
select e.lifecycle, e.id, e.round, 'start', 5
from perdure.entity e
where not exists (
    select from perdure.outbox o where o.lifecycle = e.lifecycle and o.id = e.id and o.kind = 'start')
