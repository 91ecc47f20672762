-- The number of due columns, as in `columns_due`; at most 1000 are counted.
create or replace function perdure.columns_waiting() returns int
language sql stable security definer set search_path = perdure, pg_temp
return (select count(*)::int from (
    select from perdure.behind b
    where b.next_try <= clock_timestamp() or b.next_try > clock_timestamp() + interval '1 minute' limit 1000) few);
