-- Notes that the relay $1 does not run any more: it counts as last seen a minute ago.
update perdure.relay set seen_at = least(seen_at, clock_timestamp() - interval '1 minute'), notified = false where id = $1
