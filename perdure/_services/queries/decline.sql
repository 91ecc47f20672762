-- Notes that the code of relay $4 cannot deliver the row $1, $2, $3 (lifecycle, id, seq), nor the rows behind it. Returns true
-- if no other running relay may be able to.
with those as (
    update perdure.outbox o set declined = array_append(array_remove(o.declined, $4), $4)
    where o.lifecycle = $1 and o.id = $2 and (o.seq = $3 or o.not_before <= now())
    returning o.lifecycle, o.seq, o.declined
)
select perdure.all_declined(lifecycle, declined) from those where seq = $3
