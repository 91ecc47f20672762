-- The doses of a day by local hour and what became of them; of the rules with the most doses, the same by rule.
with counted as materialized (
    select rule, hour, kind, count(*) as doses from reminders.doses_due($1, $2)
    where $3::text is null or rule = $3 group by rule, hour, kind),
most as (select rule from counted group by rule order by sum(doses) desc, rule limit $4)
select hour, null as rule, kind, sum(doses)::bigint as doses from counted group by hour, kind
union all
select null, rule, kind, sum(doses)::bigint from counted where rule in (select rule from most) group by rule, kind
