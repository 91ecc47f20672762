-- An app row that could not be brought up to date is tried again later, by itself: $1 lifecycle, $2 id, $3 why.
update perdure.behind set error = $3, tries = tries + 1,
    next_try = clock_timestamp() + least(interval '1 s' * power(2, least(tries, 20)), interval '1 minute')
where lifecycle = $1 and id = $2
