select lifecycle, id, count(*) as rows from perdure.carried_transition
where at >= $1 and at < $2 group by lifecycle, id order by lifecycle, id
