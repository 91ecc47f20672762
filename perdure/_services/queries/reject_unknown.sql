-- Rejects rows that have waited for $2 for a name that no relay has had during that time, if the relay $1 has run for as long.
-- Returns the number of rows.
select perdure.reject_unknown($2) from perdure.relay
where id = $1 and began_at < clock_timestamp() - $2::interval
