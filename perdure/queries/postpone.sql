-- To be tried again later and later, up to half a minute: $1 seq, $2 what went wrong.
update perdure.outbox
set tries = tries + 1,
    error = $2,
    not_before = clock_timestamp() + make_interval(secs => least(0.5 * 2 ^ least(tries, 6), 30))
where seq = $1
