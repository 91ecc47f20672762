-- Puts aside what has waited for $2 for a name that no relay has known for as long, if the relay $1 has run for as long.
-- How many rows that were.
select perdure.reject_unknown($2) from perdure.relay
where id = $1 and began_at < clock_timestamp() - $2::interval
