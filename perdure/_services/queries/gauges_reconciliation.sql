-- Seconds since the begin of the last finished reconciliation of everything; without one, since its tables were created.
select extract(epoch from clock_timestamp() - coalesce(
    (select max(began_at) from perdure.reconciliation where ended_at is not null and summary->>'only' is null),
    (select applied_at from perdure.migration where number = 1)))::float
