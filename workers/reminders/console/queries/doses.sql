-- A page of the doses within a local time, by id: of one rule, or what became of them alike.
select id, rule, state, why, kind, started from reminders.doses_due($1, $2)
where ($3::text is null or rule = $3) and ($4::text is null or kind = $4) and id > $5
order by id limit $6
