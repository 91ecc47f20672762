-- Whether rows of the lifecycles $1 are due. It runs often, so it takes one round trip and no lock. It uses now(), because the
-- index is not used with a clock that moves during the statement.
select exists (
    select from unnest($1::text[]) l(name) cross join generate_series(1, 5) p cross join lateral (
        select from perdure.outbox o
        where o.lifecycle = l.name and o.priority = p and o.not_before <= now()
        order by o.not_before
        limit 1
    ) first)
