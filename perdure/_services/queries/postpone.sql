-- Puts off a row, for up to half a minute with each further try: $1 lifecycle, $2 id, $3 seq, $4 the error. The rows behind it
-- in the entity's order wait as long.
with failed as (
    update perdure.outbox
    set tries = tries + 1,
        error = $4,
        not_before = clock_timestamp() + make_interval(secs => least(0.5 * 2 ^ least(tries, 6), 30))
    where lifecycle = $1 and id = $2 and seq = $3
    returning not_before
)
update perdure.outbox o set not_before = failed.not_before
from failed where o.lifecycle = $1 and o.id = $2 and o.seq <> $3 and o.not_before <= now()
