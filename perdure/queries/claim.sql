-- What is due for delivery, oldest first, for as long as the transaction lasts: $1 at most so many.
select
    o.seq, o.lifecycle, o.id, o.round, o.kind, o.body, o.tries, o.traceparent,
    o.created_at < clock_timestamp() - interval '10 min' as old,
    e.input, i.version,
    (i.round <> o.round or i.final is not null) as over
from perdure.outbox o
join perdure.ident i using (lifecycle, id)
left join perdure.entity e using (lifecycle, id)
where o.not_before <= clock_timestamp()
order by o.seq
limit $1
for update of o skip locked
