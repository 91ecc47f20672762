-- Seconds since the begin of the last finished reconciliation of everything; without one, since its tables were created. If none was
-- configured for some time, the time counts from $1 hours, the interval, before the next one began.
with last as (
    select coalesce(
        (select max(began_at) from perdure.reconciliation where ended_at is not null and summary->>'only' is null),
        (select applied_at from perdure.migration where number = 1)) as at
)
select extract(epoch from clock_timestamp() - greatest(last.at, (
    select min(r.began_at) - $1::float * interval '1 hour' from perdure.reconciliation r
    where r.began_at > last.at and r.summary->>'only' is null)))::float
from last
